"""What only such a cluster has: locks, replicas, flow control, members; moves of messages, and a look at some."""

from __future__ import annotations

from typing import Any

from ...client.definitions.values import to_json
from ...client.errors import Invalid
from ..history import SPANS_S
from ..messages import MOST
from .bodies import BodyObject
from .clients import told_connection
from .paging import PAGED, found, listed
from .queues import queue_teller, reading, told_message
from .table import Answer, Call, Operations, Parameter

operations = Operations()
LARGEST = 2**53
SELECTOR = {"type": "string", "description": "only messages for which it is true"}
SOME: dict[str, Any] = {"count": {"type": "integer", "minimum": 0, "description": "0: all"}, "selector": SELECTOR}
MOVED: dict[str, Any] = {
    "type": "object", "required": ["to"],
    "properties": {"to": {"type": "string", "description": "queue, exchange, or exchange/key"}, **SOME},
}  # fmt: skip
NO_QUEUE = {404: "there is no such queue"}


@operations.get("/manta/locks", "Who owns the consume lock of each queue.", *PAGED)
async def locks(call: Call) -> Answer:
    return listed(call, call.view.locks(), _told)


@operations.get(
    "/manta/lock-moves", "How consume locks have moved in the last minute, the newest first.",
    Parameter("queue", "string", "of this one alone"),
)  # fmt: skip
async def lock_moves(call: Call) -> Answer:
    return Answer([move._asdict() for move in call.view.lock_moves(call.text("queue"))])


@operations.get(
    "/manta/replicas", "All replicas of queues, and how far each is.",
    Parameter("queue", "string", "of this one alone"), *PAGED, statuses=NO_QUEUE,
)  # fmt: skip
async def replicas(call: Call) -> Answer:
    name = call.text("queue")
    key = found(call.view.queue(name), "queue", name)["id"] if name else ""
    return listed(call, call.view.replicas(key), _told, "queue")


@operations.get("/manta/flow", "Flow control: whether it is on, for whom, and who is held back.")
async def flow(call: Call) -> Answer:
    told = call.view.flow()
    teller = queue_teller(call.view)
    queues = [teller(row) for row in told["queues"]]
    return Answer(told | {"queues": queues, "connections": [told_connection(row) for row in told["connections"]]})


@operations.get("/manta/members", "All members of the cluster: where they are, and whether they answer.", *PAGED)
async def members(call: Call) -> Answer:
    return listed(call, call.view.members(), _told)


@operations.get("/manta/groups", "Message groups that a consumer holds.", *PAGED)
async def groups(call: Call) -> Answer:
    return listed(call, call.view.rows("groups"), _told, "queue")


@operations.get("/manta/events", "The event table, where one is kept.")
async def events(call: Call) -> Answer:
    return Answer({"kept": (table := call.view.event_table()) is not None, **_told(table or {})})


SPAN = Parameter("span", "string", "hour or day; the last minutes, unless given")


def _span(call: Call) -> str:
    span = call.text("span")
    if span not in SPANS_S:
        raise Invalid(f"span is {' or '.join(filter(None, SPANS_S))}, not {span!r:.60}")
    return span


@operations.get("/manta/chart", "The last minutes of the whole cluster: series, and the values of each.", SPAN)
async def whole_chart(call: Call) -> Answer:
    return Answer(call.view.chart(span=_span(call)))


@operations.get("/manta/chart/{name}", "The last minutes of a queue, as of the whole.", SPAN, statuses=NO_QUEUE)
async def chart(call: Call) -> Answer:
    found(call.view.queue(call.name), "queue", call.name)
    return Answer(call.view.chart(call.name, _span(call)))


@operations.get(
    "/manta/queues/{vhost}/{name}/messages", "Look at the first messages of a queue, and take none.",
    Parameter("count", "integer", f"1 to {MOST}, and 10 unless given"),
    Parameter("truncate", "integer", "so many bytes of each body"),
    Parameter("encoding", "string", "auto or base64"), Parameter("selector", "string", SELECTOR["description"]),
    statuses=NO_QUEUE,
)  # fmt: skip
async def messages(call: Call) -> Answer:
    encoding, truncate = reading(BodyObject(call.query))
    count = call.number("count", 10, 1, MOST)
    seen = await call.deeds.browse(call.name, count, truncate, call.text("selector"))
    return Answer([told_message(one, encoding) for one in seen])


def _some(fields: BodyObject) -> tuple[int, str]:
    return fields.number("count", 0, 0, LARGEST), fields.text("selector", "")


@operations.post(
    "/manta/queues/{vhost}/{name}/move", "Have messages of a queue go on to another, or to an exchange.", body=MOVED,
    statuses=NO_QUEUE,
)  # fmt: skip
async def move(call: Call) -> Answer:
    fields = call.fields
    if not (to := fields.text("to")):
        raise Invalid("to is empty: name the queue, the exchange, or the exchange/key that the messages go to")
    moved = await call.deeds.move(call.who, call.name, to, *_some(fields))
    return Answer(moved._asdict())


@operations.post(
    "/manta/queues/{vhost}/{name}/redrive", "Have dead letters go back to where they died, or to another queue.",
    body=MOVED | {"required": []}, statuses=NO_QUEUE,
)  # fmt: skip
async def redrive(call: Call) -> Answer:
    fields = call.fields
    moved = await call.deeds.redrive(call.who, call.name, fields.text("to", ""), *_some(fields))
    return Answer(moved._asdict())


@operations.post(
    "/manta/queues/{vhost}/{name}/purge", "Discard messages that wait in a queue, of those that a selector wants.",
    body={"type": "object", "properties": SOME}, statuses=NO_QUEUE,
)  # fmt: skip
async def purge_some(call: Call) -> Answer:
    return Answer({"purged": await call.deeds.purge(call.who, call.name, *_some(call.fields))})


def _told(row: Any) -> dict[str, Any]:
    return to_json(dict(row))
