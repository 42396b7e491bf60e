"""Levels of priority with shares alone: whose turn it is, and that the stream says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.client import Message
from mantamq.protocol.errors import PeerError
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.declared import declared
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.shares import Shares
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import runs
from mantamq.protocol.wire.events import Acquire, Enqueue, Evict, Own
from mantamq.protocol.wire.message import encode
from mantamq.protocol.wiring.arguments import check


class Queue:
    """A queue whose levels have shares, at its owner; messages are known by their levels."""

    def __init__(self, **settings: Any) -> None:
        self.settings = QueueSettings(**{"priorities": 10, **settings})
        self.state = QueueState("q#1")
        self.owner = ""
        self._acquisitions: Iterator[int] = count(1)
        self._ids = count(1)
        self._include()
        self.own("b1")

    def _include(self) -> None:
        policies = policies_of(self.state, self.settings)
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)

    def own(self, broker: str) -> None:
        if self.owner:
            self.state.apply(Evict(self.owner, 1))
        self.owner = broker
        self.state.apply(Own(broker, self.state.grant + 1))

    def send(self, levels: str) -> None:
        self.state.apply(Enqueue("", [], [encode(Message(b"", priority=int(level))) for level in levels]))

    def take(self, most: int, ordered: bool = True, wanted: Any = None) -> str:
        """A new consumer's first messages, and then it goes."""
        subscription = self.dispatcher.subscribe(next(self._ids), False, True, wanted=wanted)
        subscription.credit.grant(most, UNLIMITED)
        found = ""
        for one in self.dispatcher.run(True, self._acquisitions)[0]:
            for first, last in one.parts:
                found += "".join(str(self.state.available.part_of(n)) for n in range(first, last + 1))  # type: ignore
            if ordered:
                acquired = [n for a, b in one.ranges for n in (one.acquisition, a, b)]
                self.state.apply(Acquire(self.owner, 1, self.state.grant, acquired))
                for _, first, last in runs(acquired):
                    self.dispatcher.taken.remove(first, last)
        del self.dispatcher.subscriptions[subscription.id]
        return found

    def copied(self) -> Queue:
        """A replica that was brought up to date."""
        other = Queue(**{field: getattr(self.settings, field) for field in self.settings.__struct_fields__})
        other.state.restore(read_snapshot(self.state.snapshot()))
        other.state.fill(self.state.blobs)
        other.owner = self.owner
        return other


def test_of_a_level_goes_its_share_then_the_next_has_its_turn():
    queue = Queue(fairshare=2)
    queue.send("9999977733")
    assert queue.take(100) == "9977339979"


def test_a_level_without_a_share_goes_until_nothing_of_it_waits():
    queue = Queue(fairshare_of={9: 1})
    queue.send("999555")
    assert queue.take(100) == "955599"


def test_the_next_consumer_and_the_next_owner_go_on_counting():
    queue = Queue(fairshare=3)
    queue.send("99999944444400")
    assert queue.take(4) == "9994"
    assert queue.take(1) == "4"
    queue.own("b2")  # what b1 held is back, in its old place
    assert queue.take(3) == "400"
    copy = queue.copied()
    copy.own("b3")
    assert copy.state.turn == queue.state.turn
    assert copy.take(4) == "0999"


def test_an_owner_is_ahead_of_the_stream_by_what_it_has_given():
    queue = Queue(fairshare=2)
    queue.send("99995555")
    assert queue.take(3, ordered=False) == "995" and queue.state.turn is None
    assert queue.take(3, ordered=False) == "599"


def test_what_was_given_and_void_is_forgotten_when_nothing_is_under_way():
    queue = Queue(fairshare=2)
    queue.send("99995555")
    assert queue.take(3, ordered=False) == "995"
    queue.dispatcher.taken.remove(1, 8)
    assert queue.take(3) == "995"


