"""Policies, and those of operators: listed, set, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...client.errors import Invalid
from .names import DEAD_LETTER_EXCHANGE, of_vhost, read_policy, told_policy
from .paging import PAGED, found, listed
from .table import CREATED, NOTHING, Answer, Call, Operations

operations = Operations()
OF_QUEUES = "queues"
APPLIED = ("queues", "all", "classic_queues", "quorum_queues")
"""What a policy of RabbitMQ's may be applied to that is queues here."""
LARGEST = 2**31 - 1
PUT: dict[str, Any] = {
    "type": "object", "required": ["pattern", "definition"],
    "properties": {
        "pattern": {"type": "string"}, "priority": {"type": "integer"},
        "definition": {"type": "object", "description": "arguments of queues without x-, such as max-length"},
        "apply-to": {"type": "string", "enum": [*APPLIED]},
    },
}  # fmt: skip
SET = {201: "it is new", 204: "it was there, and is so now"}
GONE = {204: "it is gone", 404: "there is no such policy"}
NONE = {404: "there is no such policy"}


def told_of_policy(row: Mapping[str, Any]) -> dict[str, Any]:
    """A policy by RabbitMQ's names."""
    return of_vhost({
        "name": row["name"], "pattern": row["pattern"], "apply-to": OF_QUEUES, "priority": row["priority"],
        "definition": told_policy(row["arguments"], row["alternate"]),
    })  # fmt: skip


async def _listed(call: Call, operator: bool) -> Answer:
    rows = [row for row in await call.deeds.policies() if row["operator"] == operator]
    return listed(call, rows, told_of_policy)


async def _one(call: Call, operator: bool) -> Mapping[str, Any] | None:
    rows = (row for row in await call.deeds.policies() if row["operator"] == operator)
    return next((row for row in rows if row["name"] == call.name), None)


async def _put(call: Call, operator: bool) -> Answer:
    fields = call.fields
    target = fields.text("apply-to", OF_QUEUES)
    if target not in APPLIED:
        raise Invalid(f"policies are of queues here: apply-to is {', '.join(APPLIED)}, not {target!r:.60}")
    arguments = read_policy(fields.plain("definition"))
    alternate = arguments.pop(DEAD_LETTER_EXCHANGE, "")
    if not isinstance(alternate, str):
        raise Invalid(f"dead-letter-exchange is the name of an exchange, not {alternate!r:.60}")
    priority = fields.number("priority", 0, -LARGEST, LARGEST)
    there = await _one(call, operator) is not None
    await call.deeds.add_policy(call.who, call.name, fields.text("pattern"), arguments, priority, operator, alternate)
    return NOTHING if there else CREATED


@operations.get("/policies", "All policies.", *PAGED)
@operations.get("/policies/{vhost}", "All policies of the virtual host.", *PAGED)
async def policies(call: Call) -> Answer:
    return await _listed(call, False)


@operations.get("/policies/{vhost}/{name}", "A policy.", statuses=NONE)
async def policy(call: Call) -> Answer:
    return Answer(told_of_policy(found(await _one(call, False), "policy", call.name)))


@operations.put("/policies/{vhost}/{name}", "Set a policy.", body=PUT, statuses=SET)
async def put_policy(call: Call) -> Answer:
    return await _put(call, False)


@operations.delete("/policies/{vhost}/{name}", "Delete a policy.", statuses=GONE)
async def delete_policy(call: Call) -> Answer:
    await call.deeds.delete_policy(call.who, call.name)
    return NOTHING


@operations.get("/operator-policies", "All policies of operators.", *PAGED)
@operations.get("/operator-policies/{vhost}", "All policies of operators, of the virtual host.", *PAGED)
async def operator_policies(call: Call) -> Answer:
    return await _listed(call, True)


@operations.get("/operator-policies/{vhost}/{name}", "A policy of operators.", statuses=NONE)
async def operator_policy(call: Call) -> Answer:
    return Answer(told_of_policy(found(await _one(call, True), "operator's policy", call.name)))


@operations.put("/operator-policies/{vhost}/{name}", "Set a policy of operators.", body=PUT, statuses=SET)
async def put_operator_policy(call: Call) -> Answer:
    return await _put(call, True)


@operations.delete("/operator-policies/{vhost}/{name}", "Delete a policy of operators.", statuses=GONE)
async def delete_operator_policy(call: Call) -> Answer:
    await call.deeds.delete_policy(call.who, call.name, operator=True)
    return NOTHING
