"""The one total order: its streams, the number of its last entry, and the ballot under which entries are appended."""

from __future__ import annotations

from collections.abc import Sequence

from ..outbox import Outbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, ZERO, Ballot, Entry, Start, encode_event
from .observers import SequencerObserver
from .patient_entries import PatientEntries
from .stream import Stream


class Order:
    """The logs of one sequencer.

    Args:
        members: the voters of the cluster stream: one list, which that stream shares and changes in place.
        ballot: of the cluster's first term; None: this sequencer stands by.
        timing: the cluster's.
        observers: are told of the sequencer's own events.

    Attributes:
        born: this is the cluster's first term: there is nothing to adopt.
        seq: place of the last entry in the order of the whole cluster.
        dropped: streams of queues that are deleted everywhere.
        dirty: streams with something to send, in order of arrival.
        lazy, lazy_at_ms: streams with keepers that do not know the commit index yet, and when those are told.
        patient: streams with entries that wait for others to leave with.
    """

    __slots__ = (
        "_observers", "ballot", "born", "dirty", "dropped", "lazy", "lazy_at_ms", "members", "patient", "seq",
        "streams",
    )  # fmt: skip

    def __init__(
        self, members: list[str], ballot: Ballot | None, timing: Timing = DEFAULT_TIMING,
        observers: Sequence[SequencerObserver] = (),
    ) -> None:  # fmt: skip
        self._observers = observers
        self.members = members
        self.ballot: Ballot = ballot or ZERO
        self.born = ballot is not None
        self.seq = 0
        self.streams: dict[str, Stream] = {}
        self.dropped: set[str] = set()
        self.dirty: dict[str, None] = {}
        self.lazy: dict[str, None] = {}
        self.lazy_at_ms = 0
        self.patient = PatientEntries(timing)

    def open(self, name: str) -> Stream:
        """A stream of which nothing is known yet."""
        stream = self.streams[name] = Stream(name)
        if name == CLUSTER:
            stream.voters = self.members
        return stream

    def append(self, stream: Stream, event: bytes) -> None:
        """An entry of the sequencer's own."""
        self.seq += 1
        stream.put(Entry(self.ballot, self.seq, "", 0, 0, event))
        stream.eager = stream.end
        self.dirty[stream.name] = None
        for observer in self._observers:
            observer.ordered(stream.name, event)

    def changed(self, stream: Stream, patient: bool) -> None:
        """The stream has a new entry, from a request."""
        if patient:
            self.patient.waiting[stream.name] = None
        else:
            stream.eager = stream.end
            self.dirty[stream.name] = None

    def look(self, outbox: Outbox) -> None:
        """The time has come for something, or not yet: have what has waited long enough sent at the next flush, and
        wake up again for the rest."""
        if 0 < self.lazy_at_ms <= outbox.now_ms:
            self.lazy_at_ms = 0
            self.dirty |= self.lazy
        elif self.lazy_at_ms:
            outbox.wake(self.lazy_at_ms)
        if self.patient.due_ms > outbox.now_ms:  # else the flush looks
            outbox.wake(self.patient.due_ms)

    def look_at_patient(self, outbox: Outbox) -> None:
        """Before a flush: send along what need not wait, or no longer."""
        self.dirty |= self.patient.due(outbox.now_ms)
        if self.patient.due_ms:
            outbox.wake(self.patient.due_ms)

    def begin(self, stream: Stream) -> None:
        """The term's first entry: the stream is ready, and the term commits by what is behind this entry (S4)."""
        stream.ready = True
        self.append(stream, encode_event(Start(self.ballot)))
        stream.start = stream.end

    def part_with(self, peer: str) -> None:
        """A process has been told to end, and a broker takes its replicas with it. None of their logs count from now
        on, not only from when their links break: another member may be given up before that."""
        for stream in self.streams.values():
            for voter, keeper in list(stream.keepers.items()):
                if keeper.peer == peer or keeper.peer.startswith(f"{peer}."):
                    stream.part(voter)

    def drop(self, stream: Stream) -> None:
        """The queue is deleted everywhere."""
        del self.streams[stream.name]
        self.dirty.pop(stream.name, None)
        self.lazy.pop(stream.name, None)
        self.patient.dropped(stream.name)
        self.dropped.add(stream.name)