def test_what_was_given_and_void_is_forgotten_also_where_messages_are_taken_one_by_one():
    """By a consumer with a selector, or while some expire."""
    queue = Queue(fairshare=2)
    queue.send("99995555")
    assert queue.take(3, ordered=False) == "995"
    queue.dispatcher.taken.remove(1, 8)
    assert queue.take(3, wanted=lambda blob: True) == "995"
    assert queue.take(3, ordered=False) == "599"
    queue.dispatcher.taken.remove(1, 8)
    queue.dispatcher.expiring.add(1, 1)
    assert queue.take(3) == "599"


def test_it_is_nobodys_turn_of_whom_a_consumer_wants_nothing():
    queue = Queue(fairshare=1)
    queue.send("9911553")
    fives = encode(Message(b"", priority=5))
    assert queue.take(3, wanted=lambda blob: blob != fives) == "931"
    assert queue.take(5) == "9515"


def test_a_browser_goes_by_position_and_uses_no_share():
    queue = Queue(fairshare=1)
    queue.send("1991")
    browser = queue.dispatcher.subscribe(9, True, False)
    browser.credit.grant(10, UNLIMITED)
    (seen,) = queue.dispatcher.run(True, count(1))[0]
    assert seen.parts == [(1, 4)] and queue.take(3) == "919"


levels = st.text("0359", max_size=40)


@given(st.lists(st.tuples(levels, st.integers(1, 30)), max_size=8), st.integers(1, 4), st.sampled_from([{}, {5: 0}]))
def test_the_stream_counts_as_the_owner_does(steps: list[tuple[str, int]], share: int, of: dict[int, int]):
    """Of an acquisition only the ranges are in the stream, and not in which order they went."""
    queue = Queue(fairshare=share, fairshare_of=of)
    (order,) = queue.state.policies
    for sent, most in steps:
        if sent:
            queue.send(sent)
        queue.take(most)
        assert order._turn == (queue.state.turn or (9, 0))  # type: ignore[attr-defined]


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any), st.lists(st.integers(0, 3), max_size=60))
def test_a_turn_is_that_of_who_gives_them_one_by_one(of: list[int], gone: list[int]):
    shares, turn = Shares(tuple(of)), (3, 0)
    left, level, used = Counter(gone), 3, 0
    while left.total():
        if left[level] and (not of[level] or used < of[level]):
            left[level] -= 1
            used += of[level] > 0
        else:
            level, used = (level - 1) % 4, 0
    assert shares.after(turn, Counter(gone)) == (level, used)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"qpid.fairshare": 3}, "fairshare is of levels of priority"),
        ({"qpid.priorities": 1, "qpid.fairshare": 3}, "fairshare is of levels of priority"),
        ({"qpid.priorities": 4, "qpid.fairshare-4": 3}, "qpid.fairshare-4 is of a level that is not there.* 0 to 3"),
        ({"qpid.priorities": 4, "qpid.fairshare": -1}, "give a number of messages of each level"),
        ({"qpid.priorities": 4, "qpid.fairshare-2": "x"}, "'qpid.fairshare-2' is 'x': give a number of messages"),
        ({"qpid.priorities": 4, "qpid.fairshare-2": 2, "x-qpid-fairshare-2": 3}, "means the same: give one"),
        ({"qpid.fairshare": 3, "manta.fair_key": "t"}, "fairshare is of levels"),
    ],
)
def test_shares_of_what_is_not_there_are_refused(arguments: dict[str, Any], text: str):
    with pytest.raises(PeerError, match=text):
        declared(arguments)


def test_all_spellings_of_a_share_are_one():
    given = {"qpid.priorities": "10", "x-qpid-fairshare": "5", "x-qpid-fairshare-9": 1, "qpid.fairshare-0": 0}
    assert declared(given).shares == (0, 5, 5, 5, 5, 5, 5, 5, 5, 1)
    assert check("queue", given) == {
        "qpid.priorities": 10, "qpid.fairshare": 5, "qpid.fairshare-0": 0, "qpid.fairshare-9": 1
    }  # fmt: skip
    with pytest.raises(PeerError, match=r"qpid\.fairshare-10.*qpid\.fairshare-1"):
        check("queue", {"qpid.priorities": 10, "qpid.fairshare-10": 1})
