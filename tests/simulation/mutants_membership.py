"""Bugs of joining and leaving planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker.lifecycle import Lifecycle
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.quorum import change, held_by_majority
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica import machine as replica_machine
from mantamq.protocol.sequencer import left_logs, membership
from mantamq.protocol.sequencer.left_logs import LeftLogs
from mantamq.protocol.sequencer.membership import Membership
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire import events

Patch = pytest.MonkeyPatch


def joiner_counts_before_it_is_up_to_date(patch: Patch) -> None:
    """A voter that has joined counts as if it held the whole log."""
    held = Stream.majority_index

    def rash(stream: Any) -> int:
        joined = [keeper for keeper in stream.keepers.values() if keeper.rejoin]
        before = [(keeper.match, keeper.voting) for keeper in joined]
        for keeper in joined:
            keeper.match, keeper.voting = stream.end, True
        try:
            return held(stream)
        finally:
            for keeper, (match, voting) in zip(joined, before, strict=True):
                keeper.match, keeper.voting = match, voting

    patch.setattr(Stream, "majority_index", rash)


def old_voters_commit_what_is_behind_a_change(patch: Patch) -> None:
    def held(stream: Any) -> int:
        index = held_by_majority(stream.voters, {v: k.match for v, k in stream.keepers.items() if k.voting})
        return index if index >= stream.start else 0

    patch.setattr(Stream, "majority_index", held)


def new_voters_commit_the_change(patch: Patch) -> None:
    """A change counts from its place in the log on, committed or not."""
    begin = Membership._begin

    def at_once(self: Any, stream: Any, event: Any) -> bool:
        began = begin(self, stream, event)
        if began:
            self.done(stream)
        return began

    patch.setattr(Membership, "_begin", at_once)


def two_changes_at_once(patch: Patch) -> None:
    def begin(self: Any, stream: Any, event: Any) -> bool:
        if not stream.ready or not stream.voters or stream.commit < stream.start:
            return False
        self._order.append(stream, events.encode_event(event))
        voters = stream.changed if stream.change else stream.voters
        stream.change, stream.changed = stream.end, list(voters)
        change(stream.changed, event)
        return True

    patch.setattr(Membership, "_begin", begin)


def leaver_keeps_its_locks(patch: Patch) -> None:
    """It says at once that it has given all up, and nothing is taken from it."""
    patch.setattr(replica_machine, "holds", lambda queue, broker: False)
    member = QueueState._member
    kept = lambda self, event: member(self, event) if event.present else Applied()  # noqa: E731
    patch.setattr(QueueState, "_member", kept)
    _rebound(patch)


def leaver_gives_nothing_back(patch: Patch) -> None:
    """The messages that a leaving broker holds are taken from it, as if it had died."""
    patch.setattr(replica_machine, "holds", lambda queue, broker: False)


def leaves_the_cluster_before_its_queues(patch: Patch) -> None:
    patch.setattr(Membership, "_kept", lambda self, broker: False)


def queues_declared_meanwhile_are_forgotten(patch: Patch) -> None:
    """The sequencer takes the leaver's word on which queues there are, however old it is."""
    leave = Lifecycle._leave

    def boasting(self: Any, broker: str, inc: int) -> Any:
        frame = leave(self, broker, inc)
        return frame.__class__(frame.broker, frame.inc, frame.hosting[:1], 1 << 30)

    patch.setattr(Lifecycle, "_leave", boasting)


def leave_is_told_too_early(patch: Patch) -> None:
    """A broker that asks to leave is told that it has left."""
    leave = Membership.leave

    def hasty(self: Any, peer: str, frame: Any) -> None:
        leave(self, peer, frame)
        self._outbox.send(peer, membership.Left(frame.broker))

    patch.setattr(Membership, "leave", hasty)


def who_is_told_all_is_told_the_voters_of_now(patch: Patch) -> None:
    """A keeper that is sent a stream from its beginning is told who votes now, not who did then."""
    patch.setattr(Stream, "first_voters", lambda self: list(self.voters))


def who_is_back_half_gone_stays_so(patch: Patch) -> None:
    """That one of its queues is kept under a newer life does not end the older one's wish to leave, and nobody has it
    forget the logs of queues that it is out of."""
    back = Membership.back

    def deaf(self: Any, stream: Any, broker: str, life: int) -> None:
        if stream.name == events.CLUSTER:
            back(self, stream, broker, life)

    patch.setattr(Membership, "back", deaf)
    patch.setattr(LeftLogs, "found", lambda self, peer, frame: None)
    patch.setattr(LeftLogs, "left", lambda self, stream, voter, peer: None)


def who_is_taken_out_when_it_is_back_is_not_told(patch: Patch) -> None:
    """A wish to leave that is over when it is carried out leaves a keeper that nobody speaks to."""
    patch.setattr(LeftLogs, "left", lambda self, stream, voter, peer: None)


def who_begins_a_queue_that_it_is_out_of_goes_on(patch: Patch) -> None:
    """The log of a queue that was declared while its broker left, and begun in its next life, is not given up."""
    outlived = left_logs.outlived
    patch.setattr(left_logs, "outlived", lambda frame: frame.opened > 0 and outlived(frame))


def learner_knows_of_no_change(patch: Patch) -> None:
    """It counts the voters there were, while they change."""
    learned = Keeper._learned

    def blind(self: Any) -> int:
        change_at, self._change = self._change, 0
        try:
            return learned(self)
        finally:
            self._change = change_at

    patch.setattr(Keeper, "_learned", blind)


def _rebound(patch: Patch) -> None:
    """A queue's rules are bound in a table."""
    born = QueueState.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        born(self, *arguments, **named)
        self._apply[events.Member] = self._member

    patch.setattr(QueueState, "__init__", init)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
