"""How a sequencer comes to lead: it collects promises, fetches the log that is to be adopted, and makes it its own.

Whether a stream can be adopted, and by whose log, is decided in `election.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ..outbox import Outbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, Evict, encode_event
from ..wire.log_frames import Fetched, LogReport, Prepare, Promise, Suspect
from .election import LEADING, STANDBY, Election, adopt
from .evictions import Evictions
from .keepers import Keepers
from .order import Order
from .requests import RequestBook
from .stream import Stream


class Recovery:
    """The recovery of one sequencer's streams.

    Args:
        linked: peers there is a link to.
        uid: of this sequencer: with a counter it makes the ballot.
        led: what follows when the cluster stream has been adopted: this sequencer leads.
    """

    def __init__(
        self,
        order: Order,
        outbox: Outbox,
        election: Election,
        evictions: Evictions,
        requests: RequestBook,
        keepers: Keepers,
        linked: dict[str, None],
        uid: int,
        led: Callable[[], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._grace_ms = timing.recovery_grace_ms
        self._order = order
        self._outbox = outbox
        self._election = election
        self._evictions = evictions
        self._requests = requests
        self._keepers = keepers
        self._linked = linked
        self._uid = uid
        self._led = led

    # ---- promises

    def suspect(self, peer: str, frame: Suspect) -> bool:
        """A broker suspects the leader; whether this sequencer prepares to lead because of it."""
        outbox = self._outbox
        if not self._election.suspected(frame, outbox.now_ms):
            return False
        self._order.ballot = self._election.prepare(self._uid)
        self.ask(list(self._linked))
        outbox.wake(outbox.now_ms + self._grace_ms)
        return True

    def ask(self, peers: list[str]) -> None:
        self._election.asked_ms = self._outbox.now_ms
        for peer in peers:
            self._outbox.send(peer, Prepare(self._order.ballot))

    def promised(self, peer: str, frame: Promise) -> None:
        preparing = self._election.role != STANDBY  # else it was said before that ballot was given up
        if preparing and frame.ballot == self._order.ballot and not self._order.born:
            self._election.promises[frame.broker] = frame
            self.recover_all()

    # ---- adopting

    def recover_all(self) -> None:
        order = self._order
        if self._election.role == STANDBY or order.born:
            return
        for promise in list(self._election.promises.values()):
            for name in promise.hosting:
                if name not in order.dropped and name not in order.streams:
                    order.open(name)
        for stream in [s for s in order.streams.values() if not s.ready]:
            self.recover(stream)

    def recover(self, stream: Stream) -> None:
        """Adopt a stream if that can be done now (S1, S2)."""
        cluster = self._order.streams.get(CLUSTER)
        if stream.asked or (stream.name != CLUSTER and (cluster is None or not cluster.ready)):
            return
        source = self._source(stream)
        if source is None:
            return
        peer, best, first = source
        if best is None or first > best.have:
            self.adopted(stream, best, None)
        else:
            stream.asked, stream.asked_for, stream.pieces = peer, best.have, None
            self._outbox.send(peer, self._election.fetch(self._order.ballot, stream, best.have, first))

    def _source(self, stream: Stream) -> tuple[str, LogReport | None, int] | None:
        """The log to adopt, as in `Election.source`."""
        order, election = self._order, self._election
        floor = election.floor(order.streams[CLUSTER]) if CLUSTER in order.streams else {}
        return election.source(stream, floor, order.members, set(self._linked), self._outbox.now_ms)

    def fetched(self, peer: str, frame: Fetched) -> None:
        order = self._order
        stream = order.streams.get(frame.stream)
        if stream is None or stream.ready or stream.asked != peer or frame.ballot != order.ballot:
            return
        if stream.pieces is not None:
            entries = stream.pieces.entries
            if frame.first != stream.pieces.first + len(entries):
                return  # of a question that was given up
            entries += frame.entries
            frame = stream.pieces
        after = frame.first + len(frame.entries)
        if after <= stream.asked_for and frame.entries:
            stream.pieces = stream.pieces or replace(frame, entries=list(frame.entries))
            self._outbox.send(peer, self._election.fetch(order.ballot, stream, stream.asked_for, after))
            return
        stream.asked, stream.pieces = "", None
        # Others may have spoken meanwhile: what they know may make another log the best, or a promise worthless.
        source = self._source(stream)
        if source is not None:
            again, best, first = source
            if best is not None and again == peer and first >= frame.first and after - 1 == best.have:
                self.adopted(stream, best, frame)
                return
        self.recover(stream)

    def adopted(self, stream: Stream, best: LogReport | None, fetched: Fetched | None) -> None:
        """The log is known: begin the term in it, and hear the keepers that have reported."""
        order, evictions = self._order, self._evictions
        adopt(stream, best, fetched)
        if best is not None:
            order.seq = max(order.seq, best.seq)
        order.begin(stream)
        stream.waiting_from = stream.end
        for broker in sorted(evictions.absent):  # one that is back reports itself, where an older one of it had a say
            order.append(stream, encode_event(Evict(broker, evictions.out[broker])))
        reports, stream.reports = stream.reports, {}
        for peer, frame in reports.values():
            self._keepers.enrol(stream, peer, frame)
        if stream.name == CLUSTER:
            stream.away.update(member for member in order.members if member not in stream.keepers)
            self._election.become(LEADING)
            self._led()
            self.recover_all()
        self._keepers.drop_if_gone(stream)
        self._requests.put_deferred(stream)


def mistaken(order: Order, stream: Stream, frame: LogReport) -> str:
    """Why this term must end, by what a keeper reports; "" if it need not.

    Before anything of the term is committed a log may show that a promise which counted when the stream was adopted was
    worth nothing: that voter had come back without its log already, under an older ballot, and what was committed then
    is not in this sequencer's log (K4). Only if an even number votes, or the voters change, can a quorum of promises
    and a quorum of those that know of it be different ones. Another ballot must begin anew.
    """
    if order.born or stream.commit >= stream.start or frame.ballot >= order.ballot:
        return ""
    for table in (frame.incs, frame.uncommitted_incs):
        for voter, inc in table.items():
            if inc > stream.counted.get(voter, inc):
                return f"{voter} had lost its log of {stream.name} when it promised (K4)"
    return ""
