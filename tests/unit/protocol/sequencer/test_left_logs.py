"""Logs of queues that their broker had left before it died: that part alone, and when a wish to leave is over."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.machine import Send
from mantamq.protocol.outbox import Outbox
from mantamq.protocol.sequencer.evictions import Evictions
from mantamq.protocol.sequencer.left_logs import LeftLogs, outlived
from mantamq.protocol.sequencer.membership import Membership
from mantamq.protocol.sequencer.order import Order
from mantamq.protocol.sequencer.progress import Progress
from mantamq.protocol.wire.events import CLUSTER, Ballot
from mantamq.protocol.wire.log_frames import Evicted, LogReport

ONE: Ballot = (1, 7)
Q = "q#1"
LIFE = 5_000


class Left:
    """b3 is a member, and out of q#1, as all others know; `logs` is the part."""

    def __init__(self, knows: bool = True) -> None:
        self.order, self.outbox = Order(["b1", "b2", "b3"], ONE), Outbox()
        self.membership = Membership(self.order, self.outbox, Evictions(self.order), self.order.open)
        self.logs = LeftLogs(self.order, self.outbox, self.membership)
        self.queue, self.cluster = self.order.open(Q), self.order.open(CLUSTER)
        self.queue.voters[:] = ["b1", "b2"]
        for stream in (self.cluster, self.queue):
            self.order.begin(stream)
            for voter in ("b1", "b2"):
                stream.keepers[voter] = Progress(f"{voter}.r0", 1, stream.end, True)
        if knows:
            self.know()

    def know(self) -> None:
        for keeper in self.queue.keepers.values():
            keeper.applied = self.queue.end

    def find(self, peer: str = "b3.r0", **more: Any) -> LogReport:
        report = LogReport(Q, "b3", 1, ONE, ONE, **{"log_inc": 5, "opened": 5, "life": LIFE, **more})
        self.logs.found(peer, report)
        return report

    def told(self) -> list[tuple[str, str]]:
        """Who is told to come back without the log of which stream."""
        said = [(one.peer, one.frame) for one in self.outbox.take() if isinstance(one, Send)]
        assert all(isinstance(frame, Evicted) and frame.forget for _, frame in said)
        return [(peer, frame.stream) for peer, frame in said]


def test_who_had_left_a_queue_in_an_earlier_life_is_told_once_to_come_back_without_its_log():
    left = Left()
    left.queue.keepers["b9"] = left.cluster.keepers["b3"] = Progress("b3.r0", 5, 1, True)
    left.find()
    assert left.told() == [("b3.r0", Q)]
    assert "b9" not in left.queue.keepers, "and nothing that process says counts any more"
    left.logs.look()
    assert left.told() == []


@pytest.mark.parametrize("more", [{"opened": 0}, {"opened": LIFE}, {"lives": {"b3": LIFE}}])
def test_who_leaves_in_this_very_life_is_told_nothing(more):
    left = Left()
    assert not outlived(left.find(**more))
    assert left.told() == []


def test_it_is_told_when_enough_others_know_that_it_has_left():
    """Until then another sequencer might ask for just that log."""
    left = Left(knows=False)
    left.find()
    left.logs.look()
    assert left.told() == []
    left.know()
    left.logs.look()
    assert left.told() == [("b3.r0", Q)]


def test_who_leaves_the_cluster_or_is_no_member_keeps_its_disk_as_it_is():
    left = Left()
    left.membership.leaving["b3"] = LIFE
    left.find()
    assert left.told() == []
    del left.membership.leaving["b3"]
    left.order.members.remove("b3")
    left.logs.look()
    assert left.told() == []


@pytest.mark.parametrize("how", ["lost", "dropped", "voter", "becomes one"])
def test_what_is_over_is_forgotten(how):
    left = Left(knows=False)
    left.find()
    if how == "lost":
        left.logs.lost("b2.r0")
        left.logs.lost("b3.r0")
    elif how == "dropped":
        left.order.drop(left.queue)
    else:
        (left.queue.voters if how == "voter" else left.queue.changed).append("b3")
    left.logs.look()
    left.know()
    if how != "dropped":
        left.queue.voters[:], left.queue.changed = ["b1", "b2"], []
    left.logs.look()
    assert left.told() == []


def test_a_newer_life_ends_the_wish_of_an_older_one():
    """A queue may be kept under a life that is a little later than its broker's: that is no newer broker."""
    left = Left()
    leaving, back = left.membership.leaving, left.membership.back
    for stream, life, over in (
        (left.cluster, LIFE, False),
        (left.queue, LIFE + INCARNATIONS_PER_BROKER, False),
        (left.queue, LIFE + 2 * INCARNATIONS_PER_BROKER, True),
        (left.cluster, LIFE + 1, True),
    ):
        leaving["b3"] = LIFE
        back(stream, "b3", life)
        assert ("b3" not in leaving) is over, (stream.name, life)
    back(left.cluster, "b2", LIFE)
