"""Queues: listed, declared, deleted, emptied; their bindings, and their messages."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ...client.definitions.values import to_json
from ...client.errors import Invalid
from ..messages import ACK_MODES, MOST, REQUEUE, MessageSeen
from ..view import ManagementView
from .bindings import told_binding, with_default
from .bodies import BodyObject
from .figures import QUEUE_STATS, depths, stats
from .names import DEAD_LETTER_EXCHANGE, of_vhost, read_queue_arguments, told_arguments, told_keywords
from .paging import PAGED, found, listed
from .table import CREATED, NOTHING, Answer, Call, Operations, Parameter

operations = Operations()
AUTO, BASE64 = "auto", "base64"
MOST_TRUNCATED = 2**31
APART = ("name", "durable", "arguments", "alternate", "messages", "available", "acquired", "bytes", "consumers",
         "policy", "operator_policy", "policy_definition")  # fmt: skip
"""Of a queue's row what is told by RabbitMQ's names; all else is within "manta"."""
DECLARED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "durable": {"type": "boolean"}, "auto_delete": {"type": "boolean"},
        "arguments": {"type": "object", "description": "by RabbitMQ's names, Qpid's or ours"},
    },
}  # fmt: skip
GOT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": MOST},
        "ackmode": {"type": "string", "enum": [*ACK_MODES]},
        "encoding": {"type": "string", "enum": [AUTO, BASE64]}, "truncate": {"type": "integer", "minimum": 0},
    },
}  # fmt: skip


def queue_teller(view: ManagementView) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """By what a queue's row is answered, with the brokers that have it."""
    replicas: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for replica in view.replicas():
        replicas[replica["id"]].append(replica)
    return lambda row: told_queue(row, replicas.get(row["id"], []))


def told_queue(row: Mapping[str, Any], replicas: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A queue by RabbitMQ's names.

    Args:
        replicas: the rows of its replicas, as of `ManagementView.replicas`.
    """
    definition = row.get("definition", {})
    told: dict[str, Any] = {
        "name": row["name"], "durable": row.get("durable", False),
        "auto_delete": bool(definition.get("auto_delete")), "exclusive": bool(definition.get("exclusive")),
        "arguments": told_arguments(row.get("arguments", {}), row.get("alternate", ""), DEAD_LETTER_EXCHANGE),
        "state": "down" if row.get("error") else "flow" if row.get("flowStopped") else "running",
    }  # fmt: skip
    told |= {name: row[name] for name in ("consumers", "policy", "operator_policy") if name in row}
    if "policy_definition" in row:
        told["effective_policy_definition"] = told_keywords(row["policy_definition"])
    if "bytes" in row:
        told["message_bytes"] = row["bytes"]
    if replicas:
        told["members"] = [one["broker"] for one in replicas]
        told["online"] = [one["broker"] for one in replicas if one["state"] != "missing"]
    told |= depths(row)
    if message_stats := stats(row, row.get("rates", {}), QUEUE_STATS):
        told["message_stats"] = message_stats
    more = {name: to_json(value) for name, value in row.items() if name not in APART and value is not None}
    return of_vhost(told) | {"manta": more}


@operations.get("/queues", "All queues.", *PAGED)
@operations.get("/queues/{vhost}", "All queues of the virtual host.", *PAGED)
async def queues(call: Call) -> Answer:
    return listed(call, call.view.rows("queues"), queue_teller(call.view))


@operations.get("/queues/{vhost}/{name}", "A queue.", statuses={404: "there is no such queue"})
async def queue(call: Call) -> Answer:
    row = found(call.view.queue(call.name), "queue", call.name)
    return Answer(told_queue(row, list(call.view.replicas(row["id"]))))


@operations.put(
    "/queues/{vhost}/{name}", "Declare a queue.", body=DECLARED,
    statuses={201: "it is new", 204: "it was there", 409: "it is there with another definition"},
)  # fmt: skip
async def declare_queue(call: Call) -> Answer:
    fields = call.fields
    if fields.flag("exclusive"):
        raise Invalid("a queue that is declared by HTTP is no connection's alone: leave out exclusive")
    if not call.name:
        raise Invalid("a queue that is declared by HTTP has a name: give it")
    arguments = read_queue_arguments(fields.plain("arguments"), fields.flag("auto_delete"))
    new = await call.deeds.declare_queue(call.who, call.name, fields.flag("durable"), arguments=arguments)
    return CREATED if new else NOTHING


@operations.delete(
    "/queues/{vhost}/{name}", "Delete a queue.",
    Parameter("if-unused", "boolean", "only if it has no consumers"),
    Parameter("if-empty", "boolean", "only if nothing is in it"),
    statuses={204: "it is gone", 404: "there is no such queue", 409: "it is in use, or not empty"},
)  # fmt: skip
async def delete_queue(call: Call) -> Answer:
    await call.deeds.delete_queue(call.who, call.name, call.flag("if-unused"), call.flag("if-empty"))
    return NOTHING


@operations.delete(
    "/queues/{vhost}/{name}/contents", "Discard all messages that wait in a queue.",
    statuses={204: "they are gone", 404: "there is no such queue"},
)  # fmt: skip
async def purge(call: Call) -> Answer:
    await call.deeds.purge(call.who, call.name)
    return NOTHING


@operations.get(
    "/queues/{vhost}/{name}/bindings", "All bindings of a queue.", *PAGED, statuses={404: "there is no such queue"}
)
async def queue_bindings(call: Call) -> Answer:
    found(call.view.queue(call.name), "queue", call.name)
    rows = [row for row in with_default(await call.deeds.bindings(), [call.name]) if row["queue"] == call.name]
    return listed(call, rows, told_binding, "source")


@operations.post(
    "/queues/{vhost}/{name}/get", "Take messages of a queue, and put them back, or not.", body=GOT,
    statuses={404: "there is no such queue", 409: "a consumer has it alone"},
)  # fmt: skip
async def get(call: Call) -> Answer:
    fields = call.fields
    count, ack_mode = fields.number("count", 1, 1, MOST), fields.text("ackmode", REQUEUE)
    encoding, truncate = reading(fields)
    messages = await call.deeds.get(call.who, call.name, count, ack_mode, truncate)
    return Answer([told_message(one, encoding) for one in messages])


def reading(fields: BodyObject) -> tuple[str, int | None]:
    """How bodies of messages are told: the encoding, and how much of each.

    Raises:
        Invalid: not so.
    """
    encoding = fields.text("encoding", AUTO)
    if encoding not in (AUTO, BASE64):
        raise Invalid(f"encoding is {AUTO} or {BASE64}, not {encoding!r:.60}")
    truncate = fields.number("truncate", 0, 0, MOST_TRUNCATED) if fields.has("truncate") else None
    return encoding, truncate


def told_message(message: MessageSeen, encoding: str) -> dict[str, Any]:
    """A message by RabbitMQ's names. Which exchange it came by nobody knows."""
    payload, said = _payload(message.body, encoding)
    more: dict[str, Any] = {"position": message.position, "delivery_count": message.delivery_count}
    more["annotations"] = message.annotations
    if message.enqueued_s is not None:
        more["enqueued_s"] = message.enqueued_s
    return {
        "payload_bytes": message.body_bytes, "redelivered": message.redelivered, "routing_key": message.routing_key,
        "properties": to_json(message.properties), "payload": payload, "payload_encoding": said, "manta": to_json(more),
    }  # fmt: skip


def _payload(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == AUTO:
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), BASE64
