"""What a sequencer does to come to lead, and to leave: asks, collects promises, adopts streams, retires.

What is decided by it is in `reign.py`; this carries it out on the sequencer's streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .effects import Retire, is_broker
from .events import CLUSTER, Ballot, Evict, Start, encode_event
from .order_frames import Fetched, Nack, Prepare, Promised, Subscribe, Suspect
from .pulse import Pulse
from .reign import GRACE_MS, LEADING, PREPARING, STANDBY, adopt
from .streams import StreamView

if TYPE_CHECKING:
    from .sequencer import SequencerMachine


class Succession:
    """Of one sequencer."""

    def __init__(self, machine: SequencerMachine) -> None:
        self.machine = machine

    def suspect(self, peer: str, frame: Suspect) -> None:
        if self.machine.reign.suspected(frame, self.machine.now_ms):
            self.machine.reign.markers.clear()  # a promise is of one ballot
            self.machine.ballot = (self.machine.reign.highest[0] + 1, self.machine.uid)
            self.machine.reign.role = PREPARING
            self.ask(list(self.machine.linked))
            self.machine.wake(self.machine.now_ms + GRACE_MS)
        else:
            self.machine.watch.suspected(peer, frame.members or self.machine.members)

    def ask(self, peers: list[str]) -> None:
        self.machine.reign.asked_ms = self.machine.now_ms
        for peer in peers:
            self.machine.send(peer, Prepare(self.machine.ballot))

    def promised(self, peer: str, frame: Promised) -> None:
        preparing = self.machine.reign.role != STANDBY  # else it was said before we gave that ballot up
        if preparing and frame.ballot == self.machine.ballot and not self.machine.born:
            self.machine.reign.markers[frame.broker] = frame
            self.recover_all()

    def recover_all(self) -> None:
        if self.machine.reign.role == STANDBY or self.machine.born:
            return
        for marker in list(self.machine.reign.markers.values()):
            for name in marker.hosting:
                if name not in self.machine.dropped and name not in self.machine.streams:
                    self.machine.streams[name] = StreamView(name)
        for stream in [s for s in self.machine.streams.values() if not s.ready]:
            self.recover(stream)

    def recover(self, stream: StreamView) -> None:
        """Adopt a stream if that can be done now (S1, S2)."""
        cluster = self.machine.streams.get(CLUSTER)
        if stream.asked or (stream.name != CLUSTER and (cluster is None or not cluster.ready)):
            return
        floor = self.machine.reign.floor(cluster) if cluster is not None else {}
        machine = self.machine
        linked = set(machine.linked)
        source = machine.reign.source(stream, floor, machine.members, linked, machine.now_ms)
        if source is None:
            return
        peer, best, first = source
        if best is None or first > best.have:
            self.adopted(stream, best, None)
        else:
            stream.asked, stream.asked_for, stream.pieces = peer, best.have, None
            self.machine.send(peer, self.machine.reign.fetch(self.machine.ballot, stream, best.have, first))

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
            machine.send(peer, machine.reign.fetch(machine.ballot, stream, stream.asked_for, after))
            return
        stream.asked, stream.pieces = "", None
        floor = machine.reign.floor(machine.streams[CLUSTER]) if CLUSTER in machine.streams else {}
        # Others may have spoken meanwhile: what they know may make another log the best, or a promise worthless.
        source = machine.reign.source(stream, floor, machine.members, set(machine.linked), machine.now_ms)
        if source is not None:
            again, best, first = source
            if best is not None and again == peer and first >= frame.first and after - 1 == best.have:
                self.adopted(stream, best, frame)
                return
        self.recover(stream)

    def adopted(self, stream: StreamView, best: Subscribe | None, fetched: Fetched | None) -> None:
        adopt(stream, best, fetched)
        if stream.name == CLUSTER:
            stream.voters = stream.voters or list(self.machine.members)
            self.machine.members = self.machine.reign.members = stream.voters
        if best is not None:
            self.machine.seq = max(self.machine.seq, best.seq)
        stream.ready = True
        self.machine.append(stream, encode_event(Start(self.machine.ballot)))
        stream.start = stream.waiting_from = stream.end
        for broker in sorted(self.machine.absent):  # who is back says so itself, where an older one of it had a say
            self.machine.append(stream, encode_event(Evict(broker, self.machine.out[broker])))
        voices, stream.voices = stream.voices, {}
        for peer, frame in voices.values():
            self.machine.enrol(stream, peer, frame)
        if stream.name == CLUSTER:
            stream.away.update(member for member in self.machine.members if member not in stream.keepers)
            self.machine.reign.role = LEADING
            self.machine.pulse = Pulse(self.machine.members, self.machine.now_ms)
            self.machine.duty.begin(self.machine.now_ms)
            beat = self.machine.duty.beat(self.machine)
            for peer in self.machine.linked:
                if is_broker(peer):
                    self.machine.pulse.up(peer, self.machine.now_ms)
                self.machine.send(peer, beat)
            self.machine.wake(self.machine.now_ms)
            self.recover_all()
        self.machine.drop_if_gone(stream)
        held, stream.held = stream.held, []
        for part in held if self.machine.streams.get(stream.name) is stream else ():
            self.machine.put(stream, part)

    def nack(self, peer: str, nack: Nack) -> None:
        if nack.promised <= self.machine.ballot:
            return
        if self.machine.reign.role == LEADING:
            self._abdicate(nack.promised, f"a sequencer with the higher ballot {nack.promised} has taken over (S7)")
        else:
            self.machine.reign.give_up(nack.promised)
            self.machine.streams.clear()

    def mistaken(self, stream: StreamView, frame: Subscribe) -> bool:
        """Whether a log shows, before anything of this term is committed, that a promise which counted when the stream
        was adopted was worth nothing: that voter had come back without its log already, under an older ballot, and
        what was committed then is not in our log. Only if an even number votes, or the voters change, can a quorum of
        promises and one of those that know of it be different ones. Another ballot must begin anew."""
        machine = self.machine
        if machine.born or stream.commit >= stream.start or frame.ballot >= machine.ballot:
            return False
        for table in (frame.incs, frame.rising):
            for voter, inc in table.items():
                if inc > stream.pledged.get(voter, inc):
                    self._abdicate(machine.ballot, f"{voter} had lost its log of {stream.name} when it promised (K4)")
                    return True
        return False

    def _abdicate(self, ballot: Ballot, reason: str) -> None:
        self.machine.deposed = ballot
        self.machine.effects.append(Retire(reason))
