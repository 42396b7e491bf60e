"""What is answered: lists and pages, names and figures, health, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client import errors
from mantamq.management.http import problems
from mantamq.management.http.bindings import properties_key
from mantamq.management.http.names import read_policy, told_arguments, told_keywords
from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.machines import BehindStatus
from starlette.routing import NoMatchFound

from ... import made_up_status as made
from .made_up_api import MadeUpApi, a_queue, a_view, asked


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


# ---- lists


def test_without_a_page_a_list_is_plain_and_with_one_it_is_cut():
    http = MadeUpApi().http
    assert names(http.get("/api/queues").json()) == ["orders", "bills", "lost"]
    assert names(http.get("/api/queues/%2F?sort=name").json()) == ["bills", "lost", "orders"]
    assert names(http.get("/api/queues?sort=messages_ready&sort_reverse=true").json())[0] == "orders"
    page = http.get("/api/queues?page=2&page_size=2&sort=name").json()
    assert names(page.pop("items")) == ["orders"]
    assert page == {"total_count": 3, "filtered_count": 3, "item_count": 1, "page": 2, "page_count": 2, "page_size": 2}
    assert names(http.get("/api/queues?name=OR").json()["items"]) == ["orders"]


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=4",
        "page=x",
        "page_size=501",
        "page_size=0",
        "page=1&use_regex=true",
        "sort_reverse=2",
        "page=" + "9" * 5000,
    ],
)
def test_no_such_page(query):
    answer = MadeUpApi().http.get(f"/api/queues?page_size=1&{query}")
    assert answer.status_code == 400
    if query == "page=4":
        assert answer.json()["error"] == "page_out_of_range"


def test_columns_are_picked():
    http = MadeUpApi().http
    found = http.get("/api/queues?columns=name,message_stats.publish_details.rate,none.such&sort=name").json()
    assert found[2] == {"name": "orders", "message_stats": {"publish_details": {"rate": 5.0}}}
    assert http.get("/api/exchanges?columns=name&page=1").json()["items"][1] == {"name": "x"}


# ---- rows


def test_a_queue_has_rabbitmqs_names():
    queue = MadeUpApi().http.get("/api/queues/%2F/orders").json()
    assert {name: queue[name] for name in ("messages", "messages_ready", "messages_unacknowledged", "consumers")} == {
        "messages": 12, "messages_ready": 10, "messages_unacknowledged": 2, "consumers": 3,
    }  # fmt: skip
    assert queue["message_stats"]["publish"] == 5 and queue["message_stats"]["publish_details"] == {"rate": 5.0}
    assert (queue["members"], queue["online"]) == (["b1", "b2", "b3"], ["b1", "b2", "b3"])
    assert queue["manta"]["owner"] == "b1" and "owner" not in queue
    states = {row["name"]: row["state"] for row in MadeUpApi().http.get("/api/queues").json()}
    assert states == {"orders": "running", "bills": "flow", "lost": "down"}


def test_arguments_have_rabbitmqs_names_and_no_notes_of_the_cluster():
    arguments = {
        "qpid.max_count": 3, "qpid.policy_type": "ring", "manta.auto_delete": True, "mine": b"\xff", "manta.dead_letters": "all",
        "manta.by_default": ["manta.dead_letters"],
    }  # fmt: skip
    told = told_arguments(arguments, "dead", "x-dead-letter-exchange")
    assert told == {
        "x-max-length": 3, "x-overflow": "drop-head", "mine": {"$bytes": "/w=="}, "x-dead-letter-exchange": "dead",
    }  # fmt: skip
    assert told_arguments({"qpid.policy_type": "ring-strict"}) == {"qpid.policy_type": "ring-strict"}


def test_what_a_policy_sets_has_no_x_in_front():
    assert read_policy({"max-length": 3, "qpid.max_size": 4}) == {"x-max-length": 3, "qpid.max_size": 4}
    with pytest.raises(errors.Invalid, match="twice"):
        read_policy({"max-length": 3, "x-max-length": 4})


def test_what_policies_have_made_of_a_queue_has_rabbitmqs_names():
    told = told_keywords(
        {"max_count": 3, "message_ttl_s": 2.5, "overflow": "ring", "alternate": "dead", "flow_stop_count": 2}
    )
    assert told == {
        "max-length": 3, "message-ttl": 2500, "overflow": "drop-head", "dead-letter-exchange": "dead",
        "qpid.flow_stop_count": 2,
    }  # fmt: skip


def test_a_properties_key_tells_bindings_apart():
    keys = [
        properties_key(*one)
        for one in (("", {}), ("a", {}), ("a~b", {}), ("a", {"n": 1}), ("a", {"n": True}), ("", {"n": 1}))
    ]
    assert keys[:3] == ["~", "a", "a%7Eb"]
    assert len(set(keys)) == 6


def test_the_overview_and_the_brokers():
    http = MadeUpApi().http
    overview = http.get("/api/overview").json()
    totals = {"queues": 3, "exchanges": 3, "connections": 1, "channels": 1, "consumers": 3}
    assert overview["object_totals"] == totals
    assert overview["churn_rates"]["connection_created"] == 6
    assert overview["churn_rates"]["queue_deleted_details"] == {"rate": 0.0}
    assert overview["queue_totals"] == {"messages": 12, "messages_ready": 10, "messages_unacknowledged": 2}
    assert overview["message_stats"]["publish_details"]["rate"] == 15.0
    assert overview["listeners"][0] == {"node": "b1", "protocol": "manta", "ip_address": "10.0.0.0", "port": 5000}
    nodes = http.get("/api/nodes").json()
    assert names(nodes) == ["b1", "b2", "b3"] and all(node["running"] for node in nodes)
    assert http.get("/api/nodes/b2").json() == nodes[1]
    assert http.get("/api/nodes/b9").status_code == 404


def test_connections_channels_and_consumers():
    http = (api := MadeUpApi()).http
    row = http.get("/api/connections").json()[0]
    assert (row["name"], row["node"], row["state"], row["protocol"]) == ("c1", "b1", "flow", "manta 1.12")
    assert http.get("/api/connections/c1").json() == row
    assert (row["peer_host"], row["peer_port"], row["connected_at"]) == ("10.1.0.7", 4711, 1_764_000_000_000)
    channels = http.get("/api/channels").json()
    assert names(channels) == ["c1 (1)"] and channels[0]["consumer_count"] == 2
    assert channels[0]["message_stats"] == {
        "publish": 4, "publish_details": {"rate": 0.0}, "deliver_get": 14, "deliver_get_details": {"rate": 0.0},
    }  # fmt: skip
    assert http.get("/api/channels/c1%20(1)").json() == channels[0]
    assert http.get("/api/connections/c1/channels").json() == channels == http.get("/api/vhosts/%2F/channels").json()
    assert http.get("/api/channels/c1").status_code == http.get("/api/connections/c2/channels").status_code == 404
    assert http.delete("/api/connections/c2").status_code == 404
    assert http.delete("/api/connections/c1").status_code == 204
    assert [(name, given) for name, _, given in api.deeds.done] == [("close_connection", ("b1", "c1"))]
    consumers = http.get("/api/consumers").json()
    assert [one["queue"]["name"] for one in consumers] == ["orders", "bills"]
    assert [(one["consumer_tag"], one["active"], one["manta"]["mode"]) for one in consumers] == [
        ("c1/2", True, "consume"), ("c1/3", False, "browse"),
    ]  # fmt: skip
    assert {one["channel_details"]["name"] for one in consumers} == {"c1 (1)"}


def test_what_only_such_a_cluster_has():
    http = MadeUpApi().http
    for path in ("locks", "lock-moves", "replicas", "flow", "members", "groups", "events", "chart", "chart/orders"):
        assert http.get(f"/api/manta/{path}").status_code == 200, path
    assert http.get("/api/manta/locks").json()[0]["owner"] == "b1"
    assert {row["state"] for row in http.get("/api/manta/replicas?queue=orders").json()} == {"in step"}
    assert http.get("/api/manta/replicas?queue=none").status_code == 404
    assert http.get("/api/manta/chart/none").status_code == 404
    assert http.get("/api/manta/chart?span=day").json()["messages"] == [12.0]
    assert http.get("/api/manta/chart/orders?span=week").status_code == 400
    assert http.get("/api/manta/events").json() == {"kept": False}
    assert http.get("/api/manta/chart/orders").json()["messages"] == [12.0, 12.0]
    assert [row["name"] for row in http.get("/api/manta/flow").json()["queues"]] == ["bills"]


def test_before_the_first_look_there_are_empty_answers_and_no_health():
    http = MadeUpApi(ManagementView()).http
    assert http.get("/api/queues").json() == http.get("/api/nodes").json() == []
    assert http.get("/api/overview").json()["object_totals"]["queues"] == 0
    for check in ("alarms", "local-alarms", "node-is-quorum-critical", "virtual-hosts", "port-listener/5000"):
        assert http.get(f"/api/health/checks/{check}").status_code == 503, check


# ---- health


def health(check: str, found: list[Any]) -> tuple[int, dict[str, Any]]:
    view = ManagementView()
    view.take(Sample(1.0, 1000.0, made.report(found), {"queues": [a_queue("orders", id=made.ORDERS)]}))
    answer = MadeUpApi(view).http.get(f"/api/health/checks/{check}")
    return answer.status_code, answer.json()


def test_a_healthy_cluster_says_so():
    for check in ("alarms", "local-alarms", "node-is-quorum-critical", "virtual-hosts"):
        assert health(check, made.actors()) == (200, {"status": "ok"})
    assert health("port-listener/5001", made.actors()) == (200, {"status": "ok", "port": 5001})


def test_a_port_at_which_nobody_listens():
    status, told = health("port-listener/99", made.actors())
    assert status == 503 and told["missing"] == 99 and told["ports"] == [5000, 5001, 5002]
    for port in ("0", "65536", "x", "-1"):
        assert health(f"port-listener/{port}", made.actors())[0] == 400


def test_flow_control_is_an_alarm():
    found = made.actors()
    leading = made.named(found, "sequencer2").machine
    made.alter(leading, flow_stopped=True, flow={"b2": BehindStatus(reason="its disk is full", for_ms=5)})
    status, told = health("alarms", found)
    assert status == 503 and told["alarms"] == [{"node": "b2", "resource": "its disk is full"}]


def test_a_queue_that_has_no_voter_to_lose_is_critical():
    found = made.actors()
    made.alter(made.named(found, "sequencer2").machine.streams[made.ORDERS], missing=["b3"])
    status, told = health("node-is-quorum-critical", found)
    assert status == 503 and told["queues"] == [{"name": "orders", "missing": ["b3"]}]


# ---- what is wrong


KINDS = [
    (errors.NotFound, 404), (errors.Exists, 409), (errors.InUse, 409), (errors.NotEmpty, 409), (errors.Invalid, 400),
    (errors.NoStore, 400), (errors.NotAllowed, 403), (errors.TooLarge, 413), (errors.ResourceLimitExceeded, 409),
    (errors.Timeout, 503), (errors.ConnectionLost, 503), (errors.Unavailable, 503), (errors.Busy, 503),
    (errors.MantaError, 503), (errors.Unauthorized, 503), (errors.Gone, 404), (errors.Deleted, 404), (errors.TimedOut, 503),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_each_kind_of_error_has_its_status(kind, status):
    api = MadeUpApi()
    api.deeds.failure = kind("why")
    answer = api.http.put("/api/queues/%2F/q", json={})
    assert (answer.status_code, answer.json()) == (status, {"error": problems.WORDS[status], "reason": "why"})


def test_a_defect_is_answered_and_ends_nothing(caplog):
    api = MadeUpApi()
    api.deeds.failure = ZeroDivisionError("secret")
    answer = api.http.put("/api/queues/%2F/q", json={})
    assert answer.status_code == 500 and "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text
    api.deeds.failure = LocalError("a rule")
    assert api.http.put("/api/queues/%2F/q", json={}).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/none",
        "/api/queues/vhost",
        "/api/queues/vhost/q",
        "/api/queues/%2F/q/none",
        "/api//queues",
        "/api%2Fqueues",
        "/api/queues%0A",
        "/api/queues/%2F/none",
    ],
)
def test_no_such_path(path):
    answer = MadeUpApi().http.get(path)
    assert answer.status_code == 404


def test_no_such_method():
    answer = MadeUpApi().http.post("/api/queues/%2F/q", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, PUT")
    assert MadeUpApi().http.head("/api/overview").status_code == 200


@pytest.mark.parametrize("part", ["%", "%z1", "%ff", "%c3%28", "a%2"])
async def test_a_path_that_is_no_text(part):
    assert (await asked(MadeUpApi().app, "GET", f"/api/queues/%2F/{part}")).status == 400


def test_a_body_has_a_bound():
    api = MadeUpApi()
    assert api.http.put("/api/queues/%2F/q", content=b" " * ((1 << 20) + 1)).status_code == 413
    pieces = iter([b" " * (1 << 19)] * 3)
    assert api.http.put("/api/queues/%2F/q", content=pieces).status_code == 413
    assert api.http.put("/api/queues/%2F/q", content=b"{}", headers={"Content-Length": "-3"}).status_code == 400
    assert api.deeds.done == []


async def test_whoever_goes_away_meanwhile_gets_no_answer(caplog):
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError("nobody hears it")

    scope = {
        "type": "http", "method": "PUT", "path": "/api/queues///q", "raw_path": b"/api/queues/%2F/q", "query_string": b"",
        "headers": [(b"host", b"localhost")], "client": None, "scheme": "http", "server": None, "root_path": "",
    }  # fmt: skip
    api = MadeUpApi()
    await api.app(scope, receive, send)
    assert api.deeds.done == [] and caplog.text == ""


# ---- after a deed


def test_the_next_answer_after_a_deed_has_a_new_look():
    api = MadeUpApi()
    api.http.get("/api/queues")
    assert (api.watcher.looks, api.watcher.seen) == (0, 1)
    api.http.put("/api/queues/%2F/q", json={})
    api.http.put("/api/queues/%2F/q", json={})
    api.http.get("/api/queues")
    api.http.get("/api/queues")
    assert api.watcher.looks == 1


def test_a_view_of_many_queues_is_answered_page_by_page():
    view = a_view(queues=[a_queue(f"q{number:04}") for number in range(1200)])
    page = MadeUpApi(view).http.get("/api/queues?page=3&page_size=500").json()
    assert page["item_count"] == 200 and page["items"][-1]["name"] == "q1199"


def test_pages_beside_it_can_ask_for_addresses_by_name():
    app = MadeUpApi().app
    assert app.url_path_for("log_in") == "/login"
    with pytest.raises(NoMatchFound):
        app.routes[0].url_path_for("queues")


# ---- bodies


def test_values_of_arguments_arrive_as_they_are_meant():
    api = MadeUpApi()
    assert api.http.put("/api/queues/%2F/q", json={"arguments": {"mine": {"$bytes": "/w=="}}}).status_code == 201
    assert ("arguments", {"mine": b"\xff"}) in api.deeds.done[0][2]


@pytest.mark.parametrize("value", ["[" * 20 + "]" * 20, '{"a":' * 20 + "1" + "}" * 20, '"\\ud800"', "1" * 30, "NaN"])
def test_a_body_with_what_no_broker_takes_is_refused_here(value):
    api = MadeUpApi()
    answer = api.http.put("/api/queues/%2F/q", content='{"arguments": {"mine": ' + value + "}}")
    assert answer.status_code == 400 and api.deeds.done == []
