"""What a receiver's books give back by themselves: no caller has seen it, so none is told when that came too late."""

from __future__ import annotations

import pytest
from mantamq.client.books.receiver import ReceiverCore
from mantamq.protocol.wire.client_frames import Delivery, Dispose, Disposed, Flow
from mantamq.protocol.wire.queue_frames import ACCEPT, RELEASE


class Link:
    """One receiver, and what it says."""

    def __init__(self, capacity: int):
        self.said: list[object] = []
        self.core = ReceiverCore(1, "q", capacity, True, self.said.append)
        self.core.open()

    def deliver(self, acquisition: int, first: int, last: int) -> None:
        self.core.delivered(Delivery(1, acquisition, [first, last], [b"\x91\xc4\x01x"] * (last - first + 1), []))

    def disposes(self) -> list[Dispose]:
        return [frame for frame in self.said if isinstance(frame, Dispose)]

    def all_is_late(self) -> None:
        """The broker answers all there is to answer: none of it was ours any more."""
        self.core.flush()
        for frame in self.disposes():
            self.core.disposed(Disposed(1, frame.number, frame.runs))
            self.core.flush()
        assert self.core.settled()


def test_who_stops_is_not_told_that_what_went_back_came_too_late():
    link = Link(10)
    link.deliver(1, 5, 5)
    again = link.core.fetch()
    assert again is not None
    link.core.settle(RELEASE, again)
    link.core.disposed(Disposed(1, 1, []))  # that counts, so it may come again
    link.deliver(2, 5, 7)
    link.core.stop()
    link.core.give_back()
    assert {frame.kind for frame in link.disposes()} == {RELEASE}
    assert link.disposes()[1].runs[:3] == [2, 5, 5]
    link.all_is_late()
    assert link.core.lost == [], "the settlement that was made of 5 counted"


@pytest.mark.parametrize("seen", [ACCEPT, RELEASE])
def test_what_was_settled_beside_it_is_told(seen):
    link = Link(10)
    link.deliver(1, 1, 4)
    held = [link.core.fetch() for _ in range(2)]
    for message in held:
        assert message is not None
        link.core.settle(seen, message)
    link.core.stop()
    link.core.give_back()
    link.all_is_late()
    assert link.core.lost == [1, 2]
    given_back = [n for frame in link.disposes() for n in frame.runs[1::3] if n > 2]
    assert given_back == [3], "in one run, which is not the other one's"


def test_what_nobody_waits_for_any_more_goes_back_and_none_is_told():
    link = Link(0)
    link.core.ask(3)
    link.core.unask(3)
    link.deliver(1, 1, 3)
    link.core.on_drained()
    link.all_is_late()
    assert link.core.available == 0 and link.core.lost == []


def test_it_is_said_before_the_credit_for_others():
    link = Link(0)
    link.core.ask(3)
    link.core.unask(3)
    link.deliver(1, 1, 3)  # the first is said at once, the others gather
    assert [frame.runs for frame in link.disposes()] == [[1, 1, 1]]
    link.core.on_drained()
    link.core.ask(1)
    assert isinstance(link.said[-1], Flow) and isinstance(link.said[-2], Dispose) and link.said[-2].runs == [1, 2, 3]


def test_on_its_way_when_the_broker_is_lost_it_has_gone_back():
    link = Link(10)
    link.deliver(1, 1, 3)
    link.core.stop()
    link.core.give_back()
    link.core.interrupted("b1")
    assert link.core.lost == []
