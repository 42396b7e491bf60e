"""Every path and method of the API with hostile values: no request fails the program, and none does anything without access.

The paths are those that the API tells of itself.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any
from urllib.parse import quote

import pytest
from fake_broker import FakeBroker, passing_time
from mantamq.client import connect_async
from mantamq.management.deeds import Audit, Deeds
from mantamq.management.http.access import Access
from mantamq.management.http.api import TABLE, api_routes
from mantamq.management.http.openapi import described, operation_id
from starlette.applications import Starlette

from ..kept_link import KeptLink
from .made_up_api import DONE, LOOKED, TOKEN, FakeWatcher, MadeUpApi, Told, a_view, asked

ROUNDS = 16
NESTED: Any = 1
for _ in range(200):
    NESTED = [NESTED]
TEXTS = [
    "", " ", "/", "%2F", "..", ".", "../../etc/passwd", "<script>alert(1)</script>", "'; DROP TABLE queues; --", "\x00", "a\x00b",
    "\r\nSet-Cookie: x=1", "x" * 250, "x" * 256, "x" * 5000, "\u202egnp.exe", "\u05d0\u05d1", "\U0001f41f" * 63, "\ufeff", "~", "a~b",
    "amq.direct", "amq.default", "orders", "null", "true", "{}", "$bytes", "\\", "%", "%00", "%ff", "{name}", "${jndi:x}", "-1", "1e400",
    "NaN", "1" * 400, "x, y", "a.b.c", "a" * 100 + ".b", "(a+)+$", "[", "*", "#", "?", "&", "=", ";", "\u0130", "e\u0301",
]  # fmt: skip
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**70),
    1.5,
    -0.0,
    1e308,
    [],
    {},
    [[]],
    {"": ""},
    NESTED,
]
RAW = [
    b"", b"{", b"[", b"nul", b"\xff\xfe", b"{}" * 2, b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"a":' * 5000, b"9" * 5000, b'{"a": NaN}',
    b'{"count": 1e999}', b'{"arguments": {"x": "\\ud800"}}', b'"text"', b"3", b"\x00", b'{"routing_key": "\\ud800", "payload": ""}',
    b'{"a": ' + b"9" * 5000 + b"}",
]  # fmt: skip
FIELDS = [
    "durable", "auto_delete", "exclusive", "arguments", "type", "internal", "routing_key", "payload", "payload_encoding", "properties",
    "count", "ackmode", "encoding", "truncate", "pattern", "definition", "priority", "apply-to", "to", "selector", "node", "vhost", "name",
    "queues", "exchanges", "bindings", "manta", "rabbit_version",
]  # fmt: skip


def value(of: random.Random, depth: int = 3) -> Any:
    kind = of.randrange(10)
    if kind < 4:
        return of.choice(TEXTS)
    if kind < 8 or not depth:
        return of.choice(SCALARS)
    if kind == 8:
        return [value(of, depth - 1) for _ in range(of.randrange(3))]
    return {of.choice(TEXTS + FIELDS): value(of, depth - 1) for _ in range(of.randrange(4))}


def body(of: random.Random) -> bytes:
    if of.random() < 0.2:
        return of.choice(RAW)
    told = {name: value(of) for name in of.sample(FIELDS, of.randrange(len(FIELDS)))}
    return json.dumps(told).encode()


def path(of: random.Random, template: str) -> str:
    """Mostly well encoded, and sometimes not."""

    def part(found: re.Match[str]) -> str:
        if found[1] == "vhost" and of.random() < 0.7:
            return "%2F"
        if found[1] == "kind" and of.random() < 0.7:
            return of.choice("qe")
        text = of.choice([*TEXTS, "orders", "x"])
        return quote(text, safe="") if of.random() < 0.9 else "%" + quote(text, safe="%")

    return re.sub(r"\{(\w+)\}", part, template)


def query(of: random.Random, parameters: list[str]) -> str:
    names = [*parameters, "page", "sort", of.choice(TEXTS)]
    chosen = of.sample(names, of.randrange(min(4, len(names)) + 1))
    return "&".join(
        f"{quote(name)}={quote(str(of.choice([*TEXTS, *SCALARS])), safe='%' if of.random() < 0.1 else '')}"
        for name in chosen
    )


def requests(seed: int) -> list[tuple[str, str, bytes]]:
    of = random.Random(seed)
    found = []
    for template, methods in described(TABLE.operations)["paths"].items():
        for method in methods:
            parameters = [one["name"] for one in methods[method]["parameters"] if one["in"] == "query"]
            for _ in range(ROUNDS):
                target = path(of, template)
                if text := query(of, parameters):
                    target += f"?{text}"
                found.append(
                    (method.upper(), target, body(of) if method in ("post", "put") or of.random() < 0.1 else b"")
                )
    return found


def check(told: Told, method: str, target: str, sent: bytes) -> None:
    assert told.status in (200, 201, 204, 400, 403, 404, 405, 409, 413), (method, target, sent[:200], told)
    if told.status >= 400:
        assert set(json.loads(told.content)) == {"error", "reason"}, (method, target)
    elif told.content:
        json.loads(told.content)


@pytest.mark.parametrize("seed", range(6))
async def test_no_hostile_request_fails_the_program(seed):
    api = MadeUpApi()
    statuses = set()
    for method, target, sent in requests(seed):
        told = await asked(api.app, method, target, sent)
        check(told, method, target, sent)
        statuses.add(told.status)
    assert {200, 204, 400, 404} <= statuses
    assert api.deeds.done  # some of them are in order


@pytest.mark.parametrize("seed", range(2))
async def test_no_hostile_request_does_anything_without_access(seed):
    for hosts, address in ((["10.0.0.5"], "10.0.0.9"), (["127.0.0.1"], "127.0.0.1")):
        api = MadeUpApi(access=Access(hosts, TOKEN))
        for method, target, sent in requests(seed):
            assert (await asked(api.app, method, target, sent, address)).status == 401, (method, target)
        assert api.deeds.done == [] and api.watcher.seen == 0


async def test_no_get_does_anything():
    api = MadeUpApi()
    for method, target, sent in requests(7):
        if method == "GET":
            await asked(api.app, "GET", target, sent)
            await asked(api.app, "HEAD", target, sent)
    assert api.deeds.done == []


async def test_no_hostile_request_harms_a_cluster():
    with FakeBroker() as cluster, passing_time(cluster):
        async with connect_async(cluster.address) as connection:
            view = a_view()
            app = Starlette(
                routes=api_routes(view, FakeWatcher(), Deeds(KeptLink(connection), list[Audit]().append), Access())
            )  # type: ignore[arg-type]
            for method, target, sent in requests(11):
                check(await asked(app, method, target, sent), method, target, sent)
            assert await connection.declare_queue("afterwards") is True


def test_the_description_has_every_operation_once():
    document = MadeUpApi().http.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    told = {
        (method.upper(), name.removeprefix("/api")) for name, methods in document["paths"].items() for method in methods
    }
    assert told == {(one.method, one.path) for one in TABLE.operations}
    assert len({operation_id(one) for one in TABLE.operations}) == len(TABLE.operations)
    for methods in document["paths"].values():
        for one in methods.values():
            assert one["summary"].endswith(".") and {"401", "503"} <= set(one["responses"])


def test_every_deed_can_be_done_by_it():
    """The made-up deeds are those that there are, and each path that changes something leads to one."""
    api = MadeUpApi()
    sent = json.dumps({
        "type": "topic", "routing_key": "k", "payload": "", "pattern": "q", "definition": {"max-length": 1}, "to": "b",
    })  # fmt: skip
    names = {"vhost": "%2F", "kind": "q", "exchange": "x", "target": "orders", "properties_key": "k", "name": "q"}
    for one in TABLE.operations:
        if one.method != "GET":
            # There is one connection, of c1.
            here = names | ({"name": "c1"} if one.path.startswith("/connections") else {})
            asked = "/api" + one.path.format(**here)
            assert api.http.request(one.method, asked, content=sent).status_code < 300, asked
    assert {deed for deed, *_ in api.deeds.done} == set(DONE)
    assert set(LOOKED) == {"bindings", "policies", "definitions", "browse"}
