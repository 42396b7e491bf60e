"""The HTTP API by the real machines of a cluster in memory: what is declared is seen, what is sent is got."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from fake_broker import FakeBroker, passing_time
from mantamq.client import connect_async
from mantamq.management.deeds import Audit, Deeds
from mantamq.management.http.access import Access
from mantamq.management.http.api import api_routes
from mantamq.management.view import ManagementView
from mantamq.management.watcher import Watcher
from starlette.applications import Starlette

from ... import made_up_status as made


@pytest.fixture
def cluster():
    with FakeBroker() as cluster, passing_time(cluster):
        yield cluster


@pytest.fixture
def told() -> list[Audit]:
    return []


@pytest.fixture
async def http(cluster, told):
    async def status():
        return made.report(made.actors())

    async with connect_async(cluster.address) as connection:
        view = ManagementView()
        watcher = Watcher(view, status, connection.statistics)
        await watcher.look()
        app = Starlette(routes=api_routes(view, watcher, Deeds(connection, told.append), Access()))
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:15672") as client:
            yield client


async def test_a_queue_is_declared_seen_and_deleted(http, told):
    wanted: dict[str, Any] = {
        "auto_delete": False, "durable": False, "node": "rabbit@x",
        "arguments": {"x-max-length": 10, "x-overflow": "reject-publish", "x-queue-type": "quorum", "mine": 1},
    }  # fmt: skip
    assert (await http.put("/api/queues/%2F/a%2Fb", json=wanted, auth=("ann", ""))).status_code == 201
    assert (await http.put("/api/queues/%2F/a%2Fb", json=wanted)).status_code == 204
    found = (await http.get("/api/queues/%2F/a%2Fb")).json()
    assert (found["name"], found["vhost"], found["state"], found["messages"]) == ("a/b", "/", "running", 0)
    assert found["arguments"] == {"mine": 1, "x-max-length": 10, "x-overflow": "reject-publish"}
    assert found["manta"]["kind"] == "plain"
    other = await http.put("/api/queues/%2F/a%2Fb", json={"arguments": {"x-max-length": 11}})
    assert other.status_code == 409 and other.json()["error"] == "conflict"
    assert (await http.delete("/api/queues/%2F/a%2Fb")).status_code == 204
    gone = await http.delete("/api/queues/%2F/a%2Fb")
    assert gone.status_code == 404 and set(gone.json()) == {"error", "reason"}
    assert (await http.get("/api/queues/%2F/a%2Fb")).status_code == 404
    assert [one.who for one in told][:2] == ["ann", "anybody"]
    assert told[0].address == "127.0.0.1"


@pytest.mark.parametrize(
    "wanted",
    [
        {"arguments": {"x-queue-type": "stream"}}, {"arguments": {"x-nonsense": 1}}, {"durable": "perhaps"},
        {"arguments": [1]}, {"exclusive": True}, {"arguments": {"manta.exclusive": True}}, {"durable": True},
        {"arguments": {"x-max-length": -1}}, {"arguments": {"deep": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}},
        {"arguments": {"large": 2**70}}, [], "text", 3,
    ],
)  # fmt: skip
async def test_a_queue_that_cannot_be_is_refused(http, wanted):
    answer = await http.put("/api/queues/%2F/q", json=wanted)
    assert answer.status_code == 400, answer.text
    assert answer.json()["reason"]


async def test_half_a_character_is_refused(http):
    answer = await http.put("/api/queues/%2F/q", content=rb'{"arguments": {"half": "\ud800"}}')
    assert answer.status_code == 400 and "surrogate" in answer.json()["reason"]


async def test_a_queue_is_deleted_only_if_it_is_empty(http):
    await http.put("/api/queues/%2F/q", json={})
    await http.post("/api/exchanges/%2F/amq.default/publish", json={"routing_key": "q", "payload": "1"})
    assert (await http.delete("/api/queues/%2F/q?if-empty=true")).status_code == 409
    assert (await http.delete("/api/queues/%2F/q?if-empty=maybe")).status_code == 400
    assert (await http.delete("/api/queues/%2F/q/contents")).status_code == 204
    assert (await http.delete("/api/queues/%2F/q?if-empty=true&if-unused=true")).status_code == 204


async def test_messages_are_sent_got_and_looked_at(http, told):
    await http.put("/api/queues/%2F/q", json={"durable": "false"})
    sent = {
        "routing_key": "q", "payload": "gr\u00fc\u00dfe", "payload_encoding": "string",
        "properties": {"headers": {"n": 1}, "priority": 3, "delivery_mode": 2},
    }  # fmt: skip
    answer = await http.post("/api/exchanges/%2F/amq.default/publish", json=sent)
    assert answer.json() == {"routed": True}
    raw = base64.b64encode(b"\xff\x00").decode()
    binary = {"routing_key": "q", "payload": raw, "payload_encoding": "base64", "properties": []}
    await http.post("/api/exchanges/%2F/amq.default/publish", json=binary)
    nobody = {"routing_key": "nobody", "payload": ""}
    assert (await http.post("/api/exchanges/%2F/amq.default/publish", json=nobody)).json() == {"routed": False}
    looked = (await http.get("/api/manta/queues/%2F/q/messages?count=5&truncate=2")).json()
    assert [one["payload"] for one in looked] == ["gr", base64.b64encode(b"\xff\x00").decode()]
    assert looked[0]["payload_bytes"] == 7 and looked[0]["redelivered"] is False
    got = (await http.post("/api/queues/%2F/q/get", json={"count": "1", "ackmode": "ack_requeue_true"})).json()
    assert got[0]["payload"] == "gr\u00fc\u00dfe" and got[0]["payload_encoding"] == "string"
    assert got[0]["properties"]["headers"] == {"n": 1} and got[0]["properties"]["delivery_mode"] == 2
    assert got[0]["routing_key"] == "q"
    got = (await http.post("/api/queues/%2F/q/get", json={"count": 9, "ackmode": "ack_requeue_false"})).json()
    assert [(one["payload"], one["payload_encoding"]) for one in got] == [
        ("gr\u00fc\u00dfe", "string"),
        (raw, "base64"),
    ]
    assert got[0]["redelivered"] is True
    assert (await http.get("/api/queues/%2F/q")).json()["messages"] == 0
    assert (await http.post("/api/queues/%2F/none/get", json={})).status_code == 404


@pytest.mark.parametrize(
    "wanted",
    [
        {"count": 0}, {"count": 10**9}, {"ackmode": "x"}, {"encoding": "utf-7"}, {"truncate": -1}, {"count": "x"},
        {"count": 1.5}, {"count": True}, {"count": "9" * 5000},
    ],
)  # fmt: skip
async def test_messages_that_cannot_be_got(http, wanted):
    await http.put("/api/queues/%2F/q", json={})
    assert (await http.post("/api/queues/%2F/q/get", json=wanted)).status_code == 400


@pytest.mark.parametrize(
    "wanted",
    [
        {"payload": "x"}, {"routing_key": "q"}, {"routing_key": "q", "payload": "%", "payload_encoding": "base64"},
        {"routing_key": "q", "payload": "x", "payload_encoding": "rot13"}, {"routing_key": 3, "payload": "x"},
        {"routing_key": "q", "payload": "x", "properties": {"app_id": "x"}},
        {"routing_key": "q", "payload": "x", "properties": "x"},
        {"routing_key": "q", "payload": "x", "properties": {"$bytes": "eA=="}},
    ],
)  # fmt: skip
async def test_a_message_that_cannot_be_sent(http, wanted):
    assert (await http.post("/api/exchanges/%2F/amq.default/publish", json=wanted)).status_code == 400


async def test_a_message_that_is_too_large(http):
    await http.put("/api/queues/%2F/q", json={})
    large = {"routing_key": "q", "payload": "x" * (9 << 20)}
    assert (await http.post("/api/exchanges/%2F/amq.default/publish", json=large)).status_code == 413
    assert (await http.post("/api/exchanges/%2F/x/publish", content=b"x" * (17 << 20))).status_code == 413


async def test_exchanges_and_bindings(http):
    wanted = {
        "type": "topic",
        "durable": "false",
        "internal": "false",
        "arguments": {"alternate-exchange": "amq.fanout"},
    }
    assert (await http.put("/api/exchanges/%2F/x", json=wanted)).status_code == 201
    assert (await http.put("/api/exchanges/%2F/x", json=wanted)).status_code == 204
    assert (await http.put("/api/exchanges/%2F/x", json={"type": "fanout"})).status_code == 409
    assert (await http.put("/api/exchanges/%2F/y", json={})).status_code == 400
    found = (await http.get("/api/exchanges/%2F/x")).json()
    assert (found["type"], found["arguments"]) == ("topic", {"alternate-exchange": "amq.fanout"})
    await http.put("/api/queues/%2F/q", json={})
    bound = await http.post("/api/bindings/%2F/e/x/q/q", json={"routing_key": "a.~/#", "arguments": {"k": 1}})
    assert bound.status_code == 201
    location = bound.headers["location"]
    assert (await http.post("/api/bindings/%2F/e/x/q/none", json={})).status_code == 404
    assert (await http.post("/api/bindings/%2F/e/x/z/q", json={})).status_code == 404
    one = (await http.get(f"/api/bindings/%2F/e/x/q/{location}")).json()
    assert (one["source"], one["destination"], one["destination_type"]) == ("x", "q", "queue")
    assert (one["routing_key"], one["arguments"]) == ("a.~/#", {"k": 1})
    assert (await http.get("/api/bindings/%2F/e/x/q/q")).json() == [one]
    assert one in (await http.get("/api/exchanges/%2F/x/bindings/source")).json()
    of_queue = (await http.get("/api/queues/%2F/q/bindings")).json()
    assert one in of_queue and any(row["source"] == "" and row["routing_key"] == "q" for row in of_queue)
    assert (await http.delete("/api/exchanges/%2F/x?if-unused=true")).status_code == 409
    assert (await http.delete(f"/api/bindings/%2F/e/x/q/{location}")).status_code == 204
    assert (await http.delete(f"/api/bindings/%2F/e/x/q/{location}")).status_code == 404
    assert (await http.delete("/api/exchanges/%2F/x?if-unused=true")).status_code == 204
    assert (await http.delete("/api/exchanges/%2F/amq.direct")).status_code == 403


async def test_a_binding_without_key_is_known_by_a_tilde(http):
    await http.put("/api/exchanges/%2F/x", json={"type": "fanout"})
    await http.put("/api/exchanges/%2F/y", json={"type": "fanout"})
    assert (await http.post("/api/bindings/%2F/e/x/e/y", json={})).headers["location"] == "y/~"
    found = (await http.get("/api/exchanges/%2F/y/bindings/destination")).json()
    assert [(row["destination_type"], row["properties_key"]) for row in found] == [("exchange", "~")]
    assert (await http.delete("/api/bindings/%2F/e/x/e/y/~")).status_code == 204


async def test_of_bindings_with_one_key_none_is_undone_alone(http):
    await http.put("/api/exchanges/%2F/x", json={"type": "headers"})
    await http.put("/api/queues/%2F/q", json={})
    for number in (1, 2):
        await http.post("/api/bindings/%2F/e/x/q/q", json={"routing_key": "k", "arguments": {"n": number}})
    rows = (await http.get("/api/bindings/%2F/e/x/q/q")).json()
    assert len({row["properties_key"] for row in rows}) == 2
    assert (await http.delete(f"/api/bindings/%2F/e/x/q/q/{rows[0]['properties_key']}")).status_code == 409


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
async def test_policies(http, kind):
    definition = {"max-length": 5} | ({"overflow": "reject-publish"} if kind == "policies" else {})
    wanted = {"pattern": "^q", "definition": definition, "priority": 2}
    assert (await http.put(f"/api/{kind}/%2F/p", json=wanted)).status_code == 201
    assert (await http.put(f"/api/{kind}/%2F/p", json=wanted | {"priority": "3"})).status_code == 204
    found = (await http.get(f"/api/{kind}/%2F/p")).json()
    assert found == wanted | {"priority": 3, "name": "p", "vhost": "/", "apply-to": "queues"}
    assert (await http.get(f"/api/{kind}")).json() == (await http.get(f"/api/{kind}/%2F")).json() == [found]
    await http.put("/api/queues/%2F/q", json={})
    queue = (await http.get("/api/queues/%2F/q")).json()
    assert queue["policy" if kind == "policies" else "operator_policy"] == "p"
    assert queue["effective_policy_definition"]["max-length"] == 5
    for wrong in ({"apply-to": "exchanges"}, {"definition": {"ha-mode": "all"}}, {"pattern": "("}, {"definition": 1}):
        assert (await http.put(f"/api/{kind}/%2F/p", json=wanted | wrong)).status_code == 400
    assert (await http.delete(f"/api/{kind}/%2F/p")).status_code == 204
    assert (await http.delete(f"/api/{kind}/%2F/p")).status_code == 404
    assert (await http.get(f"/api/{kind}/%2F/p")).status_code == 404


async def test_definitions_go_out_and_come_in(http):
    await http.put("/api/exchanges/%2F/dead", json={"type": "fanout"})
    arguments = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "k", "x-max-length": 5}
    await http.put("/api/queues/%2F/q", json={"arguments": arguments, "auto_delete": True})
    await http.post("/api/bindings/%2F/e/dead/q/q", json={"routing_key": "k"})
    await http.put("/api/policies/%2F/p", json={"pattern": "q", "definition": {"message-ttl": 5000}})
    before = (await http.get("/api/queues/%2F/q")).json()
    theirs, ours = (await http.get("/api/definitions")).json(), (await http.get("/api/manta/definitions")).json()
    # What RabbitMQ does there with the oldest message it does here, and says so.
    assert theirs["queues"][0]["arguments"] == arguments | {"qpid.policy_type": "dead-letter"}
    assert theirs["queues"][0]["auto_delete"] is True
    for file in (theirs, ours):
        await http.delete("/api/queues/%2F/q")
        await http.delete("/api/policies/%2F/p")
        await http.delete("/api/exchanges/%2F/dead")
        done = await http.post("/api/definitions", json=file)
        assert done.status_code == 200 and done.json()["counts"] == {"new": 4}
        after = (await http.get("/api/queues/%2F/q")).json()
        assert {name: after[name] for name in ("arguments", "auto_delete", "policy")} == {
            name: before[name] for name in ("arguments", "auto_delete", "policy")
        }
    assert (await http.post("/api/definitions", json=theirs)).json()["counts"] == {"unchanged": 4}
    durable = {
        "vhosts": [{"name": "/"}],
        "queues": [{"name": "d", "vhost": "/", "durable": True, "auto_delete": False}],
    }
    refused = await http.post("/api/definitions", json=durable)
    assert refused.status_code == 400 and "store" in refused.json()["reason"]
    assert (await http.post("/api/definitions", content=b"{")).status_code == 400


async def test_move_redrive_and_purge(http):
    for name in ("a", "b"):
        await http.put(f"/api/queues/%2F/{name}", json={})
    for number in range(3):
        sent = {"routing_key": "a", "payload": "", "properties": {"headers": {"n": number}}}
        await http.post("/api/exchanges/%2F/amq.default/publish", json=sent)
    moved = await http.post("/api/manta/queues/%2F/a/move", json={"to": "b", "selector": "n > 1"})
    assert moved.json() == {"moved": 1, "left": 0}
    assert (await http.post("/api/manta/queues/%2F/b/redrive", json={"to": "a"})).json() == {"moved": 1, "left": 0}
    assert (await http.post("/api/manta/queues/%2F/a/purge", json={"count": 2})).json() == {"purged": 2}
    assert (await http.post("/api/manta/queues/%2F/a/move", json={"to": ""})).status_code == 400
    assert (await http.post("/api/manta/queues/%2F/a/move", json={"to": "b", "selector": "n >"})).status_code == 400
    assert (await http.post("/api/manta/queues/%2F/none/move", json={"to": "b"})).status_code == 404


async def test_a_cluster_that_is_alive_says_so(http):
    assert (await http.get("/api/aliveness-test/%2F")).json() == {"status": "ok"}
    assert (await http.get("/api/aliveness-test/other")).status_code == 404
