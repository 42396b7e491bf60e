"""Bindings: listed, made, undone; each known by its ends and a properties key, as in RabbitMQ."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from ...client.definitions.values import to_json
from ...protocol.wiring.definitions import canonical
from .names import exchange_name, of_vhost
from .paging import PAGED, found, listed
from .problems import HttpProblem
from .table import NOTHING, Answer, Call, Operations

operations = Operations()
NO_KEY = "~"
QUEUE, EXCHANGE = "queue", "exchange"
BOUND: dict[str, Any] = {
    "type": "object", "properties": {"routing_key": {"type": "string"}, "arguments": {"type": "object"}},
}  # fmt: skip
ENDS = {"q": QUEUE, "e": EXCHANGE}
"""What stands in a path -> what a binding leads to."""
BETWEEN = "/bindings/{vhost}/e/{exchange}/{kind}/{target}"
NONE = {404: "there is no such binding, exchange or queue"}


def properties_key(key: str, arguments: Mapping[str, Any]) -> str:
    """What tells a binding from others between the same ends: its routing key, and a digest of its arguments."""
    plain = quote(key, safe="").replace("~", "%7E")
    if not arguments:
        return plain or NO_KEY
    digest = hashlib.sha256(canonical(dict(arguments))).digest()[:9]
    return f"{plain}~{base64.urlsafe_b64encode(digest).decode()}"


def told_binding(row: Mapping[str, Any]) -> dict[str, Any]:
    """A binding by RabbitMQ's names."""
    return of_vhost({
        "source": row["exchange"], "destination": row.get("to_exchange") or row["queue"],
        "destination_type": EXCHANGE if row.get("to_exchange") else QUEUE, "routing_key": row["key"],
        "arguments": to_json(row["arguments"]), "properties_key": properties_key(row["key"], row["arguments"]),
    })  # fmt: skip


def with_default(rows: Iterable[Mapping[str, Any]], queues: Iterable[str]) -> list[Mapping[str, Any]]:
    """The bindings, and those that the default exchange has to every queue by its name."""
    default = [{"exchange": "", "queue": name, "key": name, "arguments": {}} for name in queues]
    return [*default, *rows]


async def _all(call: Call) -> list[Mapping[str, Any]]:
    return with_default(await call.deeds.bindings(), [row["name"] for row in call.view.rows("queues")])


@operations.get("/bindings", "All bindings.", *PAGED)
@operations.get("/bindings/{vhost}", "All bindings of the virtual host.", *PAGED)
async def bindings(call: Call) -> Answer:
    return listed(call, await _all(call), told_binding, "source")


@operations.get("/exchanges/{vhost}/{name}/bindings/source", "All bindings from an exchange.", *PAGED)
async def from_exchange(call: Call) -> Answer:
    name = exchange_name(call.name)
    found(call.view.exchange(name), EXCHANGE, name)
    return listed(call, [row for row in await _all(call) if row["exchange"] == name], told_binding, "source")


@operations.get("/exchanges/{vhost}/{name}/bindings/destination", "All bindings to an exchange.", *PAGED)
async def to_exchange(call: Call) -> Answer:
    found(call.view.exchange(call.name), EXCHANGE, call.name)
    rows = [row for row in await call.deeds.bindings() if row.get("to_exchange") == call.name]
    return listed(call, rows, told_binding, "source")


async def _between(call: Call) -> list[Mapping[str, Any]]:
    exchange, kind = exchange_name(call.path["exchange"]), _kind(call)
    end = "queue" if kind == QUEUE else "to_exchange"
    return [row for row in await _all(call) if row["exchange"] == exchange and row.get(end) == call.path["target"]]


def _kind(call: Call) -> str:
    if (kind := ENDS.get(call.path["kind"])) is None:
        raise HttpProblem(404, "a binding leads to q, a queue, or e, an exchange")
    return kind


@operations.get(BETWEEN, "All bindings between an exchange and a queue (q), or another exchange (e).", *PAGED)
async def between(call: Call) -> Answer:
    return listed(call, await _between(call), told_binding, "source")


@operations.post(
    BETWEEN, "Bind a queue (q), or an exchange (e), to an exchange.", body=BOUND,
    statuses={201: "it is bound; Location leads to the binding", 404: "there is no such queue or exchange"},
)  # fmt: skip
async def bind(call: Call) -> Answer:
    fields, kind, target = call.fields, _kind(call), call.path["target"]
    key, arguments = fields.text("routing_key", ""), fields.plain("arguments")
    exchange = exchange_name(call.path["exchange"])
    ends = {"queue": target} if kind == QUEUE else {"to_exchange": target}
    await call.deeds.bind(call.who, exchange, key=key, arguments=arguments, **ends)
    # As RabbitMQ, relative to the address that was asked.
    last = quote(properties_key(key, arguments), safe="")
    return Answer(None, 201, {"location": f"{quote(target, safe='')}/{last}"})


async def _one(call: Call) -> tuple[Mapping[str, Any], bool]:
    """The binding that is meant, and whether it is the only one with its key. Raises HttpProblem: there is none."""
    rows, wanted = await _between(call), call.path["properties_key"]
    for row in rows:
        if wanted in (properties_key(row["key"], row["arguments"]), row["key"] if not row["arguments"] else None):
            return row, sum(other["key"] == row["key"] for other in rows) == 1
    raise HttpProblem(404, f"there is no binding {unquote(wanted)!r:.300} there")


@operations.get(f"{BETWEEN}/{{properties_key}}", "A binding.", statuses=NONE)
async def binding(call: Call) -> Answer:
    return Answer(told_binding((await _one(call))[0]))


@operations.delete(
    f"{BETWEEN}/{{properties_key}}", "Undo a binding.",
    statuses={204: "it is undone", **NONE, 409: "others between these ends have the same key, and would go with it"},
)  # fmt: skip
async def unbind(call: Call) -> Answer:
    row, alone = await _one(call)
    if not alone:
        text = "bindings between these ends with other arguments have the same key, and would go with it"
        raise HttpProblem(409, f"{text}: undo all of them with `mantamq unbind`")
    ends = {"to_exchange": row["to_exchange"]} if row.get("to_exchange") else {"queue": row["queue"]}
    await call.deeds.unbind(call.who, row["exchange"], key=row["key"], **ends)
    return NOTHING
