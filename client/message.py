"""A message, as users have it; its encoded form is in `protocol/wire/message.py`."""

from __future__ import annotations

from typing import Any

from .errors import Invalid

UNDECODABLE = "mantamq.undecodable"


class Message:
    """One message.

    It may have 8 MiB, headers and all, unless the cluster was started with another bound (`mantamq up
    --max-message-size`, `start_cluster(max_message_bytes=...)`); a larger one is refused with `TooLarge`.

    Args:
        body: bytes; a str is sent as UTF-8 with content type text/plain.
        subject: what it is about; the routing key when it is sent to an exchange without a key.
        properties: names and values for the application (and for headers exchanges): None, bool, int (64 bit), float,
            str, bytes, and lists and dicts of these. They arrive as exactly what they were; anything else (a datetime,
            a set, a tuple, ...) is refused when it is sent.
        ttl: seconds until it expires, None for never.
        priority: in a queue with priorities the highest goes first; in others it is carried, and changes no place.
        correlation_id, reply_to, content_type, message_id: for the application, as in AMQP.
        durable: carried to whoever receives it. Whether it survives a stop of the cluster is the queue's matter.

    Received messages also have `queue`, `position` (its place in the queue), `redelivered` and `delivery_count` (how
    often it was delivered before), `first_acquirer` (no consumer had it before, as AMQP's first-acquirer), and
    `annotations`: what earlier consumers noted on it (`session.modify`), and `enqueued_at`: when it came to its queue.
    """

    __slots__ = (
        "_acquired", "_acquisition", "_annotations", "_enqueued_ms", "_receiver", "body", "content_type",
        "correlation_id", "delivery_count", "durable", "message_id", "position", "priority", "properties", "reply_to",
        "subject", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        body: bytes | str = b"",
        subject: str | None = None,
        properties: dict[str, Any] | None = None,
        ttl: float | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        durable: bool = False,
        content_type: str | None = None,
        message_id: str | None = None,
    ) -> None:
        if type(body) is str:
            try:
                body = body.encode()
            except UnicodeEncodeError as error:
                raise Invalid(f"a message's body is no text that can be sent: {error}; send bytes") from None
            content_type = content_type or "text/plain"
        self.body: bytes = body  # type: ignore[assignment]
        self.subject = subject
        self.properties = properties
        self.ttl = ttl
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.durable = durable
        self.content_type = content_type
        self.message_id = message_id
        self.position = 0
        self._acquisition = 0
        self.delivery_count = 0
        self._receiver: Any = None  # the books that it was received by

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have seen it before."""
        return self.delivery_count > 0

    @property
    def first_acquirer(self) -> bool:
        """Whether no consumer had it before: neither was it delivered, nor given back uncounted (`session.modify`)."""
        return not getattr(self, "_acquired", False)  # a message that has not come back pays nothing for it

    @property
    def enqueued_at(self) -> float | None:
        """When it came into the queue it was received from: seconds since the epoch, to the millisecond, by the clock
        of the broker that took it from its sender (the same that a `ttl` runs by). Messages that were sent together
        have one time. It is the same at every broker, and each time the message comes. A dead letter has come when it
        came into that queue. None: nobody says (a message of one's own; or a broker before protocol 1.9 took it)."""
        at_ms = getattr(self, "_enqueued_ms", 0)
        return at_ms / 1000 if at_ms else None

    @property
    def annotations(self) -> dict[str, Any]:
        """What consumers noted on it, by name; of a message of one's own, {}: it is sent without any."""
        return getattr(self, "_annotations", {})  # a message without any pays for none

    @annotations.setter
    def annotations(self, noted: dict[str, Any]) -> None:
        self._annotations = noted

    @property
    def queue(self) -> str:
        """The queue it was received from; "" for a message of one's own."""
        return self._receiver.queue if self._receiver is not None else ""

    def __repr__(self) -> str:
        head = self.body[:32] + (b"..." if len(self.body) > 32 else b"")
        return f"Message({head!r}, subject={self.subject!r}, properties={self.properties!r}, position={self.position})"


def undecodable(blob: bytes) -> Message:
    """A blob that is no message, as a body with the property `mantamq.undecodable`: a foreign or damaged blob must not
    block the receiver that meets it."""
    return Message(blob, properties={UNDECODABLE: True})
