"""Messages of a traced connection carry the trace they are part of, through the queue to whoever works at them."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterator
from typing import Any

import pytest
from fake_broker import FakeBroker
from mantamq.client import Connection, Invalid, Message, NotAllowed, connect, connect_async
from mantamq.client.tracing import context_of, processing, traced
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """What was recorded; `provider` is to be given to whatever records."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def all(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def one(self, name: str) -> Any:
        (span,) = [span for span in self.all() if span.name == name]
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def connection() -> Iterator[Connection]:
    with FakeBroker() as broker, connect(broker.address) as connection:
        connection.declare_queue("orders")
        yield connection


def received(connection: Connection) -> Message:
    return connection.session().receiver("orders").fetch(5)


def test_a_trace_goes_through_the_queue(connection: Connection, spans: Spans) -> None:
    traced(connection, spans.provider)
    with spans.tracer.start_as_current_span("shop"):
        connection.session().sender("orders").send(Message("tea", message_id="m1", correlation_id="c1"))
    message = received(connection)
    with processing(message, spans.provider), spans.tracer.start_as_current_span("pack"):
        pass
    shop, send, process, pack = map(spans.one, ("shop", "send orders", "process orders", "pack"))
    assert len({span.context.trace_id for span in (shop, send, process, pack)}) == 1
    assert send.parent.span_id == shop.context.span_id and process.parent.span_id == send.context.span_id
    assert pack.parent.span_id == process.context.span_id
    assert [link.context.span_id for link in process.links] == [send.context.span_id]
    assert (send.kind, process.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    common = {
        "messaging.system": "mantamq",
        "messaging.destination.name": "orders",
        "messaging.message.body.size": 3,
        "messaging.message.id": "m1",
        "messaging.message.conversation_id": "c1",
    }
    said = {"messaging.operation.type": "send", "messaging.operation.name": "send"}
    assert dict(send.attributes) == common | said
    said = {"messaging.operation.type": "process", "messaging.operation.name": "process"}
    assert dict(process.attributes) == common | said | {"mantamq.position": 1, "mantamq.delivery_count": 0}


def test_each_message_has_a_context_of_its_own_and_is_left_as_it_was(connection: Connection, spans: Spans) -> None:
    traced(connection, spans.provider)
    sender, message = connection.session().sender("orders"), Message("tea", properties={"price": 3})
    sender.send(message)
    sender.send(message)
    sender.send("coffee")
    assert message.properties == {"price": 3}
    receiver = connection.session().receiver("orders")
    got = [receiver.fetch(5) for _ in range(3)]
    contexts = [trace.get_current_span(context_of(one)).get_span_context().span_id for one in got]
    assert contexts == [span.context.span_id for span in spans.all()] and len(set(contexts)) == 3
    assert [(one.properties or {}).get("price") for one in got] == [3, 3, None]


def test_what_is_sent_on_goes_on_in_its_trace(connection: Connection, spans: Spans) -> None:
    traced(connection, spans.provider)
    connection.declare_queue("done")
    connection.session().sender("orders").send("tea")
    message = received(connection)
    with processing(message, spans.provider):
        connection.session().sender("done").send(message)
    again = connection.session().receiver("done").fetch(5)
    sent = trace.get_current_span(context_of(again)).get_span_context()
    assert sent.span_id == spans.one("send done").context.span_id
    assert sent.trace_id == spans.one("send orders").context.trace_id


@pytest.mark.parametrize("way", ["send_to", "send_later", "nowait", "named"])
def test_whatever_way_it_is_sent(connection: Connection, spans: Spans, way: str) -> None:
    traced(connection, spans.provider)
    session = connection.session()
    if way == "send_to":
        connection.declare_exchange("shops", "direct")
        connection.bind("shops", "orders", "tea")
        session.sender("shops").send_to("tea", ["tea"])
    elif way == "send_later":
        session.sender("orders").send_later("tea", delay=0.0)
    elif way == "nowait":
        session.sender("orders").send_nowait("tea")
    else:
        session.sender("orders", name="till").send("tea", number=7)
    message = received(connection)
    (span,) = spans.all()
    assert trace.get_current_span(context_of(message)).get_span_context().span_id == span.context.span_id


def test_a_request_is_part_of_it(connection: Connection, spans: Spans) -> None:
    traced(connection, spans.provider)
    with pytest.raises(TimeoutError):
        connection.request("orders", "tea", timeout_s=0.2)
    assert [span.name for span in spans.all()] == ["send amq.default"]


def test_what_is_refused_says_so_in_its_span(connection: Connection, spans: Spans) -> None:
    traced(connection, spans.provider)
    sender = connection.session().sender("orders")
    with pytest.raises(Invalid):
        sender.send(Message("tea", properties={"when": {1}}))
    with pytest.raises(Invalid):
        sender.send(Message("tea", properties="none"))  # type: ignore[arg-type]
    assert [span.status.status_code for span in spans.all()] == [trace.StatusCode.ERROR] * 2
    sender.send("tea")
    assert received(connection).body == b"tea"


def test_what_fails_at_work_says_so_in_its_span_and_fails(connection: Connection, spans: Spans) -> None:
    connection.session().sender("orders").send("tea")
    with pytest.raises(ZeroDivisionError), processing(received(connection), spans.provider):
        print(1 / 0)
    span = spans.one("process orders")
    assert span.status.status_code is trace.StatusCode.ERROR and span.events[0].name == "exception"
    assert span.parent is None and span.links == ()  # it came with no trace


def test_where_nothing_is_recorded_nothing_is_carried(connection: Connection) -> None:
    traced(connection)
    connection.session().sender("orders").send("tea")
    message = received(connection)
    assert message.properties is None
    with processing(message):
        pass


def test_a_property_that_is_no_context_is_none(connection: Connection, spans: Spans) -> None:
    wrong = ("", "00-1-2", 7, b"00", ["00"])
    sender, receiver = connection.session().sender("orders"), connection.session().receiver("orders")
    for one in wrong:
        sender.send(Message("tea", properties={"traceparent": one}))
    for message in [receiver.fetch(5) for _ in wrong]:
        with processing(message, spans.provider) as span:
            assert span.parent is None  # type: ignore[attr-defined]


def test_of_asyncio_too(spans: Spans) -> None:
    async def run(address: str) -> Message:
        async with connect_async(address) as connection:
            traced(connection, spans.provider)
            await connection.declare_queue("orders")
            sender = await connection.session().sender("orders")
            await sender.send("tea")
            return await (await connection.session().receiver("orders")).fetch(5)

    with FakeBroker() as broker:
        message = asyncio.run(run(broker.address))
    sent = trace.get_current_span(context_of(message)).get_span_context()
    assert sent.span_id == spans.one("send orders").context.span_id


def test_it_is_traced_before_its_first_sender(connection: Connection, spans: Spans) -> None:
    connection.session().sender("orders")
    with pytest.raises(NotAllowed, match="trace it before its first sender"):
        traced(connection, spans.provider)


def test_only_what_was_received_is_processed(spans: Spans) -> None:
    with pytest.raises(Invalid, match="only one that was received"), processing(Message("tea"), spans.provider):
        pass


def test_without_opentelemetry_it_says_what_to_install(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    for ask in (lambda: traced(connection), lambda: context_of(Message("tea"))):
        with pytest.raises(NotAllowed, match=r"pip install 'mantamq\[otel\]'"):
            ask()
