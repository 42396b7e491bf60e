"""Spans of OpenTelemetry, for whoever wants them: a message carries its trace, and whoever works at it goes on.

Nothing here is imported or paid for by a connection that is not traced. The trace's context travels as properties,
those of W3C Trace Context (`traceparent`) unless the process has chosen others; the spans have the names and attributes
of OpenTelemetry's semantic conventions for messaging: so whatever else of an application is traced, and in whatever
language, joins in.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import Invalid, NotAllowed
from .message import Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from .aio.aio import AsyncConnection
    from .books.sender import SenderCore
    from .sync.sync import Connection

SYSTEM = "mantamq"
"""What the attribute `messaging.system` says."""
DEFAULT_EXCHANGE = "amq.default"
"""What the exchange without a name is called in spans, as RabbitMQ calls it; requests to a queue go through it."""


def traced(connection: Connection | AsyncConnection, provider: TracerProvider | None = None) -> None:
    """From now on each message that senders of this connection send has a span "send ADDRESS" (of the kind producer),
    and carries that span's context. The span is part of the current one, and ends when the message is taken into its
    sender's capacity, not when it is complete.

    The message that was given is left as it is: a copy with these properties goes. Where nothing is recorded (no
    provider is set, and no span is current) the message goes without them.

    Args:
        provider: of the spans; None: the one that is set for the whole process.

    Raises:
        NotAllowed: opentelemetry-api is not installed; or the connection has senders, which would not be traced.
    """
    conversation = connection._conversation
    if conversation.on_sender is None and conversation.has_senders:
        raise NotAllowed("this connection has senders that are not traced: trace it before its first sender")
    tracing = _Tracing(provider)
    conversation.on_sender = tracing.trace


def context_of(message: Message) -> Context:
    """The context that a message came with, to begin a span in; an empty one for a message without.

    Raises:
        NotAllowed: opentelemetry-api is not installed.
    """
    _api()
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract

    properties = message.properties or {}
    carrier = {name: value for name, value in properties.items() if isinstance(value, str)}
    return extract(carrier, context=Context())


@contextmanager
def processing(message: Message, provider: TracerProvider | None = None) -> Generator[Span]:
    """Work at a received message within a span "process QUEUE" (of the kind consumer), which belongs to the trace that
    the message came with. It is the current span meanwhile, so what is sent or asked within belongs to it. An exception
    is recorded in it, and goes on. Settling the message is its consumer's, as ever.

    Args:
        provider: of the span; None: the one that is set for the whole process.

    Raises:
        NotAllowed: opentelemetry-api is not installed. Invalid: the message was not received from a queue.
    """
    api = _api()
    if not message.queue:
        raise Invalid("a message of one's own is in no queue yet: only one that was received is processed")
    context = context_of(message)
    sent = api.get_current_span(context).get_span_context()
    attributes = _attributes("process", message.queue, message) | {
        "mantamq.position": message.position,
        "mantamq.delivery_count": message.delivery_count,
    }
    with api.get_tracer(SYSTEM, tracer_provider=provider).start_as_current_span(
        f"process {message.queue}", context if sent.is_valid else None, api.SpanKind.CONSUMER, attributes,
        [api.Link(sent)] if sent.is_valid else None,
    ) as span:  # fmt: skip
        yield span


class _Tracing:
    """The spans of one connection's senders."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._api = _api()
        self._tracer = self._api.get_tracer(SYSTEM, tracer_provider=provider)

    def trace(self, core: SenderCore) -> None:
        """Have all that is put into these books from now on go through here."""
        core.put = self._around(core.put, core.address or DEFAULT_EXCHANGE)

    def _around(self, put: Callable[[Any], None], address: str) -> Any:
        from opentelemetry.propagate import inject

        def traced_put(message: Message | bytes | str) -> None:
            if not isinstance(message, Message):
                message = Message(message)
            attributes = _attributes("send", address, message)
            with self._tracer.start_as_current_span(
                f"send {address}", kind=self._api.SpanKind.PRODUCER, attributes=attributes
            ):
                carrier: dict[str, str] = {}
                inject(carrier)
                put(_with(message, carrier))

        return traced_put


def _with(message: Message, carrier: dict[str, str]) -> Message:
    """A copy of a message that carries this besides; the message itself, if that is nothing."""
    properties = message.properties
    if not carrier or not (properties is None or isinstance(properties, dict)):
        return message  # properties that are none are refused when it is sent
    message = copy.copy(message)
    message.properties = {**(properties or {}), **carrier}
    return message


def _attributes(operation: str, destination: str, message: Message) -> dict[str, Any]:
    """As the conventions name them; what is not said, or no text, is left out."""
    texts = {"messaging.message.id": message.message_id, "messaging.message.conversation_id": message.correlation_id}
    attributes: dict[str, Any] = {name: text for name, text in texts.items() if isinstance(text, str)}
    return attributes | {
        "messaging.system": SYSTEM,
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": destination,
        "messaging.message.body.size": len(message.body),
    }


def _api() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        raise NotAllowed("spans need OpenTelemetry: pip install 'mantamq[otel]'") from None
    return trace
