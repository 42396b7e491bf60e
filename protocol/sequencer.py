"""The sequencer: gives every event its place in the one total order, and says when it is committed.

Rules S4 to S8 of `sequencer.md`. It never looks inside an event. Each stream is a log of its own with its own majority,
so one queue's trouble is its own; `seq`, on every entry, is its place in the order of the whole cluster.

What a step gathers is said at `Flush`: one `Append` per stream with news, encoded once for all keepers that stand at
the same place, and one `Results` per origin. Under load, batches grow by themselves.
"""

from __future__ import annotations

from .effects import Effect, Flush, Input, Multicast, PeerDown, Received, Send, SetTimer, Tick
from .events import CLUSTER, ZERO, Ballot, Entry, Start, encode_event
from .frames import Ack, Append, Busy, Gap, Nack, Request, Results, Subscribe, Unsubscribe

APPEND_BYTES = 4 * 1024 * 1024
"""An `Append` carries no more event bytes than this (one event may be larger)."""
KEEPER_WINDOW_BYTES = 64 * 1024 * 1024
"""What a keeper may have unacknowledged before it is sent no more (S8)."""
LAZY_MS = 10
"""How long a keeper that does not act on commits may wait for what others are told at once: the commit index, and, if
the eager ones and it are more than a majority, entries too. Three replicas that work at the same time on two cores only
keep each other from the one a consumer waits for; and what waits goes out in larger batches."""


class _Pending:
    """A request of which some parts are not committed yet."""

    __slots__ = ("left", "number", "origin")

    def __init__(self, origin: _Origin, number: int, left: int) -> None:
        self.origin = origin
        self.number = number
        self.left = left


class _Origin:
    """A submitter: the last number taken of its newest incarnation, and where its answers go."""

    __slots__ = ("inc", "last", "peer", "unanswered")

    def __init__(self, peer: str, inc: int) -> None:
        self.peer = peer
        self.inc = inc
        self.last = 0
        self.unanswered: set[int] = set()


class _Keeper:
    """What is known of one keeper of a stream: `next` to send, `match` held, `applied`, bytes in flight."""

    __slots__ = ("applied", "eager", "match", "next", "peer", "sent_commit")

    def __init__(self, peer: str, have: int) -> None:
        self.peer = peer
        self.next = have + 1
        self.match = have
        self.applied = 0
        self.eager = True
        self.sent_commit = -1


def _patience(keeper: _Keeper) -> bool:
    return not keeper.eager


