"""A queue argument with a meaning: one field of the settings, from the declaration to the queue at a replica."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from mantamq.protocol.errors import INVALID, PeerError
from mantamq.protocol.machine import PeerUp, Received
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.replica import machine
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.queue_frames import Host
from mantamq.protocol.wire.settings import Argument, parse, read
from mantamq.protocol.wiring import arguments
from mantamq.protocol.wiring.arguments import ExchangeSettings
from msgspec import Meta

from tests.unit.cluster_in_memory import MemoryCluster

RULE = "give a number of messages, at least 1, or leave it out for no limit"


class Toy(QueueSettings, frozen=True):
    """The settings, and two that there are not."""

    colours: Annotated[int, Meta(ge=1), Argument("qpid.colours", RULE)] = 0
    shape: Annotated[Literal["reject", "ring"], Argument("x-shape", "give reject or ring")] = "reject"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(arguments.SHAPES, "queue", Toy)
    monkeypatch.setattr(machine, "QueueSettings", Toy)


def hosted(alternate: str = "", **given: Any) -> HostedQueue:
    """The queue at a replica that is told of it in a frame with these arguments."""
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(PeerUp("b1"))
    (frame,) = FrameBuffer().feed(encode_frame(Host("q#1", alternate, given, (1, 7), False, 1, ["b1"])))
    replica.step(Received("b1", frame))
    return replica.queues["q#1"]


# ---- a shape


def test_a_setting_is_parsed_and_what_is_left_out_has_its_default():
    assert parse(Toy, "queue", {}) == Toy()
    assert parse(Toy, "queue", {"qpid.colours": 5, "x-shape": "ring"}) == Toy(colours=5, shape="ring")


@pytest.mark.parametrize("value", [0, -1, 1.5, "1.0", "-1", "five", "", "9" * 30, True, None, b"5", [5], {"n": 5}])
def test_a_value_that_it_does_not_take_is_refused_with_name_value_and_rule(value: object):
    with pytest.raises(PeerError) as refused:
        parse(Toy, "queue", {"qpid.colours": value})
    assert refused.value.code == INVALID
    assert refused.value.text == f"queue argument 'qpid.colours' is {value!r}: {RULE}"


def test_a_text_stays_short_whatever_is_given():
    with pytest.raises(PeerError) as refused:
        parse(Toy, "queue", {"x-shape": "x" * 10_000})
    assert len(refused.value.text) < 200 and refused.value.text.endswith("give reject or ring")


def test_a_number_may_be_written_as_text():
    assert parse(Toy, "queue", {"qpid.colours": "5"}) == read(Toy, {"qpid.colours": "+5"}) == Toy(colours=5)


def test_names_of_fields_are_no_arguments():
    given = {"alternate": "mine", "colours": "mine", "team": 3}
    assert parse(Toy, "queue", given) == Toy()
    assert read(Toy, given, alternate="lost") == Toy(alternate="lost")


def test_a_reader_passes_over_values_that_are_not_of_its_version():
    assert read(Toy, {"qpid.colours": "10%", "x-shape": "ring", "qpid.newer": 1}) == Toy(shape="ring")


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Toy().max_count = 3  # type: ignore[misc]


# ---- the replica


def test_the_alternate_exchange_is_a_setting_of_each_queue():
    queue = hosted("lost")
    assert queue.settings == QueueSettings(alternate="lost") and queue.state.alternate == "lost"


@pytest.mark.usefixtures("toy")
def test_a_setting_arrives_at_the_hosted_queue():
    assert hosted("lost", **{"qpid.colours": 7, "team": "ours"}).settings == Toy(alternate="lost", colours=7)


@pytest.mark.parametrize("given", [{"qpid.newer": [1, {"a": 2}]}, {"qpid.colours": "10%"}, {"x-newer": None, "own": 1}])
def test_arguments_of_a_newer_broker_do_not_end_an_older_replica(given: dict[str, Any]):
    assert hosted("lost", **given).settings == QueueSettings(alternate="lost")


@pytest.mark.usefixtures("toy")
def test_values_of_a_newer_broker_do_not_end_an_older_replica():
    assert hosted(**{"qpid.colours": "10%"}).settings == Toy()


def test_host_is_on_the_wire_what_it_was():
    """The arguments are a map in third place; what came later is behind all that."""
    host = Host("q#1", "lost", {"qpid.max_count": 7, "own": "x"}, (1, 7), False, 3, ["b1"])
    assert encode_frame(host).hex() == (
        "010000002b3898a3712331a46c6f737482ae717069642e6d61785f636f756e7407a36f776ea178920107c20391a26231c2"
    )


# ---- exchanges and bindings


def test_exchanges_have_settings_in_the_same_way(monkeypatch: pytest.MonkeyPatch):
    class ToyExchange(ExchangeSettings, frozen=True):
        numbered: Annotated[bool, Argument("qpid.msg_sequence", "give true, or leave it out")] = False

    monkeypatch.setitem(arguments.SHAPES, "exchange", ToyExchange)
    client = MemoryCluster().client("b1")
    refused = client.command("declare_exchange", name="e", arguments={"qpid.msg_sequence": "on"})
    assert refused.text == "exchange argument 'qpid.msg_sequence' is 'on': give true, or leave it out"
    assert client.command("declare_exchange", name="e", arguments={"qpid.msg_sequence": True}).code == ""


@pytest.mark.parametrize(("exchange", "code"), [("amq.match", "invalid"), ("amq.topic", "")])
def test_the_wiring_itself_knows_which_exchange_goes_by_x_match(exchange: str, code: str):
    client = MemoryCluster().client("b1")
    client.command("declare_queue", name="q")
    assert client.command("bind", exchange=exchange, queue="q", key="k", arguments={"x-match": "most"}).code == code


# ---- the whole way


@pytest.mark.usefixtures("toy")
def test_from_a_declaration_to_every_replica():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    refused = client.command("declare_queue", name="q", arguments={"qpid.colours": 0})
    assert (refused.code, refused.text) == ("invalid", f"queue argument 'qpid.colours' is 0: {RULE}")
    assert client.command("queues").value == [], "nothing was ordered"
    assert client.command("declare_queue", name="q", arguments={"qpid.colours": 9, "team": "ours"}).code == ""
    assert [one["arguments"] for one in client.command("queues").value] == [{"qpid.colours": 9, "team": "ours"}]
    replicas = [one for one in cluster.machines.values() if isinstance(one, ReplicaMachine)]
    found = [queue.settings for replica in replicas for queue in replica.queues.values()]
    assert found == [Toy(colours=9)] * 3


# ---- limits


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {}),
        ({"team": "ours"}, {"team": "ours"}),
        ({"qpid.max_count": "10", "qpid.policy_type": "ring"}, {"qpid.max_count": 10, "qpid.policy_type": "ring"}),
        ({"x-max-length": 10}, {"qpid.max_count": 10, "qpid.policy_type": "ring"}),
        ({"x-max-length-bytes": 9, "x-overflow": "drop-head"}, {"qpid.max_size": 9, "qpid.policy_type": "ring"}),
        ({"qpid.max_count": 5, "x-max-length": "5"}, {"qpid.max_count": 5, "qpid.policy_type": "ring"}),
        ({"qpid.max_count": 5}, {"qpid.max_count": 5, "qpid.policy_type": "reject"}),
        ({"x-max-length": 5, "x-overflow": "reject-publish"}, {"qpid.max_count": 5, "qpid.policy_type": "reject"}),
    ],
)
def test_definitions_that_mean_the_same_are_the_same(given: dict[str, Any], wanted: dict[str, Any]):
    assert arguments.check("queue", given) == wanted == arguments.check("queue", wanted)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"qpid.max_count": 5, "x-max-length": 6}, "'x-max-length' is 6: 'qpid.max_count' says 5, and means the same"),
        ({"qpid.policy_type": "ring"}, "what happens at a limit needs a limit: give max_count or max_size"),
        (
            {"qpid.max_count": 5, "qpid.policy_type": "flow_to_disk"},
            "'qpid.policy_type' is 'flow_to_disk': give reject (x-overflow: reject-publish), ring",
        ),
        ({"qpid.max_count": 5, "qpid.flow_stop_count": 6}, "flow_stop_count 6 is above the limit of 5"),
        ({"qpid.flow_stop_count": 6, "qpid.flow_resume_count": 7}, "flow_resume_count 7 is above flow_stop_count 6"),
        ({"qpid.flow_resume_size": 7}, "flow_resume_size needs a flow_stop_size"),
        ({"qpid.flow_stop_count": -1}, "give a number of messages, or 0 for no flow control by it"),
        (
            {"qpid.max_count": 5, "qpid.policy_type": "ring-strict", "qpid.priorities": 3},
            "a queue with priorities cannot be ring-strict",
        ),
        ({"x-max-length": 0}, "'x-max-length' is 0: give a number of messages, at least 1"),
        ({"x-max-length": 5, "x-overflow": "reject-publish-dlx"}, "is 'reject-publish-dlx': give reject"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], text: str):
    with pytest.raises(PeerError) as refused:
        arguments.check("queue", given)
    assert refused.value.code == INVALID and text in refused.value.text


def test_the_same_queue_in_other_words_is_there_already_and_another_is_refused():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    words = {"x-max-length": "10", "x-overflow": "drop-head"}
    assert client.command("declare_queue", name="q", arguments=words).value == {"changed": True}
    same = client.command("declare_queue", name="q", arguments={"qpid.max_count": 10, "qpid.policy_type": "ring"})
    assert same.value == {"changed": False}
    refused = client.command("declare_queue", name="q", arguments={"x-max-length": 11})
    assert refused.code == "exists" and "'qpid.max_count': 10" in refused.text


def test_the_limit_of_all_is_named_only_where_it_is_what_is_contradicted():
    for given, named in (({"qpid.fairshare": 3}, False), ({"qpid.flow_stop_size": 200}, True)):
        with pytest.raises(PeerError) as refused:
            arguments.check("queue", given, 100)
        assert ("names no limit has 100 bytes" in refused.value.text) is named, refused.value.text


def test_a_limit_is_refused_while_a_member_would_not_keep_to_it():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    cluster.machines["b1"].cluster.versions.least = 5
    refused = client.command("declare_queue", name="q", arguments={"x-max-length": 10})
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
    assert client.command("declare_queue", name="q", arguments={"team": "ours"}).code == ""


@pytest.mark.parametrize(
    ("given", "by_count", "by_size"),
    [
        ({}, (0, 0), (0, 0)),
        ({"max_count": 100}, (80, 70), (0, 0)),
        ({"max_count": 100, "max_size": 1000}, (80, 70), (800, 700)),
        ({"max_count": 100, "overflow": "ring"}, (0, 0), (0, 0)),
        ({"max_count": 100, "overflow": "ring", "flow_stop_count": 50}, (50, 43), (0, 0)),
        ({"max_count": 100, "flow_stop_count": 0}, (0, 0), (0, 0)),
        ({"max_count": 100, "flow_stop_count": 60, "flow_resume_count": 20}, (60, 20), (0, 0)),
        ({"flow_stop_count": 1}, (1, 1), (0, 0)),
        ({"max_count": 1}, (0, 0), (0, 0)),
    ],
)
def test_thresholds_are_a_part_of_the_limit_unless_they_are_given(
    given: dict[str, Any], by_count: tuple[int, int], by_size: tuple[int, int]
):
    settings = QueueSettings(**{"overflow": "reject"} | given)
    assert settings.thresholds == (by_count, by_size)
    assert settings.judges == bool(by_count[0] or by_size[0] or (settings.limited and settings.overflow == "reject"))
