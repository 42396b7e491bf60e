"""All that is declared as one document, and such a document declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...client.definitions.comparison import NEW, REFUSED, UNCHANGED
from ...client.definitions.reading import MOST_BYTES
from ...client.definitions.values import from_json
from ..imports import Imported, ImportedObject
from .bindings import told_binding
from .exchanges import told_exchange
from .names import DEAD_LETTER_EXCHANGE, FLAGS_OF_OURS, of_vhost, told_arguments
from .policies import told_of_policy
from .problems import HttpProblem
from .table import VHOST, Answer, Call, Operations

operations = Operations()
FILE: dict[str, Any] = {"type": "object", "description": "a definitions file, of RabbitMQ's or of mantamq's"}
DONE = {200: "what became of each object", 413: f"it has more than {MOST_BYTES >> 20} MiB"}
TOLD = 10
"""So many refused objects are named."""
OF_EXCHANGES = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
OF_BINDINGS = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")


def told_definitions(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of ours by RabbitMQ's names. What RabbitMQ has not stands in lists by our names, as it was.

    Args:
        document: as of `Connection.definitions`.
    """
    policies = [_plain(one) for one in document.get("policies", ())]
    told: dict[str, Any] = {
        "vhosts": [{"name": VHOST}],
        "queues": [_queue(_plain(one)) for one in document["queues"]],
        "exchanges": [_picked(told_exchange(_plain(one)), OF_EXCHANGES) for one in document["exchanges"]],
        "bindings": [_picked(told_binding(_plain(one)), OF_BINDINGS) for one in document["bindings"]],
        "policies": [told_of_policy(one) for one in policies if not one["operator"]],
    }
    more: dict[str, Sequence[Any]] = {name: document.get(name, ()) for name in ("patterns", "redirects")}
    more["operator_policies"] = [told_of_policy(one) for one in policies if one["operator"]]
    return told | {name: list(rows) for name, rows in more.items() if rows}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "arguments": from_json(row.get("arguments", {}), "arguments")}


def _queue(row: Mapping[str, Any]) -> dict[str, Any]:
    arguments = row["arguments"]
    return of_vhost({
        "name": row["name"], "durable": row["durable"],
        "auto_delete": bool(arguments.get(FLAGS_OF_OURS["auto_delete"])),
        "arguments": told_arguments(arguments, row["alternate"], DEAD_LETTER_EXCHANGE),
    })  # fmt: skip


def _picked(row: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in fields}


@operations.get("/definitions", "All that is declared, by RabbitMQ's names where it has them.")
@operations.get("/definitions/{vhost}", "All that is declared in the virtual host, by RabbitMQ's names.")
async def definitions(call: Call) -> Answer:
    return Answer(told_definitions(await call.deeds.definitions()))


@operations.get("/manta/definitions", "All that is declared, as `mantamq definitions export` writes it.")
async def our_definitions(call: Call) -> Answer:
    return Answer(await call.deeds.definitions())


@operations.post("/definitions", "Declare what a file has and the cluster has not.", body=FILE, most_bytes=MOST_BYTES,
                 statuses=DONE)  # fmt: skip
@operations.post("/definitions/{vhost}", "Declare what a file has for the virtual host, and the cluster has not.",
                 body=FILE, most_bytes=MOST_BYTES, statuses=DONE)  # fmt: skip
async def import_definitions(call: Call) -> Answer:
    done = await call.deeds.import_definitions(call.who, call.body)
    if refused := [one for one in done.objects if one.outcome == REFUSED]:
        raise HttpProblem(400, _refused(done, refused))
    objects = [one._asdict() for one in done.objects if one.outcome not in (NEW, UNCHANGED) or one.remarks]
    return Answer({"counts": done.counts, "objects": objects, "passed_over": done.passed_over})


def _refused(done: Imported, refused: list[ImportedObject]) -> str:
    named = "; ".join(f"{one.what} {one.name}: {one.why}" for one in refused[:TOLD])
    return f"{len(refused)} of {len(done.objects)} objects were refused, the others are done: {named}"
