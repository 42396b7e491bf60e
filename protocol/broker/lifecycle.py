"""A broker's life in the cluster: blank, a voter, leaving, out (`design.md` 8, `sequencer.md` K4).

It is decided elsewhere: by what is committed in the cluster stream, by the leader's word, or by whoever runs the
cluster. Here it is noted, and what follows is asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

from ..errors import PeerError
from ..limits import DEFAULT, Limits
from ..log.outbox import FollowerOutbox
from ..log.pieces import Pieces, cut
from ..machine import Yielded
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, AnyEvent, Evict, Member, Rejoin, Return
from ..wire.log_frames import Evicted, Leave, Left, Update, UpdatePiece, UpdateStart
from ..wire.queue_frames import GiveUp
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .lease import Lease

LEFT = "this broker has left the cluster"
LEAVING = "this broker leaves the cluster: connect to another member"
JOINING = "this broker is joining the cluster: connect to another member"
RETURNING = "this broker has started and learns what it has missed: try again, or connect to another member"
STOPPING = "this cluster stops: connect again when it has been started again"
EVICTED = "this broker was evicted: it was silent for too long"
CUT_OFF = "this broker has lost the majority of the cluster and completes nothing: connect to another member"


class State(enum.Enum):
    """Where a broker is in its life. It moves as `MOVES` says, and never back."""

    BLANK = "blank"
    """An earlier incarnation may have kept the wiring, or the broker is new to the cluster. It has no vote in the
    cluster stream and lets no client in; an update brings it the wiring. It becomes a voter by the committed `Rejoin`
    or `Member` that names its incarnation, or by an update taken behind that."""

    RETURNING = "returning"
    """It has come with the log of an earlier life, which counts, and with the wiring of then, which may be old. It lets
    no client in until it has applied the `Return` that names its life (`durable.md` S11); but while there is no
    majority to order that, it lets in who only looks for rescue: what it has may be all there is."""

    VOTER = "voter"
    """Its log of the cluster stream counts, and it serves clients while its lease runs."""

    LEAVING = "leaving"
    """It was asked to leave. Its clients are sent away and none is let in; its replicas give up what they hold; when
    all have, it asks the sequencer to be taken out of all voters, and again after each takeover. Its vote, if it has
    one, counts until it is out."""

    OUT = "out"
    """It has left, was evicted, or has no incarnation left for its queues. The machine has asked for the end of its
    process; if that asks another question meanwhile, it is answered as before."""


MOVES: dict[State, frozenset[State]] = {
    State.BLANK: frozenset({State.VOTER, State.LEAVING, State.OUT}),
    State.RETURNING: frozenset({State.VOTER, State.LEAVING, State.OUT}),
    State.VOTER: frozenset({State.LEAVING, State.OUT}),
    State.LEAVING: frozenset({State.OUT}),
    State.OUT: frozenset(),
}
"""From each state, the states that may come next."""


class Lifecycle:
    """Args:
        replicas: names of the connected replicas.

    Attributes:
        returned: this incarnation votes, by what is applied; queues declared before may be kept by an earlier one.
        leaving: the broker was asked to leave, and serves no clients any more.
        stopping: the whole cluster is to stop: no clients are served, and nothing is held for any. If it comes to
            nothing for `Timing.stop_ms`, the broker goes on.
        left: brokers that this one was asked to have taken out, and that are.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        lease: Lease,
        replicas: Collection[str],
        limits: Limits = DEFAULT,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.leaving = False
        self.stopping = False
        self._stop_ms = timing.stop_ms
        self._stopping_ms = 0  # since when
        self._yielded = False
        self.left: set[str] = set()
        self._outbox = outbox
        self._cluster = cluster
        self._lease = lease
        self._replicas = replicas
        self._out = False
        self._piece_bytes = limits.update_piece_bytes
        self._pieces = Pieces(limits.depth)
        self._updates = 0  # given from here
        self._given_up: set[str] = set()  # replicas that hold nothing any more
        self.resume()

    def resume(self) -> None:
        """Begin as the log says: its voter, or a life that has come back with it."""
        keeper, view = self._cluster.keeper, self._outbox.view
        self.returned = not keeper.blank and not keeper.returning
        if keeper.returning:
            view.promised = keeper.promised
            view.suspect()  # perhaps all were away

    @property
    def state(self) -> State:
        """The keeper alone knows whether the broker votes: no state of that is kept here."""
        if self._out:
            return State.OUT
        if self.leaving:
            return State.LEAVING
        if self._cluster.keeper.blank:
            return State.BLANK
        return State.VOTER if self.returned else State.RETURNING

    def refusal(self, rescue: bool) -> str:
        """Why no client is let in now; "" if it may be. `rescue`: it only looks, which takes no majority."""
        if self.stopping:
            return STOPPING
        if self.leaving:
            return LEAVING
        if self._cluster.keeper.blank:
            return JOINING
        if not self.returned:
            return "" if rescue and not self._lease.runs(self._outbox.now_ms) else RETURNING
        return CUT_OFF if self._lease.expired(self._outbox.now_ms) and not rescue else ""

    def may_have_kept(self, queue: QueueDefinition, index: int) -> bool:
        """Whether an earlier life may have kept, and lost, the queue that is declared at `index` (K4). Of one that is
        durable the disk has all there was; one that the log did not know then cannot have been kept."""
        if self._cluster.recovered:
            return index <= self._cluster.recovered and not queue.durable
        return not self.returned

    def needed(self, now_ms: int) -> str:
        """Why this broker may not end, whatever somebody who was cut off believes of it; "" if it may."""
        serves = self._outbox.view.attached and self._lease.runs(now_ms)
        return "it serves, and the sequencer that leads has heard of it a moment ago" if serves else ""

    def retire(self, reason: str, left: bool = False) -> None:
        """The broker is out."""
        self._out = True
        self._outbox.retire(reason, left)

    # ---- the wiring's snapshot

    def update(self, peer: str, frame: Update) -> None:
        """Tell a blank broker the wiring; the sequencer passes it on. Its pieces leave at once, so that nothing of an
        update is kept here: they are as much as the wiring, which is here anyway."""
        cluster = self._cluster
        if frame.stream == CLUSTER and not cluster.keeper.blank:
            self._updates += 1
            start = cluster.keeper.update(cluster.broker, frame.updatee, cluster.wiring.snapshot(), self._updates)
            for part in cut(start, frame.minor, self._piece_bytes) or (start,):
                self._outbox.send(peer, part)

    def restore(self, peer: str, said: UpdateStart | UpdatePiece) -> bool:
        """An update has brought the wiring, or a piece of it; whether all of it is here and was taken."""
        cluster, keeper = self._cluster, self._cluster.keeper
        if said.stream != CLUSTER or not keeper.blank:
            return False
        frame = self._put_together(peer, said) if isinstance(said, UpdatePiece) else said
        if frame is None or frame.index <= keeper.end:
            return False
        self._pieces.clear()
        cluster.restore(frame)
        if keeper.incs.get(cluster.broker) == keeper.log_inc:  # it votes again, and had not heard
            keeper.blank, self.returned = False, True
        return True

    def _put_together(self, peer: str, piece: UpdatePiece) -> UpdateStart | None:
        self._pieces.take(piece)
        try:
            return self._pieces.whole()
        except PeerError as error:
            self._outbox.refuse(peer, error)
            return None

    # ---- what is committed, and what the leader says

    def note(self, event: AnyEvent) -> None:
        """A committed event may speak of this broker, or of another that it has had taken out."""
        broker, inc = self._cluster.broker, self._cluster.inc
        if type(event) is Evict and event.broker == broker and event.inc >= inc:
            self.retire(EVICTED)
        elif type(event) is Rejoin:
            self.returned = self.returned or (event.voter, event.inc) == (broker, inc)
        elif type(event) is Return:
            self.returned = self.returned or (event.voter, event.life) == (broker, inc)
        elif type(event) is Member:
            if event.present:
                self.left.discard(event.broker)
            self.returned = self.returned or (event.present and (event.broker, event.inc) == (broker, inc))
            if not event.present and event.broker == broker and event.inc >= inc:
                self.retire(LEFT, left=True)

    def evicted(self, peer: str, frame: Evicted) -> None:
        """Out by the leader's word, or by that of a replica of this broker which has found the eviction in a queue."""
        if peer in self._replicas or peer == self._outbox.view.leader:
            self.retire(frame.reason)

    def has_left(self, peer: str, frame: Left) -> None:
        if peer != self._outbox.view.leader:
            return
        if frame.broker == self._cluster.broker:
            self.retire(LEFT, left=True)
        else:
            self.left.add(frame.broker)

    # ---- stopping

    def yield_up(self, send_away: Callable[[str], None]) -> None:
        """The whole cluster is to stop: send the clients away, and have the replicas give up what they hold, so that
        whoever starts it again finds nothing in anybody's hands."""
        self.stopping = True
        self._stopping_ms = self._outbox.now_ms
        self._yielded = False
        self._given_up.clear()
        send_away(STOPPING)
        for replica in self._replicas:
            self._outbox.send(replica, GiveUp())
        self.ask()

    def stop_left_ms(self) -> int:
        """For how long this broker still waits for the cluster's end."""
        return self._stop_ms - (self._outbox.now_ms - self._stopping_ms) if self.stopping else 0

    def look(self) -> None:
        """Who stops the cluster may have ended in the middle of it: nobody would ever be let in again."""
        if self.stopping and self.stop_left_ms() <= 0:
            self.stopping = False

    # ---- leaving

    def drain(self, send_away: Callable[[str], None]) -> None:
        """Send the clients away, then have the replicas give up what they hold, then ask to be taken out.

        Args:
            send_away: ends all clients' connections for this reason; they are told the other members first.
        """
        if self._cluster.voters == [self._cluster.broker]:
            return  # nobody is left to keep anything
        if State.LEAVING in MOVES[self.state]:
            self.leaving = True
            self._given_up.clear()
            send_away(LEAVING)
            for replica in self._replicas:
                self._outbox.send(replica, GiveUp())
        self.ask()

    def replica_up(self, replica: str) -> None:
        if self.leaving or self.stopping:
            self._given_up.discard(replica)
            self._outbox.send(replica, GiveUp())

    def given_up(self, replica: str) -> None:
        self._given_up.add(replica)
        self.ask()

    def ask(self) -> None:
        """Once nothing is held here, ask to be taken out of all voters, again whenever the sequencer may not know; or
        say that the cluster may stop."""
        if not self._given_up.issuperset(self._replicas):
            return
        if self.stopping and not self._yielded:
            self._yielded = True
            self._outbox.effects.append(Yielded())
        if self.leaving:
            self._outbox.lead(self._leave(self._cluster.broker, self._cluster.inc))

    def dismiss(self, broker: str) -> None:
        """Have another broker, which is dead for good, taken out."""
        if broker != self._cluster.broker:
            self._outbox.lead(self._leave(broker, 0))

    def _leave(self, broker: str, inc: int) -> Leave:
        queues = [queue.id for queue in self._cluster.wiring.all_kept()]
        return Leave(broker, inc, queues, self._cluster.keeper.commit)
