"""Facts about committed events, kept by the broker or replica that applies them until the tap has them safe.

Every keeper of a stream notes the same facts under the same indexes, so the tap may ask any of them, and another one
when that dies. Facts cost their process little: one is some sixty bytes for an event, however many messages it is of;
they leave in batches that no other work waits for; and only the newest are kept of facts that the tap does not take.
"""

from __future__ import annotations

from collections import deque

from ..limits import DEFAULT, Limits
from ..machine import EVENTS, Effect, Flush, PeerDown, PeerUp, Received, Send, Tick
from ..timing import DEFAULT_TIMING, Timing
from ..wire.capture_frames import Facts, FactsKept, FactsOffered, FactsWanted

CLOSED_KEPT = 1000


class FactBuffer:
    """The facts of one stream.

    Attributes:
        base, end: it has the facts behind index `base` up to index `end`.
        told: index of the last fact sent to the tap; -1: the tap does not ask here.
        seen: index of the last fact that the tap has taken.
        near: as last offered to the tap.
        term, seq: of the last event that was noted.
        bytes: size of the queue when that event was noted.
        closed: the stream is over here; the buffer ends when the tap has the rest.
    """

    __slots__ = ("alternate", "base", "bytes", "closed", "end", "facts", "near", "seen", "seq", "term", "told")

    def __init__(self, base: int, alternate: str = "") -> None:
        self.base = self.end = base
        self.alternate = alternate
        self.facts: deque[bytes] = deque()
        self.told = -1
        self.seen = 0
        self.near = False
        self.term = 0
        self.seq = 0
        self.bytes = 0
        self.closed = False


