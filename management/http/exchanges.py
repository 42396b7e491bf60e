"""Exchanges: listed, declared, deleted; and a message that is sent to one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from ...client.definitions.values import to_json
from ...client.errors import Invalid
from ..messages import PROPERTIES
from .figures import EXCHANGE_STATS, stats
from .names import ALTERNATE_EXCHANGE, FLAGS_OF_OURS, exchange_name, of_vhost, told_arguments
from .paging import PAGED, found, listed
from .problems import HttpProblem
from .table import CREATED, NOTHING, Answer, Call, Operations, Parameter

operations = Operations()
PUBLISH_BYTES = 16 << 20
"""Of a request with a message: 8 MiB in base64, and more."""
APART = ("name", "type", "durable", "arguments", "alternate", "received")
DECLARED: dict[str, Any] = {
    "type": "object", "required": ["type"],
    "properties": {
        "type": {"type": "string", "enum": ["direct", "topic", "fanout", "headers"]}, "durable": {"type": "boolean"},
        "auto_delete": {"type": "boolean"}, "internal": {"type": "boolean"},
        "arguments": {"type": "object", "description": f"{ALTERNATE_EXCHANGE} among them"},
    },
}  # fmt: skip
PUBLISHED: dict[str, Any] = {
    "type": "object", "required": ["routing_key", "payload"],
    "properties": {
        "routing_key": {"type": "string"}, "payload": {"type": "string"},
        "payload_encoding": {"type": "string", "enum": ["string", "base64"]},
        "properties": {"type": "object", "description": f"of {', '.join(PROPERTIES)}"},
    },
}  # fmt: skip


def told_exchange(row: Mapping[str, Any]) -> dict[str, Any]:
    """An exchange by RabbitMQ's names."""
    arguments = row.get("arguments", {})
    told: dict[str, Any] = {
        "name": row["name"], "type": row["type"], "durable": row.get("durable", False),
        "auto_delete": bool(arguments.get(FLAGS_OF_OURS["auto_delete"])),
        "internal": bool(arguments.get(FLAGS_OF_OURS["internal"])),
        "arguments": told_arguments(arguments, row.get("alternate", ""), ALTERNATE_EXCHANGE),
    }  # fmt: skip
    if message_stats := stats(row, row.get("rates", {}), EXCHANGE_STATS):
        told["message_stats"] = message_stats
    more = {name: to_json(value) for name, value in row.items() if name not in APART and value is not None}
    return of_vhost(told) | {"manta": more}


@operations.get("/exchanges", "All exchanges.", *PAGED)
@operations.get("/exchanges/{vhost}", "All exchanges of the virtual host.", *PAGED)
async def exchanges(call: Call) -> Answer:
    return listed(call, call.view.rows("exchanges"), told_exchange)


@operations.get("/exchanges/{vhost}/{name}", "An exchange.", statuses={404: "there is no such exchange"})
async def exchange(call: Call) -> Answer:
    name = exchange_name(call.name)
    return Answer(told_exchange(found(call.view.exchange(name), "exchange", name)))


@operations.put(
    "/exchanges/{vhost}/{name}", "Declare an exchange.", body=DECLARED,
    statuses={201: "it is new", 204: "it was there", 409: "it is there with another definition"},
)  # fmt: skip
async def declare_exchange(call: Call) -> Answer:
    fields = call.fields
    arguments = fields.plain("arguments")
    alternate = arguments.pop(ALTERNATE_EXCHANGE, "")
    if not isinstance(alternate, str):
        raise Invalid(f"{ALTERNATE_EXCHANGE} is the name of an exchange, not {alternate!r:.60}")
    for flag in ("auto_delete", "internal"):
        arguments |= {FLAGS_OF_OURS[flag]: True} if fields.flag(flag) else {}
    new = await call.deeds.declare_exchange(
        call.who, exchange_name(call.name), fields.text("type"), fields.flag("durable"), alternate, arguments
    )
    return CREATED if new else NOTHING


@operations.delete(
    "/exchanges/{vhost}/{name}", "Delete an exchange.",
    Parameter("if-unused", "boolean", "only if nothing is bound to it"),
    statuses={204: "it is gone", 404: "there is no such exchange", 409: "it is in use"},
)  # fmt: skip
async def delete_exchange(call: Call) -> Answer:
    name = exchange_name(call.name)
    if call.flag("if-unused") and any(row["exchange"] == name for row in await call.deeds.bindings()):
        raise HttpProblem(409, f"exchange {name!r:.300} has bindings: undo them first, or leave out if-unused")
    await call.deeds.delete_exchange(call.who, name)
    return NOTHING


@operations.post(
    "/exchanges/{vhost}/{name}/publish", "Send a message to an exchange.", body=PUBLISHED, most_bytes=PUBLISH_BYTES,
    statuses={404: "there is no such exchange", 409: "a queue is at its limit", 413: "the message is too large"},
)  # fmt: skip
async def publish(call: Call) -> Answer:
    fields = call.fields
    payload, encoding = fields.text("payload"), fields.text("payload_encoding", "string")
    if encoding not in ("string", "base64"):
        raise Invalid(f"payload_encoding is string or base64, not {encoding!r:.60}")
    try:
        body = payload.encode() if encoding == "string" else base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the payload is no base64: send it so, or with the payload_encoding string") from None
    name, key, properties = exchange_name(call.name), fields.text("routing_key"), fields.plain("properties")
    return Answer({"routed": await call.deeds.publish(call.who, name, key, properties, body)})
