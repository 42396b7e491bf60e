"""The description of the API (OpenAPI 3.1), made of the table of its operations: so it has all of them, as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .overview import version
from .table import Operation

VERSION = "3.1.0"
PROBLEM: dict[str, Any] = {
    "type": "object", "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}  # fmt: skip
ALWAYS = {
    400: "something in the request is wrong, and what", 401: "the token is missing or wrong",
    403: "from another site, or refused by the broker on principle",
    429: "many wrong tokens have come from this address; `Retry-After` says for how long to wait",
    503: "the cluster does not answer in time",
}  # fmt: skip
TOO_LONG = {413: "the body is too long"}


def described(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document."""
    paths: dict[str, Any] = {}
    for one in operations:
        paths.setdefault(f"/api{one.path}", {})[one.method.lower()] = _operation(one)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Manta", "version": version() or "0",
            "description": "The management of a cluster, with RabbitMQ's paths and names where objects match.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": "manta_session"},
            },
        },
        "security": [{"bearer": []}, {"basic": []}, {"session": []}, {}],
    }  # fmt: skip


def _operation(one: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **_example(name)}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    parameters += [
        {"name": name, "in": "query", "schema": {"type": type}, "description": what} for name, type, what in one.query
    ]
    told: dict[str, Any] = {"summary": one.what, "operationId": operation_id(one), "parameters": parameters}
    if one.body is not None:
        told["requestBody"] = {"content": {"application/json": {"schema": dict(one.body)}}}
    return told | {"responses": _responses(one)}


def operation_id(one: Operation) -> str:
    """A name like no other operation's."""
    return "_".join([one.method.lower(), *(re.sub(r"\W", "_", part.strip("{}")) for part in one.parts)])


def _example(name: str) -> dict[str, str]:
    return {"description": "the one virtual host, written %2F", "example": "/"} if name == "vhost" else {}


def _responses(one: Operation) -> dict[str, Any]:
    wrong = ALWAYS | (TOO_LONG if one.body is not None else {}) | {k: v for k, v in one.statuses.items() if k >= 400}
    good = {status: what for status, what in one.statuses.items() if status < 400} or {200: "what was asked for"}
    told: dict[str, Any] = {str(status): {"description": what} for status, what in sorted(good.items())}
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    told |= {str(status): {"description": what, "content": problem} for status, what in sorted(wrong.items())}
    return told
