"""The tap: asks a keeper of each stream for its facts, and makes rows of them, each index once.

A stream's indexes have no gaps and mean the same at each of its keepers, under every sequencer. So the next row is
found by counting: facts of earlier indexes are passed over, and indexes left out are a gap that is written down as a
"dropped" row. The tap asks one keeper of each stream at a time (its *teller*), another one when that goes. One that is
asked again may still have facts on their way that go on behind those which the tap passed over meanwhile: that is no
gap, and a teller says behind which index it goes on.

Rows lie in `rows` until the tap's actor takes them; `Kept` says that it did. Tellers wait for `FactsKept`: a tap that
falls behind slows itself down and no other process.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import PeerError
from ..machine import Effect, Flush, Input, Kept, PeerDown, PeerUp, Received, Send, SetTimer, Tick
from ..queue.applied import Applied, PutOff
from ..status.machines import TapStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.capture_frames import (
    EnqueueFact,
    EventFact,
    Fact,
    Facts,
    FactsKept,
    FactsOffered,
    FactsWanted,
    Observation,
    decode_fact,
)
from ..wire.events import CLUSTER, ZERO, Entry, decode_event
from .event_rows import delay_row, left, rows
from .event_table import OBSERVED_KINDS, Row

ORPHANS_KEPT = 1000
"""At most this many streams without a source have their place remembered."""


class Rows(NamedTuple):
    """The rows of one index of a stream (or of several that were dropped)."""

    stream: str
    upto: int
    rows: list[Row]


class Tapped:
    """A stream as the tap knows it.

    Attributes:
        have: index up to which its rows are made; `kept`: up to which they are on disk.
        offers: peer -> its offer.
        teller: the peer that was asked for its facts, "" for none.
        since_ms: when the first offer came that waits for a better one, 0 for none.
    """

    __slots__ = ("have", "kept", "offers", "said_kept", "said_seen", "since_ms", "teller")

    def __init__(self, have: int) -> None:
        self.have = self.kept = have
        self.offers: dict[str, FactsOffered] = {}
        self.teller = ""
        self.since_ms = 0
        self.said_seen = 0
        self.said_kept = 0


class TapMachine:
    """The tap of a cluster.

    Args:
        resume: stream -> index up to which an earlier tap has written its rows.
        timing: the cluster's.

    Attributes:
        rows: rows that were made and not taken yet, oldest first.
        dropped: number of events missing from the table, as far as this tap knows.
        unwritten: number of indexes whose rows are made and not on disk, as far as `Kept` says.
    """

    def __init__(self, resume: dict[str, int] | None = None, timing: Timing = DEFAULT_TIMING) -> None:
        self.timing = timing
        self.streams: dict[str, Tapped] = {stream: Tapped(index) for stream, index in (resume or {}).items()}
        self.rows: list[Rows] = []
        self.dropped = 0
        self.events = 0
        self.unwritten = 0
        self.now_ms = 0
        self._waiting: dict[str, Tapped] = {}
        self._effects: list[Effect] = []

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            frame = input.frame  # type: ignore[union-attr]
            if type(frame) is Facts:
                self._told(input.peer, frame)  # type: ignore[union-attr]
            elif type(frame) is FactsOffered:
                self._offer(input.peer, frame)  # type: ignore[union-attr]
        elif kind is Tick:
            self.now_ms = input.now_ms  # type: ignore[union-attr]
        elif kind is Flush:
            self._wait()
        elif kind is PeerDown or kind is PeerUp:  # who begins anew before its end was noticed has not been asked
            self._peer_over(input.peer)  # type: ignore[union-attr]
        elif kind is Kept:
            self._kept(input.written)  # type: ignore[union-attr]
        effects, self._effects = self._effects, []
        return effects

    # ---- the choice of tellers

    def _offer(self, peer: str, frame: FactsOffered) -> None:
        stream = self.streams.get(frame.stream)
        if stream is None:
            stream = self.streams[frame.stream] = Tapped(0)
        again = peer == stream.teller and peer in stream.offers and frame.base > stream.offers[peer].base
        stream.offers[peer] = frame
        if again:  # the teller's buffer has begun anew
            stream.teller = ""
        self._choose(frame.stream, stream)

    def _peer_over(self, peer: str) -> None:
        for name, stream in self.streams.items():
            if stream.offers.pop(peer, None) is not None and stream.teller == peer:
                stream.teller = ""
                self._choose(name, stream)
        gone = [name for name, stream in self.streams.items() if not stream.offers]
        for name in gone[: max(0, len(gone) - ORPHANS_KEPT)]:
            del self.streams[name]
            self._waiting.pop(name, None)

    def _choose(self, name: str, stream: Tapped) -> None:
        """Ask the best of the sources that have the next index; a near one has the best times."""
        whole = [peer for peer, offer in stream.offers.items() if offer.base <= stream.have]
        current = stream.offers.get(stream.teller)
        if current is not None:
            if current.near or not any(stream.offers[peer].near for peer in whole):
                return
        if not whole and stream.offers:
            if not stream.since_ms:
                stream.since_ms = self.now_ms
            if self.now_ms < stream.since_ms + self.timing.tap_grace_ms:
                self._waiting[name] = stream
                return
            whole = [min(stream.offers, key=lambda peer: (stream.offers[peer].base, peer))]
        stream.since_ms = 0
        self._waiting.pop(name, None)
        if not whole:
            return
        best = max(whole, key=lambda peer: (stream.offers[peer].near, peer))
        if stream.teller and stream.teller != best:
            self._effects.append(Send(stream.teller, FactsWanted(name, -1)))
        stream.teller = best
        stream.said_seen = stream.have
        self._effects.append(Send(best, FactsWanted(name, stream.have)))

    def _wait(self) -> None:
        if not self._waiting:
            return
        for name, stream in list(self._waiting.items()):
            self._choose(name, stream)
        if self._waiting:
            self._effects.append(SetTimer(min(s.since_ms for s in self._waiting.values()) + self.timing.tap_grace_ms))

    # ---- facts

    def _told(self, peer: str, frame: Facts) -> None:
        stream = self.streams.get(frame.stream)
        if stream is None or peer != stream.teller:
            return  # another teller has been asked since
        if frame.after > stream.have:
            return  # sent before the teller heard that it is asked again, behind facts that were passed over
        index = frame.first
        if index > stream.have + 1:
            self._gap(peer, frame, stream, index - 1)
        for data in frame.facts[max(0, stream.have + 1 - index) :]:
            stream.have += 1
            self.events += 1
            self.unwritten += 1
            fact = decode_fact(data)
            self.rows.append(Rows(frame.stream, stream.have, rows_of(frame, fact)))

    def _gap(self, peer: str, frame: Facts, stream: Tapped, upto: int) -> None:
        lost = upto - stream.have
        self.dropped += lost
        fact = decode_fact(frame.facts[0])
        queue = "" if frame.stream == CLUSTER or frame.stream.startswith("@") else frame.stream
        row = Row(
            term=fact.term, seq=fact.seq, part=-1, time_us=fact.time_us, kind="dropped", queue=queue,
            broker=peer.partition(".")[0], value=lost, detail=frame.stream,
        )  # fmt: skip
        stream.have = upto
        self.rows.append(Rows(frame.stream, upto, [row]))

    # ---- rows that were taken

    def _kept(self, written: dict[str, int]) -> None:
        """Tell each teller that it may send more, and each source which facts it may forget."""
        for name, index in written.items():
            if name in self.streams:
                self.streams[name].kept = max(index, self.streams[name].kept)
        if written:
            self.unwritten = sum(stream.have - stream.kept for stream in self.streams.values())
        seen: dict[str, dict[str, int]] = {}
        kept: dict[str, dict[str, int]] = {}
        for name, stream in self.streams.items():
            if stream.have > stream.said_seen and stream.teller:
                seen.setdefault(stream.teller, {})[name] = stream.said_seen = stream.have
            if stream.kept > stream.said_kept:
                stream.said_kept = stream.kept
                for peer in stream.offers:
                    kept.setdefault(peer, {})[name] = stream.kept
        for peer in {**seen, **kept}:
            self._effects.append(Send(peer, FactsKept(seen.get(peer, {}), kept.get(peer, {}))))

    def report(self) -> TapStatus:
        return TapStatus(
            streams=sum(bool(stream.offers) for stream in self.streams.values()),
            untold=[name for name, stream in self.streams.items() if stream.offers and not stream.teller],
            events=self.events,
            dropped=self.dropped,
        )


def rows_of(frame: Facts, fact: Fact) -> list[Row]:
    """The rows of one fact."""
    stream = frame.stream
    if type(fact) is EnqueueFact:
        row = Row(
            0, fact.term, fact.seq, 0, fact.time_us, "enqueue", stream, "", fact.client, 0, fact.first, fact.last,
            fact.last - fact.first + 1, fact.bytes, 0, 0, fact.number_first, 0, True, "", fact.number_last,
        )  # fmt: skip
        if not fact.dropped and not fact.aside and not fact.delays:
            return [row]
        waits = enumerate(fact.delays, 1)
        made = [row, *(delay_row(row, at, at, due_ms)._replace(part=part) for part, (at, due_ms) in waits)]
        return [*made, *left(made, Applied(dropped=fact.dropped, aside=fact.aside), fact.late)]
    if type(fact) is Observation:
        return _seen(fact)
    assert type(fact) is EventFact
    try:
        event = decode_event(fact.event)
    except PeerError:
        event = None
    if event is None:
        return []
    entry = Entry((fact.term, ZERO[1]), fact.seq, "", 0, 0, b"")
    done = Applied(fact.effective, fact.lost, fact.positions, dropped=fact.dropped, aside=fact.aside)
    if fact.waits:
        done = PutOff(
            fact.effective, fact.lost, fact.positions, dropped=fact.dropped, aside=fact.aside, waits=fact.waits
        )
    alternate = frame.alternate if fact.alternate is None else fact.alternate
    return rows(stream, entry, event, done, fact.time_us, fact.queue, alternate)


def _seen(fact: Observation) -> list[Row]:
    if fact.what not in OBSERVED_KINDS:
        return []  # a kind of a newer program
    row = Row(
        term=fact.term, seq=fact.seq, part=-1, time_us=fact.time_us, kind=fact.what, queue=fact.queue,
        broker=fact.broker, client=fact.client, inc=fact.inc, position_first=fact.first, position_last=fact.last,
        count=fact.last - fact.first + 1 if fact.first else 0, grant=fact.grant, value=fact.value, detail=fact.detail,
    )  # fmt: skip
    return [row]
