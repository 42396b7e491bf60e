"""Patterns of queues and exchanges, as every broker keeps them."""

from __future__ import annotations

import msgspec
import pytest
from mantamq.protocol.errors import INVALID, NOT_FOUND
from mantamq.protocol.wire.events import AnyEvent, decode_event, encode_event
from mantamq.protocol.wire.pattern_events import DropPattern, PutPattern
from mantamq.protocol.wiring.wiring import Outcome, Wiring


class Cluster:
    """A wiring, and the index of its stream."""

    def __init__(self, *events: AnyEvent) -> None:
        self.wiring = Wiring()
        self.index = 0
        for event in events:
            assert self.apply(event).code == ""

    def apply(self, event: AnyEvent) -> Outcome:
        self.index += 1
        assert decode_event(encode_event(event)) == event
        return self.wiring.apply(event, self.index)

    def of(self, name: str) -> str | None:
        found = self.wiring.patterns.of(name)
        return found.name if found is not None else None


def test_the_highest_priority_wins_and_then_the_first_name():
    cluster = Cluster(PutPattern("c", ".*", "queue", {}), PutPattern("b", ".*", "exchange", {}, priority=5),
                      PutPattern("a", "^q$", "queue", {}, priority=5), PutPattern("z", "none", "queue", {}, priority=9),
                      )  # fmt: skip
    assert (cluster.of("q"), cluster.of("r")) == ("a", "b")
    cluster.apply(PutPattern("c", "^r", "queue", {}, priority=10))
    assert (cluster.of("q"), cluster.of("r"), cluster.of("x")) == ("a", "c", "b")
    cluster.apply(DropPattern("b"))
    assert cluster.of("x") is None
    assert not cluster.wiring.queues(), "a pattern makes nothing itself"


@pytest.mark.parametrize(
    ("event", "code", "why"),
    [
        (PutPattern("p", "(a", "queue", {}), INVALID, "a group has no end"),
        (PutPattern("", "a", "queue", {}), INVALID, "a pattern's name has 1 to"),
        (PutPattern("p", "a", "stream", {}), INVALID, "makes a queue or an exchange"),
        (DropPattern("p"), NOT_FOUND, "there is no pattern 'p'"),
    ],
)
def test_what_is_refused_everywhere(event, code, why):
    outcome = Cluster().apply(event)
    assert (outcome.code, outcome.changed) == (code, False) and why in outcome.text


def test_there_are_at_most_so_many():
    cluster = Cluster(*(PutPattern(f"p{n}", "a", "queue", {}) for n in range(64)))
    assert "at most 64 patterns" in cluster.apply(PutPattern("one more", "a", "queue", {})).text
    assert cluster.apply(PutPattern("p1", "b", "queue", {})).changed
    assert not cluster.apply(PutPattern("p1", "b", "queue", {})).changed, "the same again"


def test_a_broker_that_is_updated_has_them():
    cluster = Cluster(PutPattern("p", "^q", "queue", {"qpid.max_count": 5}, priority=3))
    again = Wiring.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(cluster.wiring.snapshot())))
    assert again.digest() == cluster.wiring.digest() and again.patterns.snapshot() == cluster.wiring.patterns.snapshot()
    older = Wiring.restore(cluster.wiring.snapshot()[:13])
    assert older.patterns.snapshot() == [] and not older.patterns