class _Stream:
    __slots__ = (
        "away", "base", "commit", "end", "gone", "keepers", "log", "name", "size", "total", "waiting", "waiting_from",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.end = 0
        self.commit = 0
        self.base = 0  # entries up to here are forgotten
        self.log: dict[int, Entry] = {}
        self.total = 0  # bytes of all its events so far
        self.size: dict[int, int] = {0: 0}  # index -> `total` up to and including it, as far back as the log goes
        self.keepers: dict[str, _Keeper] = {}
        self.gone: set[str] = set()  # voters that have unsubscribed for good
        self.away: set[str] = set()  # voters that were here and whose link broke
        self.waiting: dict[int, _Pending] = {}  # index -> request part to answer, in index order
        self.waiting_from = 1


class SequencerMachine:
    """One sequencer's reign.

    Args:
        uid: fresh per incarnation; with `counter` it makes the ballot.
        members: the broker ids; each is a voter of every stream.
        counter: above any seen before.
    """

    def __init__(self, uid: int, members: list[str], counter: int = 1) -> None:
        self.ballot: Ballot = (counter, uid)
        self.members = list(members)
        self.majority = len(members) // 2 + 1
        self.seq = 0
        self.deposed: Ballot | None = None
        """A higher ballot that was seen: this sequencer has stopped for good (S7)."""
        self._streams: dict[str, _Stream] = {}
        self._dropped: set[str] = set()
        self._origins: dict[str, _Origin] = {}
        self._dirty: dict[str, None] = {}  # streams with something to say, in order of arrival
        self._results: dict[str, list[int]] = {}  # peer -> numbers to answer at the next flush
        self._lazy: dict[str, None] = {}  # streams with keepers that do not know the commit index yet
        self._lazy_at_ms = 0  # when they are told
        self._now_ms = 0

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        if type(input) is Received:
            if self.deposed is not None:
                return []
            return self._receive(input.peer, input.frame) or []
        if type(input) is Flush:
            return self._flush()
        if type(input) is Tick:
            self._now_ms = input.now_ms
            if self._lazy_at_ms and input.now_ms >= self._lazy_at_ms:
                self._lazy_at_ms = 0
                self._dirty |= self._lazy
        elif type(input) is PeerDown:
            self._peer_down(input.peer)
        return []

    def _receive(self, peer: str, frame: object) -> list[Effect] | None:
        kind = type(frame)
        if kind is Ack:
            self._ack(frame)  # type: ignore[arg-type]
        elif kind is Request:
            return self._request(peer, frame)  # type: ignore[arg-type]
        elif kind is Subscribe:
            self._subscribe(peer, frame)  # type: ignore[arg-type]
        elif kind is Gap:
            self._gap(frame)  # type: ignore[arg-type]
        elif kind is Unsubscribe:
            self._unsubscribe(frame)  # type: ignore[arg-type]
        elif kind is Nack:
            self._nack(frame)  # type: ignore[arg-type]
        return None

    # ---- requests

    def _request(self, peer: str, request: Request) -> list[Effect] | None:
        origin = self._origins.get(request.origin)
        if origin is None or origin.inc < request.inc:
            origin = self._origins[request.origin] = _Origin(peer, request.inc)
        elif request.inc < origin.inc:
            return None  # an incarnation that is over
        origin.peer = peer
        number = request.number
        if number <= origin.last:
            if number not in origin.unanswered:
                self._results.setdefault(peer, []).append(number)
            return None
        if number != origin.last + 1:
            return [Send(peer, Busy(origin.last + 1))]
        origin.last = number
        pending = _Pending(origin, number, 0)
        for stream_name, event in request.parts:
            if stream_name in self._dropped:
                continue
            stream = self._stream(stream_name)
            self._append(stream, request.origin, request.inc, number, event)
            stream.waiting[stream.end] = pending
            pending.left += 1
        if pending.left:
            origin.unanswered.add(number)
        else:
            self._results.setdefault(peer, []).append(number)
        return None

    def _append(self, stream: _Stream, origin: str, inc: int, number: int, event: bytes) -> None:
        self.seq += 1
        stream.end += 1
        stream.log[stream.end] = Entry(self.ballot, self.seq, origin, inc, number, event)
        stream.total += len(event)
        stream.size[stream.end] = stream.total
        self._dirty[stream.name] = None

    def _stream(self, name: str) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(name)
            self._append(stream, "", 0, 0, encode_event(Start(self.ballot)))
        return stream

    # ---- keepers

    def _subscribe(self, peer: str, frame: Subscribe) -> None:
        if frame.stream in self._dropped or frame.voter not in self.members:
            return
        stream = self._stream(frame.stream)
        have = min(frame.have, stream.end)
        stream.keepers[frame.voter] = _Keeper(peer, have)
        stream.gone.discard(frame.voter)
        stream.away.discard(frame.voter)
        self._dirty[stream.name] = None
        self._advance(stream)  # its acknowledgement may have been lost with the link

    def _unsubscribe(self, frame: Unsubscribe) -> None:
        if frame.stream in self._dropped:
            return
        stream = self._stream(frame.stream)  # its subscription may have been lost with a link
        stream.keepers.pop(frame.voter, None)
        stream.gone.add(frame.voter)
        if len(stream.gone) >= len(self.members):
            self._drop(stream)

    def _drop(self, stream: _Stream) -> None:
        """The queue is deleted everywhere: forget its stream and answer what still waits on it."""
        del self._streams[stream.name]
        self._dirty.pop(stream.name, None)
        self._lazy.pop(stream.name, None)
        self._dropped.add(stream.name)
        for pending in stream.waiting.values():
            self._part_done(pending)

    def _ack(self, ack: Ack) -> None:
        stream = self._streams.get(ack.stream)
        if stream is None or ack.ballot != self.ballot:
            return
        keeper = stream.keepers.get(ack.voter)
        if keeper is None:
            return
        keeper.eager = ack.eager
        if ack.applied > keeper.applied:
            keeper.applied = ack.applied
            keeper.sent_commit = max(keeper.sent_commit, ack.applied)
            if ack.applied > stream.commit:  # a learner was told of a majority before us
                self._commit(stream, ack.applied)
        if ack.eager and keeper.sent_commit < stream.commit:
            self._dirty[stream.name] = None
        if ack.match > keeper.match:
            keeper.match = min(ack.match, stream.end)
            self._advance(stream)
        # Even where this ack commits nothing: the last member to show a wiring event is what its origin waits for.
        if stream.name == CLUSTER:
            self._answer(stream)

    def _gap(self, gap: Gap) -> None:
        stream = self._streams.get(gap.stream)
        if stream is None or gap.ballot != self.ballot:
            return
        keeper = stream.keepers.get(gap.voter)
        if keeper is not None:
            keeper.next = gap.have + 1
            self._dirty[stream.name] = None

    def _nack(self, nack: Nack) -> None:
        if nack.promised > self.ballot:
            self.deposed = nack.promised

    def _peer_down(self, peer: str) -> None:
        for stream in self._streams.values():
            for voter, keeper in list(stream.keepers.items()):
                if keeper.peer == peer:
                    del stream.keepers[voter]
                    stream.away.add(voter)
            if stream.name == CLUSTER:
                self._answer(stream)

    # ---- commit

    def _advance(self, stream: _Stream) -> None:
        """Commit the largest index a majority holds, of this term (S4)."""
        keepers = stream.keepers
        if len(keepers) < self.majority:
            return
        matches = sorted((keeper.match for keeper in keepers.values()), reverse=True)
        index = matches[self.majority - 1]
        if index > stream.commit and stream.log[index].ballot == self.ballot:
            self._commit(stream, index)
        if len(matches) == len(self.members) and matches[-1] > stream.base:
            self._forget(stream, min(matches[-1], stream.commit))

    def _commit(self, stream: _Stream, index: int) -> None:
        stream.commit = index
        self._dirty[stream.name] = None
        self._answer(stream)

    def _forget(self, stream: _Stream, upto: int) -> None:
        # One entry stays for the next Append's previous_ballot.
        for index in range(stream.base, upto):
            stream.log.pop(index, None)
            stream.size.pop(index, None)
        stream.base = upto

    def _answer(self, stream: _Stream) -> None:
        """Answer the requests whose parts are committed; wiring also waits until every member shows it: those that
        are starting too, only not those whose link broke."""
        upto = stream.commit
        if stream.name == CLUSTER:
            keepers = stream.keepers
            for member in self.members:
                if member not in stream.away:
                    upto = min(upto, keepers[member].applied if member in keepers else 0)
        waiting = stream.waiting
        while stream.waiting_from <= upto:
            pending = waiting.pop(stream.waiting_from, None)
            stream.waiting_from += 1
            if pending is not None:
                self._part_done(pending)

    def _part_done(self, pending: _Pending) -> None:
        pending.left -= 1
        if pending.left == 0:
            pending.origin.unanswered.discard(pending.number)
            self._results.setdefault(pending.origin.peer, []).append(pending.number)

    # ---- saying it

    def _flush(self) -> list[Effect]:
        effects: list[Effect] = []
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for name in dirty:
                self._say(self._streams[name], effects)
            if self._lazy and not self._lazy_at_ms:
                self._lazy_at_ms = self._now_ms + LAZY_MS
                effects.append(SetTimer(self._lazy_at_ms))
        if self._results:
            results, self._results = self._results, {}
            effects.extend(Send(peer, Results(numbers)) for peer, numbers in results.items())
        return effects

    def _say(self, stream: _Stream, effects: list[Effect]) -> None:
        """Send each keeper what it lacks; keepers at the same place share one frame."""
        groups: dict[int, list[_Keeper]] = {}
        due = self._lazy.pop(stream.name, 0) is None and not self._lazy_at_ms
        # Eager ones first: usually the owner is, and a consumer waits for it.
        ranked = sorted(stream.keepers.values(), key=_patience)
        for rank, keeper in enumerate(ranked):
            behind = keeper.next <= stream.end
            uninformed = keeper.sent_commit < stream.commit
            if keeper.eager or due:
                told = behind or uninformed
            else:
                told = behind and rank < self.majority
            if told:
                groups.setdefault(keeper.next, []).append(keeper)
            elif behind or uninformed:
                self._lazy[stream.name] = None
        eager = [keeper for keeper in ranked if keeper.eager]
        learner = eager[0].peer if len(eager) == 1 and stream.name != CLUSTER else ""
        for start, keepers in groups.items():
            while True:
                stop, complete = self._batch_end(stream, start, keepers)
                log = stream.log
                previous = start - 1
                frame = Append(
                    self.ballot,
                    stream.name,
                    previous,
                    log[previous].ballot if previous in log else ZERO,
                    stream.commit,
                    stream.base,
                    [log[i] for i in range(start, stop + 1)],
                    learner,
                    self.majority - 1 if learner else 0,
                )
                # The learner last: it has to wait for another one's acknowledgement anyway.
                effects.append(Multicast([keeper.peer for keeper in reversed(keepers)], frame))
                for keeper in keepers:
                    keeper.next = stop + 1
                    keeper.sent_commit = stream.commit
                start = stop + 1
                if complete or start > stream.end:
                    break

    def _batch_end(self, stream: _Stream, start: int, keepers: list[_Keeper]) -> tuple[int, bool]:
        """Index of the last entry for an Append from `start`, and whether the keepers get no more for now."""
        size = stream.size
        before = size.get(start - 1, size.get(start, 0))
        if start > stream.end:
            return stream.end, True
        slowest = min(keeper.match for keeper in keepers)
        if size[start] - size.get(slowest, size[start]) > KEEPER_WINDOW_BYTES:
            self._dirty[stream.name] = None  # its acknowledgements re-open the window
            return start - 1, True
        if size[stream.end] - before <= APPEND_BYTES:
            return stream.end, False
        stop = start
        while stop < stream.end and size[stop + 1] - before <= APPEND_BYTES:
            stop += 1
        return stop, False

    # ---- for reports

    def report(self) -> dict[str, object]:
        return {
            "ballot": list(self.ballot),
            "seq": self.seq,
            "streams": {
                name: {
                    "end": stream.end,
                    "commit": stream.commit,
                    "lag": {voter: stream.end - keeper.match for voter, keeper in stream.keepers.items()},
                }
                for name, stream in self._streams.items()
            },
        }
