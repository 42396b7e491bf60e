"""The keepers of the streams: they report what they hold, acknowledge what they are sent, and go; what a majority of
them holds is committed.

A report of a stream that is not adopted yet is a promise, and is heard in `recovery.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..log.earlier import is_old, life_of
from ..outbox import Outbox
from ..wire.events import CLUSTER, Evict, Return, encode_event
from ..wire.log_frames import Ack, Evicted, Gap, LogDropped, LogReport
from .backlog import Backlog
from .evictions import Evictions
from .left_logs import LeftLogs
from .membership import Membership
from .order import Order
from .progress import KeeperState, Progress
from .rejoin import Rejoins
from .requests import RequestBook
from .stream import Stream


class Keepers:
    """Args:
    stream: finds a stream by its name, or begins it.
    mistaken: whether a report shows that this term must end (`recovery.py`); it has ended it then.
    """

    def __init__(
        self,
        order: Order,
        outbox: Outbox,
        evictions: Evictions,
        requests: RequestBook,
        membership: Membership,
        rejoins: Rejoins,
        backlog: Backlog,
        stream: Callable[[str], Stream],
        mistaken: Callable[[Stream, LogReport], bool],
    ) -> None:
        self._order = order
        self._outbox = outbox
        self._evictions = evictions
        self._requests = requests
        self._membership = membership
        self._left_logs = LeftLogs(order, outbox, membership)
        self._rejoins = rejoins
        self._backlog = backlog
        self._stream = stream
        self._mistaken = mistaken

    # ---- coming

    def enrol(self, stream: Stream, peer: str, frame: LogReport) -> None:
        """A keeper of a stream that is ready reports."""
        voter = frame.voter
        if not frame.blank and not stream.voters:  # a blank one does not know who they were when the stream began
            stream.voters[:] = frame.voters or self._order.members
        known = stream.keepers.get(voter)
        life = life_of(frame)
        newest = max(stream.incs.get(voter, 0), known.log_inc if known is not None else 0)
        latest = max(stream.lives.get(voter, 0), known.life if known is not None else 0)
        if not self._evictions.is_out(voter, life):
            self._membership.back(stream, voter, life)
        if self._membership.turns_away(stream, frame, newest):
            if stream.name == CLUSTER:
                self._membership.tell_left(peer, voter)
            else:
                self._left_logs.found(peer, frame)
            return
        older = frame.log_inc < newest
        if self._evictions.is_out(voter, life) or life < latest or (older and not frame.stored):
            reason = f"incarnation {life} of {voter} is over: a newer one keeps {stream.name}"
            self._outbox.send(peer, Evicted(reason))
            return
        if older or is_old(frame, stream.lives):  # of a new life, with a log from before the one that counts
            reason = f"{voter} has an old copy of its log of {stream.name}: come back blank"
            self._outbox.send(peer, Evicted(reason, True, stream.name))
            self._order.part_with(peer)
            return
        stream.gone.discard(voter)
        stream.stored = stream.stored or frame.stored
        if self._mistaken(stream, frame):
            return
        keeper = self._progress(stream, peer, frame)
        if keeper.next <= stream.base:
            if keeper.voting:
                self._too_far_behind(stream, peer, frame)
                return
            keeper.begin(KeeperState.UPDATING)
        self._count(stream, voter, keeper)
        if keeper.voting and 0 < frame.opened < life and stream.lives.get(voter, 0) < life:
            self._order.append(stream, encode_event(Return(voter, life)))
        if keeper.updating:
            self._rejoins.update(stream, keeper)
        self.advance(stream)  # its acknowledgement may have been lost with the link

    @staticmethod
    def _progress(stream: Stream, peer: str, frame: LogReport) -> Progress:
        """Where a keeper stands by its report."""
        same = frame.have <= stream.end and stream.ballot_at(frame.have) == frame.ballot
        have = frame.have if same else min(frame.commit, stream.end)
        keeper = Progress(peer, frame.log_inc, have, not frame.blank, frame.minor, frame.life)
        if not frame.whole:
            keeper.match = 0
        inc, index = stream.returned.get(frame.voter, (0, 0))
        if (
            not keeper.voting and inc == frame.log_inc and have >= stream.base
        ):  # it may not have heard yet that it votes
            keeper.rejoin = index
            keeper.begin(KeeperState.VOTING if index <= stream.commit else KeeperState.REJOINING)
            if keeper.voting:
                stream.incs[frame.voter] = inc
        return keeper

    def _too_far_behind(self, stream: Stream, peer: str, frame: LogReport) -> None:
        """A voter lacks entries that are in the log no more: it comes back through an update, if it can be spared."""
        if not stream.can_return(frame.voter):
            stream.reports[frame.voter] = peer, frame  # until another voter is here
            return
        reason = f"{frame.voter} is too far behind in {stream.name}: come back through an update"
        stream.left[frame.voter] = -1
        self._outbox.send(peer, Evicted(reason, True, stream.name))
        self._order.part_with(peer)

    def _count(self, stream: Stream, voter: str, keeper: Progress) -> None:
        stream.keepers[voter] = keeper
        self._backlog.enrolled(stream, voter, keeper)
        if stream.name == CLUSTER:
            self._evictions.absent.discard(voter)
        if keeper.voting:
            stream.away.discard(voter)
        else:
            stream.away.add(voter)
        self._order.dirty[stream.name] = None

    def hear_again(self) -> None:
        """Hear the reports again of voters that were too far behind and could not be spared."""
        self._left_logs.look()
        for stream in list(self._order.streams.values()):
            if stream.ready and stream.reports:
                reports, stream.reports = stream.reports, {}
                for peer, frame in reports.values():
                    self.enrol(stream, peer, frame)

    # ---- acknowledging

    def ack(self, peer: str, ack: Ack) -> None:
        order = self._order
        stream = order.streams.get(ack.stream)
        if stream is None or ack.ballot != order.ballot:
            return
        keeper = stream.keepers.get(ack.voter)
        if keeper is None or keeper.peer != peer:
            return
        keeper.eager = ack.eager
        if ack.applied > keeper.applied:
            keeper.applied = ack.applied
            keeper.sent_commit = max(keeper.sent_commit, ack.applied)
            if ack.applied > stream.commit:  # the distinguished learner knew of a majority first
                self.commit(stream, min(ack.applied, stream.end))  # of a deleted queue's log we may have nothing
            if stream.name in self._membership.untold:
                self._membership.heard(stream)
        if ack.eager and keeper.sent_commit < stream.commit:
            order.dirty[stream.name] = None
        if ack.match > keeper.match:
            keeper.match = min(ack.match, stream.end)
            keeper.next = max(keeper.next, keeper.match + 1)
            self.advance(stream)
        if not keeper.voting:
            keeper.catch_up_to = keeper.catch_up_to if keeper.catch_up_to >= 0 else stream.commit
            self._membership.propose(stream, ack.voter, keeper)
        # Even where this ack commits nothing: the last member to show a wiring event is what its origin waits for.
        if stream.name == CLUSTER:
            self._requests.answer(stream)

    def gap(self, peer: str, gap: Gap) -> None:
        """A keeper lacks entries before those it was sent: go back to where it is."""
        stream = self._order.streams.get(gap.stream)
        if stream is None or gap.ballot != self._order.ballot:
            return
        keeper = stream.keepers.get(gap.voter)
        if keeper is not None and keeper.peer == peer:
            keeper.next = max(gap.have, keeper.match, stream.base) + 1
            self._order.dirty[stream.name] = None

    # ---- committing

    def advance(self, stream: Stream) -> None:
        """Commit the largest index that a majority holds, of this term (S4)."""
        for voter, keeper in stream.keepers.items():
            if keeper.state is KeeperState.REJOINING and keeper.match >= keeper.rejoin:
                self._rejoins.vote(stream, voter, keeper)
        index = stream.majority_index()
        while index > stream.commit:
            changes = stream.change
            self.commit(stream, index)
            index = stream.majority_index() if changes else 0  # what is behind a change is for the voters after it
        self._backlog.trim(stream)

    def commit(self, stream: Stream, index: int) -> None:
        first, stream.commit = stream.commit < stream.start <= index, index
        if stream.change and index >= stream.change:
            left = self._membership.done(stream)
            for voter, peer in left if stream.name != CLUSTER else ():
                self._left_logs.left(stream, voter, peer)
        elif first:
            self._membership.resume(stream)
        self._order.dirty[stream.name] = None
        self._requests.answer(stream)

    # ---- going

    def lost(self, peer: str) -> None:
        """The link to a keeper's process broke."""
        self._left_logs.lost(peer)
        for stream in list(self._order.streams.values()):
            for voter, keeper in list(stream.keepers.items()):
                if keeper.peer == peer:
                    stream.part(voter)
            if stream.asked == peer:
                stream.asked = ""
            stream.updates.pop(peer, None)
            for voter in [v for v, (p, _) in stream.reports.items() if p == peer]:
                del stream.reports[voter]
            self.drop_if_gone(stream)  # it may have been the last one that had not heard of the deletion
            if stream.name == CLUSTER:
                self._requests.answer(stream)

    def evict(self, broker: str) -> None:
        """Order that a broker is out, in every stream (Q3)."""
        inc = self._evictions.begin(broker)
        for stream in self._order.streams.values():
            stream.part(broker)
            if stream.ready:
                self._order.append(stream, encode_event(Evict(broker, inc)))
                self.advance(stream)
        for stream in list(self._order.streams.values()):
            self.drop_if_gone(stream)

    def log_dropped(self, peer: str, frame: LogDropped) -> None:
        """A voter has applied the deletion of a queue and has dropped its log."""
        if frame.stream in self._order.dropped:
            return
        stream = self._order.streams.get(frame.stream) or self._stream(frame.stream)
        stream.keepers.pop(frame.voter, None)  # its report may have been lost with a link
        stream.reports.pop(frame.voter, None)
        stream.gone.add(frame.voter)
        self.drop_if_gone(stream)

    def drop_if_gone(self, stream: Stream) -> None:
        """Drop the stream once a voter has dropped its log (the deletion is committed) and no other has it."""
        if stream.gone and not stream.keepers and not stream.reports:
            self._order.drop(stream)
            self._backlog.dropped(stream)
            self._requests.dropped(stream)
