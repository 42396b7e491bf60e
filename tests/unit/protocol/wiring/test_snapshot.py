"""The wiring's snapshot as it travels: the same bytes as ever, and read by programs of every version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_up_wiring import wired
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.wire.events import (
    AnyEvent,
    Bind,
    Condemn,
    DeclareExchange,
    DeclareQueue,
    Evict,
    FlowControl,
    InUse,
    Supervise,
)
from mantamq.protocol.wire.framing import check_depth
from mantamq.protocol.wiring.arguments import DEPTH, check
from mantamq.protocol.wiring.cluster_flow import ClusterFlow
from mantamq.protocol.wiring.snapshot import Claim, Condemned, FlowSnapshot, Use, UsesSnapshot
from mantamq.protocol.wiring.uses import Uses
from mantamq.protocol.wiring.wiring import Wiring

EVENTS: list[AnyEvent] = [
    DeclareExchange("e", "topic", {"x": b"\xff"}, True, "amq.fanout"),
    DeclareQueue("q", {"a": [1, {"n": None}]}, False, "e"),
    Bind("e", "q", "k.#", {"z": 1.5}),
    FlowControl("b2", True, "behind"),
    Supervise(3, "word", "supervisor3"),
    InUse("q#2", "b1", 4, True, "c/1", 3),
    Condemn("q#2", "b1", 4, 7, False, True),
    Evict("b3", 2),
    Bind("e", "", "k", {"y": 2}, "amq.match"),
]
GOLDEN = (
    "9f919ea3712332a17181a161920181a16ec0c2a165a0"  # the queue
    "c0a000c0a0c20090"  # no policy has changed it
    "9795a0a664697265637480c3a095aa616d712e646972656374a664697265637480c3a095aa616d712e66616e6f7574a666616e6f757480c3a0"
    "95ab616d712e68656164657273a76865616465727380c3a095a9616d712e6d61746368a76865616465727380c3a0"
    "95a9616d712e746f706963a5746f70696380c3a095a165a5746f70696381a178c401ffc3aa616d712e66616e6f7574"  # seven exchanges
    "9194a165a171a36b2e2381a17acb3ff8000000000000"  # the binding
    "929192a26232a6626568696e6401"  # flow control
    "9303a4776f7264ab73757065727669736f7233"  # the supervisor
    "959193a3712332a26231049196a3712332a262310407c2c39192a26233029194a3712332a26231a3632f310390"  # the uses of queues
    "9194a165a9616d712e6d61746368a16b81a17902"  # the exchange that is bound
    "99"  # nine indexes:
    "00000000000001"  # each exchange's, the seventh of its declaration
    "0309"  # those of the bindings
    "90"  # queues that go with their last consumer
    "9490909090"  # queues that clients have for themselves
    "90"  # deleted queues that are not empty yet
    "90"  # queues that go when nobody uses them
    "90"  # policies
    "90"  # patterns
    "90"  # redirected queues
)


def carried() -> list[Any]:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(wired(*EVENTS).snapshot()))


def test_golden_bytes() -> None:
    assert msgspec.msgpack.encode(wired(*EVENTS).snapshot()).hex() == GOLDEN


def test_it_comes_back_as_it_was() -> None:
    again = Wiring.restore(carried())
    assert again.snapshot() == Wiring.restore(again.snapshot()).snapshot() and again.digest() == wired(*EVENTS).digest()
    assert again.flow.members == {"b2": "behind"} and again.supervisor == wired(*EVENTS).supervisor
    assert again.uses.claims == {"q#2": Claim("q#2", "b1", "c/1", 3)}
    assert again.uses.users == {"q#2": {"b1": 4}} and again.uses.confirms("q#2", "b1", 4, 7)
    assert again.route("e", "k.l") == ("q#2",)
    assert again.as_of("e", 8) is not again and again.as_of("e", 9) is again, "what is bound since when"
    assert [(link.exchange, link.queue) for link in again.links()] == [("e", "amq.match")] and again.needs_headers("e")


def test_what_a_newer_program_appends_anywhere_is_passed_over() -> None:
    """An older broker that comes back blank is brought up to date by a newer one."""

    def longer(rows: list[list[Any]]) -> list[list[Any]]:
        return [[*row, "newer", {"much": 1}] for row in rows]

    queues, exchanges, bindings, flow, supervisor, in_use, links, made, vacant, own, dissolving, idle, *_ = carried()
    users, condemned, out, claims, lines = in_use
    uses = [longer(users), longer(condemned), out, longer(claims), lines, "newer"]
    newer = [
        longer(queues),
        longer(exchanges),
        longer(bindings),
        [*flow, 5],
        [*supervisor, 5],
        uses,
        longer(links),
        made,
        vacant,
        [*own, "newer"],
        dissolving,
        idle,
        longer([["p", "^q", {}, 0, False, ""]]),
        longer([["p", "^q", "queue", {}, False, "", "", 0]]),
        [],
        ["newer"],
    ]
    with_both = [*carried()[:-3], [["p", "^q"]], [["p", "^q", "queue"]], []]
    assert Wiring.restore(newer).snapshot() == Wiring.restore(with_both).snapshot()


@pytest.mark.parametrize("parts", [3, 4, 5])
def test_what_an_older_program_does_not_know_has_its_default(parts: int) -> None:
    older = Wiring.restore(carried()[:parts])
    assert older.queue("q") == wired(*EVENTS).queue("q")
    assert older.flow.stopped == (parts > 3) and older.supervisor.number == (3 if parts > 4 else 0)
    assert not older.uses.whole and older.snapshot()[5] == [], "its uses are not known, so it decides nothing"
    assert not older.uses.users and not older.uses.condemned


def test_what_is_none_names_the_rule() -> None:
    with pytest.raises(LocalError, match="has what `WiringSnapshot` names, in that order"):
        Wiring.restore([["q#1", "q"], [], []])


def test_flow_control_and_uses_come_back_by_themselves() -> None:
    flow = ClusterFlow.restore(FlowSnapshot([("b2", "behind")], 3))
    assert flow.stopped and flow.snapshot() == FlowSnapshot([("b2", "behind")], 3)
    one = UsesSnapshot(
        [Use("q#1", "b1", 4)], [Condemned("q#1", "b1", 4, 7, True, False)], [("b2", 3)], [Claim("q#1", "b1", "c/1", 3)]
    )
    uses = Uses.restore(msgspec.to_builtins(one))
    assert uses.whole and uses.confirms("q#1", "b1", 4, 7) and not uses.confirms("q#1", "b1", 5, 7)
    assert uses.snapshot() == msgspec.to_builtins(one)
    assert not Uses.restore([]).whole and Uses.restore([[]]).whole and not Uses.restore([[], [], []]).claims


def test_arguments_as_deep_as_they_may_be_fit_into_an_update():
    deep: Any = 1
    for _ in range(DEPTH):
        deep = {"in": deep}
    for what in ("queue", "exchange", "binding"):
        assert check(what, deep) == deep
    wiring = wired(DeclareExchange("e", "topic", deep), DeclareQueue("q", deep), Bind("e", "q", "k", deep))
    check_depth(wiring.snapshot(), DEFAULT.depth)
