"""Brokers that join and leave: the sequencer's part (`design.md` 8, `sequencer.md` K4).

A broker becomes a voter of the cluster stream first, then of each queue's; it leaves the queues first, then the
cluster stream. Each is a `Member` event in the stream concerned, one at a time: the next begins when the one before is
committed, and never before the term has committed something of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ..limits import INCARNATIONS_PER_BROKER
from ..log.quorum import change, majority
from ..outbox import Outbox
from ..wire.events import CLUSTER, Member, Rejoin, encode_event
from ..wire.log_frames import Leave, Left, LogReport
from .evictions import Evictions
from .order import Order
from .progress import Progress
from .stream import Stream


class Membership:
    """The changes of the voters that one sequencer orders.

    Args:
        stream: finds a stream by its name, or begins it.

    Attributes:
        leaving: brokers that are to leave -> their incarnations, 0 for one that is out and is not to come back.
        untold: streams that a broker has left, while too few of the others know that as committed.
        _parted: (peer, broker) to be told then that the broker has left the cluster.
        _hosting: such a broker -> the queues there are, by the cluster stream up to that index.
    """

    def __init__(self, order: Order, outbox: Outbox, evictions: Evictions, stream: Callable[[str], Stream]) -> None:
        self._order = order
        self._outbox = outbox
        self._evictions = evictions
        self._stream = stream
        self.leaving: dict[str, int] = {}
        self.untold: set[str] = set()
        self._parted: set[tuple[str, str]] = set()
        self._hosting: dict[str, tuple[int, list[str]]] = {}

    # ---- changes of one stream's voters

    def propose(self, stream: Stream, voter: str, keeper: Progress) -> None:
        """A blank keeper that has acknowledged what was committed when it first did: order that it votes (again)."""
        if not keeper.caught_up():
            return
        if self.votes(stream, voter):
            self._order.append(stream, encode_event(Rejoin(voter, keeper.log_inc)))
            keeper.rejoins_by(stream.end)
            stream.returned[voter] = keeper.log_inc, stream.end
        else:
            self.admit(stream, voter, keeper)

    def admit(self, stream: Stream, voter: str, keeper: Progress) -> None:
        """A blank keeper that is no voter of the stream holds what it needs: order that it becomes one, if that can be
        done now. Otherwise it is tried again when the change before it is committed. A queue's waits for the cluster's
        as well: another sequencer might not find that, and would see off a stranger who joins the cluster later."""
        known = stream.name == CLUSTER or self._stays(voter)
        if known and voter not in self.leaving and self._begin(stream, Member(voter, keeper.log_inc, True)):
            keeper.rejoins_by(stream.end)
            stream.returned[voter] = keeper.log_inc, stream.end
            stream.incs[voter] = max(keeper.log_inc, stream.incs.get(voter, 0))

    def _begin(self, stream: Stream, event: Member) -> bool:
        if not stream.ready or not stream.voters or stream.change or stream.commit < stream.start:
            return False
        self._order.append(stream, encode_event(event))
        stream.change = stream.end
        stream.changed = list(stream.voters)
        change(stream.changed, event)
        return True

    def done(self, stream: Stream) -> list[tuple[str, str]]:
        """A change of the voters is committed. Returns the voters that are none any more and whose keepers are here,
        each with its peer."""
        left = [voter for voter in stream.voters if voter not in stream.changed]
        stream.settled = stream.change
        stream.voters[:], stream.changed, stream.change = stream.changed, [], 0
        if left:
            self.untold.add(stream.name)
        here: list[tuple[str, str]] = []
        for voter in left:
            stream.away.discard(voter)
            if (keeper := stream.keepers.pop(voter, None)) is not None:
                here.append((voter, keeper.peer))
        if stream.name == CLUSTER:
            self._evictions.absent.difference_update(left)
            for voter, peer in here:
                self.tell_left(peer, voter)
        if stream.name == CLUSTER:
            for other in list(self._order.streams.values()):
                self.resume(other)
        else:
            self.resume(stream)
            if left and CLUSTER in self._order.streams:
                self._see_off(self._order.streams[CLUSTER])
        return here

    def tell_left(self, peer: str, broker: str) -> None:
        """The broker has left the cluster, and may end once that is known."""
        self._parted.add((peer, broker))
        self.untold.add(CLUSTER)
        self.heard(self._order.streams[CLUSTER])

    def heard(self, stream: Stream) -> None:
        """A voter has applied more of a stream that a broker has left."""
        if not self._known(stream):
            return
        self.untold.discard(stream.name)
        if stream.name != CLUSTER:
            self._see_off(self._order.streams[CLUSTER])
            return
        members = self._members()
        for peer, broker in sorted(self._parted):
            if broker not in members:
                self._outbox.send(peer, Left(broker))
        self._parted = {item for item in self._parted if item[1] in members}

    @staticmethod
    def _known(stream: Stream) -> bool:
        """Whether a majority of the voters knows the last change as committed, so that each recovery quorum has one of
        them. Until then another sequencer may have to commit it anew, which takes those who voted before."""
        since = max(stream.start, stream.settled)
        know = sum(
            keeper.voting and v in stream.voters and keeper.applied >= since for v, keeper in stream.keepers.items()
        )
        return stream.ready and bool(stream.voters) and know >= majority(stream.voters)

    def resume(self, stream: Stream) -> None:
        """Order the changes that waited for the one before, or for the term's first commit."""
        if stream.ready:
            for voter, keeper in list(stream.keepers.items()):
                self.propose(stream, voter, keeper)
            self._see_off(stream)

    def turns_away(self, stream: Stream, frame: LogReport, newest: int) -> bool:
        """Whether this keeper has left, or leaves, and has nothing more to say in the stream; its process goes on, and
        may still be a voter of others. `newest`: its broker's newest incarnation here."""
        voter = frame.voter
        if self.votes(stream, voter):
            return False
        return not frame.blank or (stream.name != CLUSTER and (voter in self.leaving or frame.log_inc < newest))

    # ---- leaving

    def remind(self) -> None:
        """Every beat: what could not be done before, because a stream was not ready, say."""
        for stream in list(self._order.streams.values()) if self.leaving else ():
            self._see_off(stream)

    def leave(self, peer: str, frame: Leave) -> None:
        order, broker = self._order, frame.broker
        cluster, alive = order.streams.get(CLUSTER), broker not in self._evictions.absent and broker in self._members()
        if not frame.inc and alive:
            return  # it is asked again
        self.leaving[broker] = frame.inc
        self._hosting[broker] = frame.index, frame.hosting
        if broker not in self._members():
            if cluster is not None and cluster.ready:
                self.tell_left(peer, broker)
            return
        for name in frame.hosting:
            if name not in order.dropped:
                self._stream(name)
        for stream in list(order.streams.values()):
            self._see_off(stream)

    def back(self, stream: Stream, broker: str, life: int) -> None:
        """A life of a broker keeps this stream: if an older one wanted to leave, it left by dying. A queue of that one
        may be kept under a life a little later than the broker's own (`limits.INCARNATIONS_PER_BROKER`)."""
        inc = life if stream.name == CLUSTER else life - INCARNATIONS_PER_BROKER
        if inc > self.leaving.get(broker, inc):
            del self.leaving[broker]

    @staticmethod
    def votes(stream: Stream, voter: str) -> bool:
        """Whether it is a voter of the stream, or becomes or has been one by the change that is under way."""
        return voter in stream.voters or voter in stream.changed

    def is_out_of(self, stream: Stream, broker: str) -> bool:
        """Whether a broker that is no voter of a queue's stream stays in the cluster, and so many know that it is none
        that its log of the stream will never be asked for."""
        return broker not in self.leaving and self._stays(broker) and self._known(stream)

    def _members(self) -> set[str]:
        """Voters of the cluster stream, and who is about to join them."""
        cluster = self._order.streams.get(CLUSTER)
        return {*self._order.members, *cluster.changed} if cluster is not None else set(self._order.members)

    def _stays(self, voter: str) -> bool:
        """Whether it is a member for certain: who gets into a queue has left it before it leaves the cluster."""
        cluster = self._order.streams.get(CLUSTER)
        leaves = cluster is not None and cluster.change and voter not in cluster.changed
        return voter in self._order.members and not leaves

    def _see_off(self, stream: Stream) -> None:
        """Take out of the voters who is to leave, or is no member of the cluster any more: a queue that was declared
        while it left may have it among its voters."""
        cluster = self._order.streams.get(CLUSTER)
        if cluster is None or not cluster.ready or cluster.commit < cluster.start or len(stream.voters) == 1:
            return
        members = self._members()
        for broker in stream.voters:
            if stream.name == CLUSTER:
                goes = broker in self.leaving and not self._kept(broker)
            else:
                goes = broker in self.leaving or broker not in members
            if goes and self._can_spare(stream, broker):
                self._begin(stream, Member(broker, self._evictions.beyond(broker), False))
                return

    def _can_spare(self, stream: Stream, broker: str) -> bool:
        """Whether those who stay are a majority of themselves now: otherwise the leave alone would stop the stream."""
        rest = [voter for voter in stream.voters if voter != broker]
        return sum(v in stream.keepers and stream.keepers[v].voting for v in rest) >= majority(rest)

    def _kept(self, broker: str) -> bool:
        """Whether it is still a voter of a queue's stream, or may be of one that is being declared."""
        index, hosting = self._hosting[broker]
        streams = self._order.streams
        if index < streams[CLUSTER].end:
            return True  # it is said anew when the rest has been applied
        for name in hosting:
            stream = streams.get(name)
            if stream is not None and (self.votes(stream, broker) or not self._known(stream)):
                return True
        return False