class Reporter:
    """All fact buffers of a process, and its side of the talk with the tap: a companion of the process's machine.

    Attributes:
        now_us: the time of the last tick.
        due_ms: when the facts that have gathered are to leave, 0 if there are none.
        dropped: number of facts that were forgotten before the tap had taken them.
    """

    def __init__(self, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT) -> None:
        self._gather_ms = timing.facts_gather_ms
        self._most_gathered = limits.facts_gathered
        self._most_kept = limits.facts_kept
        self._window = limits.facts_window
        self.buffers: dict[str, FactBuffer] = {}
        self.peer = EVENTS
        self.now_us = 0
        self.due_ms = 0
        self.dropped = 0
        self.effects: list[Effect] = []
        self._up = False
        self._kept = 0
        self._gathered = 0
        self._now_ms = 0
        self._due_ms = 0
        self._news: dict[str, FactBuffer] = {}  # streams that the tap asks of us, with unsent facts

    # ---- the door

    def step(self, input: Tick | Flush | Received | PeerUp | PeerDown) -> list[Effect]:
        """Offers that observers have caused meanwhile leave behind the next input that is no tick."""
        kind = type(input)
        if kind is Tick:
            self._now_ms = input.now_ms  # type: ignore[union-attr]
            self.now_us = input.now_us or self._now_ms * 1000  # type: ignore[union-attr]
            return []
        if kind is Flush:
            self.due_ms = self.flush(self._now_ms)
        elif kind is Received:
            self.heard(input.frame)  # type: ignore[union-attr]
        elif kind is PeerUp:
            self.up()
        else:
            self.down()
        return self.take() if self.effects else []

    # ---- noting

    def open(self, stream: str, base: int, alternate: str = "") -> FactBuffer:
        """Begin a stream's buffer behind `base`; anew, if there is one."""
        old = self.buffers.pop(stream, None)
        if old is not None:
            self._kept -= len(old.facts)
        buffer = self.buffers[stream] = FactBuffer(base, alternate)
        self._offer(stream, buffer)
        return buffer

    def behind(self, stream: str, index: int, alternate: str = "") -> FactBuffer:
        """The buffer for the fact behind `index`: a new one if an update has begun anew."""
        buffer = self.buffers.get(stream)
        return buffer if buffer is not None and buffer.end == index else self.open(stream, index, alternate)

    def note(self, stream: str, buffer: FactBuffer, fact: bytes) -> None:
        """The next fact of a stream."""
        buffer.facts.append(fact)
        buffer.end += 1
        self._kept += 1
        if self._kept > self._most_kept:
            self._drop(buffer)
        if buffer.told >= 0:
            self._gathered += 1
            self._news[stream] = buffer

    def _drop(self, buffer: FactBuffer) -> None:
        """Too many facts are kept: drop the oldest of the stream which has just grown."""
        while self._kept > self._most_kept and buffer.facts:
            buffer.facts.popleft()
            buffer.base += 1
            self._kept -= 1
            self.dropped += buffer.base > buffer.seen

    def near(self, stream: str, buffer: FactBuffer, near: bool) -> None:
        buffer.near = near
        self._offer(stream, buffer)

    def close(self, stream: str) -> None:
        """The stream is over here."""
        buffer = self.buffers.get(stream)
        if buffer is not None:
            buffer.closed = True
            closed = [name for name, one in self.buffers.items() if one.closed]
            if not buffer.facts:
                self._end(stream)
            elif len(closed) > CLOSED_KEPT:
                self._end(closed[0])

    def _end(self, stream: str) -> None:
        self._kept -= len(self.buffers.pop(stream).facts)
        self._news.pop(stream, None)

    # ---- the tap

    def up(self) -> None:
        """The link to the tap is open: it may be another tap than before."""
        self._up = True
        self._news.clear()
        for stream, buffer in self.buffers.items():
            buffer.told = -1
            self._offer(stream, buffer)

    def down(self) -> None:
        self._up = False
        self._news.clear()
        for buffer in self.buffers.values():
            buffer.told = -1

    def _offer(self, stream: str, buffer: FactBuffer) -> None:
        if self._up:
            self.effects.append(Send(EVENTS, FactsOffered(stream, buffer.base, buffer.near)))

    def heard(self, frame: object) -> None:
        """A frame of the tap has come."""
        if isinstance(frame, FactsWanted):
            buffer = self.buffers.get(frame.stream)
            if buffer is None:
                return
            buffer.told = frame.after
            if frame.after >= 0:
                buffer.seen = frame.after
                self._news[frame.stream] = buffer
            else:  # what has gathered stays here, too: who tells it goes on telling
                self._news.pop(frame.stream, None)
        elif isinstance(frame, FactsKept):
            for stream, index in frame.seen.items():
                buffer = self.buffers.get(stream)
                if buffer is not None and index > buffer.seen:
                    buffer.seen = index
                    if buffer.told >= 0 and buffer.told < buffer.end:
                        self._news[stream] = buffer
            for stream, index in frame.kept.items():
                self._forget(stream, index)

    def _forget(self, stream: str, index: int) -> None:
        buffer = self.buffers.get(stream)
        if buffer is None:
            return
        while buffer.base < index and buffer.facts:
            buffer.facts.popleft()
            buffer.base += 1
            self._kept -= 1
        if buffer.closed and not buffer.facts:
            self._end(stream)

    def flush(self, now_ms: int) -> int:
        """Send the gathered facts, if it is time; returns when to flush again in ms, 0 for no need."""
        if not self._news:
            return 0
        if not self._due_ms:
            self._due_ms = now_ms + self._gather_ms
        if self._gathered < self._most_gathered and now_ms < self._due_ms:
            return self._due_ms
        self._due_ms = self._gathered = 0
        news, self._news = self._news, {}
        for stream, buffer in news.items():
            first = max(buffer.told, buffer.base) + 1
            last = min(buffer.end, max(buffer.seen, buffer.base) + self._window)
            if last >= first:
                facts = list(buffer.facts) if len(buffer.facts) == last - first + 1 else _slice(buffer, first, last)
                self.effects.append(Send(EVENTS, Facts(stream, first, facts, buffer.alternate, buffer.told)))
                buffer.told = last
        return 0

    def take(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    @property
    def kept(self) -> int:
        """Number of facts that it keeps."""
        return self._kept


def _slice(buffer: FactBuffer, first: int, last: int) -> list[bytes]:
    """Facts `first` to `last`; mostly those at the end, which is where a deque is quick."""
    facts, found = buffer.facts, []
    for index in range(last - buffer.base - 1, first - buffer.base - 2, -1):
        found.append(facts[index])
    found.reverse()
    return found
