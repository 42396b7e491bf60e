"""The requests of brokers, replicas and Ownership at the sequencer: each gets its places once, and its answer once.

A request is one or more events, each for a stream. It is answered when all its events are committed; one with a wiring
event also waits until every member has applied that. A request that comes again is answered again, and is not ordered
again: the numbers in the logs say what an earlier sequencer has ordered, even half of a request (S5, B1).
"""

from __future__ import annotations

from collections.abc import Callable

from ..machine import Send
from ..wire.events import CLUSTER, Entry
from ..wire.log_frames import Request, Results
from .evictions import Evictions
from .order import Order
from .pending import Origin, Part, Pending
from .stream import Stream


class RequestBook:
    """All that is asked for in one term.

    Args:
        stream: finds a stream by its name, or begins it.
    """

    def __init__(self, order: Order, evictions: Evictions, stream: Callable[[str], Stream]) -> None:
        self._order = order
        self._evictions = evictions
        self._stream = stream
        self._origins: dict[str, Origin] = {}
        self._results: dict[tuple[str, int], list[int]] = {}  # (peer, inc) -> numbers to answer at the next flush

    def take(self, peer: str, request: Request) -> None:
        """Give each event of a request its place, unless it has one."""
        order, number = self._order, request.number
        origin = self._origins.get(request.origin)
        if origin is None or origin.inc < request.inc:
            origin = self._origins[request.origin] = Origin(peer, request.inc)
        elif request.inc < origin.inc:
            return  # an incarnation that is over
        origin.peer = peer
        if number <= origin.last:
            if number not in origin.unanswered:
                self._results.setdefault((peer, request.inc), []).append(number)
            return
        # Numbers rise; where one is left out, an earlier sequencer has answered it. None is lost: links keep order, and
        # a new link, like a new sequencer, is told all that has no answer before anything else.
        origin.last = number
        pending = Pending(origin, number, request.patient)
        if order.born:
            streams = order.streams
            for name, event in request.parts:
                if name in order.dropped:
                    continue
                stream = streams.get(name) or self._stream(name)
                pending.left += 1
                order.seq += 1
                stream.put(Entry(order.ballot, order.seq, request.origin, request.inc, number, event))
                order.changed(stream, request.patient)
                stream.waiting[stream.end] = pending
        else:
            self._place(pending, request)
        if pending.left:
            origin.unanswered.add(number)
        else:
            self._results.setdefault((peer, request.inc), []).append(number)

    def _place(self, pending: Pending, request: Request) -> None:
        """Of a request that an earlier sequencer may have taken. A part for a stream that is not adopted yet waits, and
        so does what comes behind it there, but nothing else: one queue's trouble is its own."""
        count: dict[str, int] = {}
        parts: list[tuple[Stream, Part]] = []
        for name, event in request.parts:
            if name not in self._order.dropped:
                place = count[name] = count.get(name, 0) + 1
                parts.append((self._stream(name), Part(pending, request.origin, place, event)))
        pending.left = len(parts) + 1  # so that it is not answered before all have been looked at
        for stream, part in parts:
            if stream.ready:
                self.put(stream, part)
            else:
                stream.deferred.append(part)
        pending.left -= 1

    def put(self, stream: Stream, part: Part) -> None:
        """Give a part of a request its place, unless an earlier sequencer has done so (S5)."""
        pending, origin = part.pending, part.pending.origin
        if self._evictions.out and self._evictions.is_out(part.origin, origin.inc):
            return  # its origin was evicted while this waited: there is none to answer
        if stream.refuses(part.origin, origin.inc):
            return  # a repeat may be done already, and whoever asks is about to end (`log/numbers.py`)
        if part.place <= stream.parts_held(part.origin, origin.inc, pending.number):
            if stream.commit >= stream.start and stream.name != CLUSTER:
                self.part_done(pending)
            else:
                stream.repeats.append(pending)
                self.answer(stream)  # of the wiring, once every member shows it
            return
        order = self._order
        order.seq += 1
        stream.put(Entry(order.ballot, order.seq, part.origin, origin.inc, pending.number, part.event))
        order.changed(stream, pending.patient)
        stream.waiting[stream.end] = pending

    def put_deferred(self, stream: Stream) -> None:
        """Place the parts that have waited for the stream to be adopted."""
        parts, stream.deferred = stream.deferred, []
        for part in parts if self._order.streams.get(stream.name) is stream else ():
            self.put(stream, part)

    def answer(self, stream: Stream) -> None:
        """Answer the requests whose parts are committed; those of the wiring when every member shows it as well."""
        upto = stream.commit if stream.name != CLUSTER else min(stream.commit, stream.shown(self._order.members))
        waiting = stream.waiting
        while stream.waiting_from <= upto:
            pending = waiting.pop(stream.waiting_from, None)
            stream.waiting_from += 1
            if pending is not None:
                self.part_done(pending)
        if stream.repeats and upto >= stream.start:
            repeats, stream.repeats = stream.repeats, []
            for pending in repeats:
                self.part_done(pending)

    def part_done(self, pending: Pending) -> None:
        """A part is committed, or its stream is gone."""
        pending.left -= 1
        if pending.left == 0:
            pending.origin.unanswered.discard(pending.number)
            origin = pending.origin
            self._results.setdefault((origin.peer, origin.inc), []).append(pending.number)

    def dropped(self, stream: Stream) -> None:
        """The stream is gone: all that waits for it is done."""
        for pending in [*stream.waiting.values(), *stream.repeats, *(part.pending for part in stream.deferred)]:
            self.part_done(pending)

    def results(self) -> list[Send]:
        """The answers to send now, behind what their receivers are told of the streams.

        A broker that completes something knows every wiring event that was complete before. Usually order of its link
        sees to that; one that is too far behind in the cluster stream to be told of it, and cannot be spared, hears no
        results yet.
        """
        if not self._results:
            return []
        cluster = self._order.streams.get(CLUSTER)
        untold = {peer for peer, _ in cluster.reports.values()} if cluster is not None and cluster.reports else ()
        waiting: dict[tuple[str, int], list[int]] = {}
        effects: list[Send] = []
        for (peer, inc), numbers in self._results.items():
            if untold and peer in untold:
                waiting[peer, inc] = numbers
            else:
                effects.append(Send(peer, Results(inc, numbers)))
        self._results = waiting
        return effects
