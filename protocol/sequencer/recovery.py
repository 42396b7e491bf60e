"""What a sequencer does to come to lead, and to leave: asks, collects promises, adopts streams, retires.

What is decided by it is in `election.py`; this carries it out on the sequencer's streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..machine import Retire, is_broker
from ..wire.events import CLUSTER, Ballot, Evict, Start, encode_event
from ..wire.log_frames import Fetched, LogReport, Nack, Prepare, Promise, Suspect
from .election import GRACE_MS, LEADING, PREPARING, STANDBY, adopt
from .failure_detector import FailureDetector
from .streams import Stream

if TYPE_CHECKING:
    from .machine import SequencerMachine


class Recovery:
    """Of one sequencer."""

    def __init__(self, machine: SequencerMachine) -> None:
        self.machine = machine

    def suspect(self, peer: str, frame: Suspect) -> None:
        if self.machine.election.suspected(frame, self.machine.now_ms):
            self.machine.election.promises.clear()  # a promise is of one ballot
            self.machine.ballot = (self.machine.election.highest[0] + 1, self.machine.uid)
            self.machine.election.role = PREPARING
            self.ask(list(self.machine.linked))
            self.machine.wake(self.machine.now_ms + GRACE_MS)
        else:
            self.machine.watch.suspected(peer, frame.members or self.machine.members)

    def ask(self, peers: list[str]) -> None:
        self.machine.election.asked_ms = self.machine.now_ms
        for peer in peers:
            self.machine.send(peer, Prepare(self.machine.ballot))

    def promised(self, peer: str, frame: Promise) -> None:
        preparing = self.machine.election.role != STANDBY  # else it was said before we gave that ballot up
        if preparing and frame.ballot == self.machine.ballot and not self.machine.born:
            self.machine.election.promises[frame.broker] = frame
            self.recover_all()

    def recover_all(self) -> None:
        if self.machine.election.role == STANDBY or self.machine.born:
            return
        for promise in list(self.machine.election.promises.values()):
            for name in promise.hosting:
                if name not in self.machine.dropped and name not in self.machine.streams:
                    self.machine.streams[name] = Stream(name)
        for stream in [s for s in self.machine.streams.values() if not s.ready]:
            self.recover(stream)

    def recover(self, stream: Stream) -> None:
        """Adopt a stream if that can be done now (S1, S2)."""
        cluster = self.machine.streams.get(CLUSTER)
        if stream.asked or (stream.name != CLUSTER and (cluster is None or not cluster.ready)):
            return
        floor = self.machine.election.floor(cluster) if cluster is not None else {}
        machine = self.machine
        linked = set(machine.linked)
        source = machine.election.source(stream, floor, machine.members, linked, machine.now_ms)
        if source is None:
            return
        peer, best, first = source
        if best is None or first > best.have:
            self.adopted(stream, best, None)
        else:
            stream.asked, stream.asked_for, stream.pieces = peer, best.have, None
            self.machine.send(peer, self.machine.election.fetch(self.machine.ballot, stream, best.have, first))

    def fetched(self, peer: str, frame: Fetched) -> None:
        stream = self.machine.streams.get(frame.stream)
        if stream is None or stream.ready or stream.asked != peer or frame.ballot != self.machine.ballot:
            return
        machine = self.machine
        if stream.pieces is not None:
            entries = stream.pieces.entries
            if frame.first != stream.pieces.first + len(entries):
                return  # of a question that was given up
            entries += frame.entries
            frame = stream.pieces
        after = frame.first + len(frame.entries)
        if after <= stream.asked_for and frame.entries:
            stream.pieces = stream.pieces or replace(frame, entries=list(frame.entries))
            machine.send(peer, machine.election.fetch(machine.ballot, stream, stream.asked_for, after))
            return
        stream.asked, stream.pieces = "", None
        floor = machine.election.floor(machine.streams[CLUSTER]) if CLUSTER in machine.streams else {}
        # Others may have spoken meanwhile: what they know may make another log the best, or a promise worthless.
        source = machine.election.source(stream, floor, machine.members, set(machine.linked), machine.now_ms)
        if source is not None:
            again, best, first = source
            if best is not None and again == peer and first >= frame.first and after - 1 == best.have:
                self.adopted(stream, best, frame)
                return
        self.recover(stream)

    def adopted(self, stream: Stream, best: LogReport | None, fetched: Fetched | None) -> None:
        adopt(stream, best, fetched)
        if stream.name == CLUSTER:
            stream.voters = stream.voters or list(self.machine.members)
            self.machine.members = self.machine.election.members = stream.voters
        if best is not None:
            self.machine.seq = max(self.machine.seq, best.seq)
        stream.ready = True
        self.machine.append(stream, encode_event(Start(self.machine.ballot)))
        stream.start = stream.waiting_from = stream.end
        for broker in sorted(self.machine.absent):  # who is back says so itself, where an older one of it had a say
            self.machine.append(stream, encode_event(Evict(broker, self.machine.out[broker])))
        reports, stream.reports = stream.reports, {}
        for peer, frame in reports.values():
            self.machine.enrol(stream, peer, frame)
        if stream.name == CLUSTER:
            stream.away.update(member for member in self.machine.members if member not in stream.keepers)
            self.machine.election.role = LEADING
            self.machine.detector = FailureDetector(self.machine.members, self.machine.now_ms)
            self.machine.duty.begin(self.machine.now_ms)
            beat = self.machine.duty.beat(self.machine)
            for peer in self.machine.linked:
                if is_broker(peer):
                    self.machine.detector.up(peer, self.machine.now_ms)
                self.machine.send(peer, beat)
            self.machine.wake(self.machine.now_ms)
            self.recover_all()
        self.machine.drop_if_gone(stream)
        held, stream.deferred = stream.deferred, []
        for part in held if self.machine.streams.get(stream.name) is stream else ():
            self.machine.put(stream, part)

    def nack(self, peer: str, nack: Nack) -> None:
        if nack.promised <= self.machine.ballot:
            return
        if self.machine.election.role == LEADING:
            self._abdicate(nack.promised, f"a sequencer with the higher ballot {nack.promised} has taken over (S7)")
        else:
            self.machine.election.give_up(nack.promised)
            self.machine.streams.clear()

    def mistaken(self, stream: Stream, frame: LogReport) -> bool:
        """Whether a log shows, before anything of this term is committed, that a promise which counted when the stream
        was adopted was worth nothing: that voter had come back without its log already, under an older ballot, and
        what was committed then is not in our log. Only if an even number votes, or the voters change, can a quorum of
        promises and one of those that know of it be different ones. Another ballot must begin anew."""
        machine = self.machine
        if machine.born or stream.commit >= stream.start or frame.ballot >= machine.ballot:
            return False
        for table in (frame.incs, frame.uncommitted_incs):
            for voter, inc in table.items():
                if inc > stream.counted.get(voter, inc):
                    self._abdicate(machine.ballot, f"{voter} had lost its log of {stream.name} when it promised (K4)")
                    return True
        return False

    def _abdicate(self, ballot: Ballot, reason: str) -> None:
        self.machine.deposed = ballot
        self.machine.effects.append(Retire(reason))
