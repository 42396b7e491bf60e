"""Brokers and queue replicas that report facts to the tap: the event table's sources.

They behave in all else as the machines they are made from, which know nothing of it; a cluster without events runs
those. Facts are of events that are committed and applied, so a new sequencer changes nothing here: its term goes on in
the same streams under the next indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..broker.machine import BrokerMachine
from ..broker.session import Session
from ..machine import EVENTS, Effect, Flush, Input, Members, PeerDown, PeerUp, Received, Tick
from ..queue.state import Applied
from ..ranges import pairs
from ..replica.hosted_queue import HostedQueue
from ..replica.machine import ReplicaMachine
from ..wire.capture_frames import EnqueueFact, EventFact, Observation, encode_fact
from ..wire.client_frames import Opened
from ..wire.events import (
    CLUSTER,
    AnyEvent,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Enqueue,
    Entry,
    Lost,
    Own,
    Unbind,
    encode_event,
)
from ..wire.frame import Frame
from ..wire.queue_frames import Deliver, Forget, Interest
from ..wiring.wiring import Outcome
from .event_table import fresh_numbers
from .fact_buffer import FactBuffer, Reporter

SIGHTS_A_FRAME = 64
"""At most this many runs of redelivered messages in one delivery are reported one by one."""


def sights(name: str, inc: int) -> str:
    """The stream of one process's own observations; no queue's id begins like that."""
    return f"@{name}#{inc}"


class _Watcher:
    """The common part of a reporting broker and replica: clock, reporter, and the stream of own observations."""

    def __init__(self, name: str, broker: str, inc: int) -> None:
        self.reporter = Reporter()
        self.now_us = 0
        self._broker = broker
        self._stream = sights(name, inc)
        self._sights: FactBuffer | None = None
        self.term = 0
        self.seq = 0

    def input(self, input: Input) -> bool:
        """Take an input; returns whether it was for the watcher alone."""
        kind = type(input)
        if kind is Tick:
            self.now_us = input.now_us or input.now_ms * 1000  # type: ignore[union-attr]
        elif kind is Received:
            if input.peer == EVENTS:  # type: ignore[union-attr]
                self.reporter.heard(input.frame)  # type: ignore[union-attr]
                return True
        elif kind is PeerUp:
            if input.peer == EVENTS:  # type: ignore[union-attr]
                self.reporter.up()
                return True
        elif kind is PeerDown:
            if input.peer == EVENTS:  # type: ignore[union-attr]
                self.reporter.down()
                return True
        return False

    def saw(self, what: str, broker: str = "", **fields: Any) -> None:
        if self._sights is None:
            self._sights = self.reporter.open(self._stream, 0)
        fact = Observation(self.seq, self.term, self.now_us, what, broker or self._broker, **fields)
        self.reporter.note(self._stream, self._sights, encode_fact(fact))

    def journal(self, stream: str, index: int, alternate: str = "") -> FactBuffer:
        """The buffer for the fact at `index`: a new one if an update has begun anew."""
        journal = self.reporter.journals.get(stream)
        if journal is None or journal.end != index - 1:
            journal = self.reporter.open(stream, index - 1, alternate)
        return journal


class ReportingQueue(HostedQueue):
    """A hosted queue whose replica tells what it applies."""

    __slots__ = ()

    def _applied(self, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        assert isinstance(self._outbox, ReportingReplica)
        self._outbox.applied(self, entry, event, done)
        super()._applied(entry, event, done)


class ReportingReplica(ReplicaMachine):
    """A replica that reports to the tap. Arguments as `ReplicaMachine`."""

    hosts = ReportingQueue

    def __init__(self, name: str, broker: str, inc: int, **options: Any) -> None:
        super().__init__(name, broker, inc, **options)
        self.watcher = _Watcher(name, broker, inc)
        self._giving: dict[str, int] = {}  # queue id -> since when the lock is on its way to another broker
        self._starved: dict[str, int] = {}  # queue id -> since when messages wait and no consumer here has credit

    def step(self, input: Input) -> list[Effect]:
        watcher = self.watcher
        if watcher.input(input):
            return watcher.reporter.take()
        effects = super().step(input)
        if type(input) is Flush:
            again_ms = watcher.reporter.flush(self.now_ms)
            if again_ms:
                self.set_timer(EVENTS, again_ms)
                effects += self.take()
            if watcher.reporter.effects:
                effects = effects + watcher.reporter.take()
        return effects

    def applied(self, hosted: HostedQueue, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        stream = hosted.state.id
        watcher = self.watcher
        journal = watcher.reporter.journals.get(stream)
        if journal is None or journal.end != hosted.applied - 1:
            journal = watcher.journal(stream, hosted.applied, hosted.state.alternate)
            journal.bytes = hosted.state.bytes
            if type(event) is Enqueue and done.positions:
                journal.bytes -= sum(map(len, event.blobs[done.positions[0][0] - done.positions[0][1] - 1 :]))
        size = hosted.state.bytes
        term = entry.ballot[0]
        if type(event) is Enqueue:
            first, last = done.positions[0] if done.positions else (0, 0)
            if first:
                low, high = fresh_numbers(event, last - first + 1)
                fact = EnqueueFact(
                    entry.seq, term, watcher.now_us, event.client, low, high, first, last, size - journal.bytes
                )
            else:
                bare = Enqueue(event.client, event.numbers, [])
                fact = EventFact(entry.seq, term, watcher.now_us, encode_event(bare), False)
        else:
            fact = EventFact(entry.seq, term, watcher.now_us, entry.event, done.effective, done.positions, done.lost)
        journal.bytes = size
        watcher.term, watcher.seq = term, entry.seq
        watcher.reporter.note(stream, journal, encode_fact(fact))
        if type(event) is Own and entry.origin == self.name and entry.inc == self.inc:
            self._handed_over(stream, event, done)
        near = bool(hosted.dispatcher.subscriptions)
        if near != journal.near:
            watcher.reporter.near(stream, journal, near)

    # ---- observations

    def send(self, peer: str, frame: Frame) -> None:
        look = _LOOKS.get(type(frame))
        if look is not None:
            look(self, frame)
        super().send(peer, frame)

    def submit(self, stream: str, event: AnyEvent) -> int:
        if type(event) is Own and event.broker and event.broker != self.broker:
            self._giving[stream] = self.watcher.now_us
        return super().submit(stream, event)

    def _handed_over(self, queue: str, event: Own, done: Applied) -> None:
        since = self._giving.pop(queue, 0)
        if since and done.effective:
            self.watcher.saw(
                "hand_over", event.broker, queue=queue, grant=event.grant, value=self.watcher.now_us - since,
                detail=self.broker,
            )  # fmt: skip

    def _forgotten(self, frame: Forget) -> None:
        self._giving.pop(frame.queue, None)
        self._starved.pop(frame.queue, None)
        self.watcher.reporter.close(frame.queue)

    def _interest(self, frame: Interest) -> None:
        hosted = self.queues.get(frame.queue)
        now_us = self.watcher.now_us
        if hosted is None or not hosted.dispatcher.has_consumers():
            self._starved.pop(frame.queue, None)
        elif frame.interested:
            since = self._starved.pop(frame.queue, 0)
            if since:
                self.watcher.saw("credit_stall", queue=frame.queue, value=now_us - since)
        elif hosted.state.available.count > hosted.dispatcher.taken.count:
            self._starved[frame.queue] = now_us

    def _delivered(self, frame: Deliver) -> None:
        if not frame.redelivered:
            return
        positions = [p for first, last in pairs(frame.ranges) for p in range(first, last + 1)]
        again: list[list[int]] = []  # first, last, times
        for index, times in pairs(frame.redelivered):
            position = positions[index]
            if again and again[-1][1] == position - 1 and again[-1][2] == times:
                again[-1][1] = position
            elif len(again) < SIGHTS_A_FRAME:
                again.append([position, position, times])
        for first, last, times in again:
            self.watcher.saw("redelivery", queue=frame.queue, first=first, last=last, value=times)


_LOOKS: dict[type[Frame], Callable[[ReportingReplica, Any], None]] = {
    Deliver: ReportingReplica._delivered,
    Interest: ReportingReplica._interest,
    Forget: ReportingReplica._forgotten,
}  # pyright: ignore[reportPrivateUsage]


_WIRING = (DeclareQueue, DeleteQueue, Lost, DeclareExchange, DeleteExchange, Bind, Unbind)


class ReportingBroker(BrokerMachine):
    """A broker that reports to the tap. Arguments as `BrokerMachine`."""

    def __init__(self, broker: str, inc: int, *arguments: Any, **options: Any) -> None:
        super().__init__(broker, inc, *arguments, **options)
        self.watcher = _Watcher(broker, broker, inc)
        self._held_since_us = 0
        self._address = ""

    def step(self, input: Input) -> list[Effect]:
        watcher = self.watcher
        if watcher.input(input):
            return watcher.reporter.take()
        effects = super().step(input)
        if type(input) is Flush:
            if self.transfers.paused != bool(self._held_since_us):
                self._held()
            watcher.reporter.flush(self.now_ms)  # gathered facts leave at a later flush: there is one every heartbeat
            if watcher.reporter.effects:
                effects = effects + watcher.reporter.take()
        elif type(input) is Members:
            self._placed(input.addresses.get(self.broker, ""))
        return effects

    def _placed(self, address: str) -> None:
        """Clients are told the address of this broker."""
        if address and address != self._address:
            self._address = address
            self.watcher.saw("address", inc=self.inc, detail=address)

    def _held(self) -> None:
        """The broker has stopped or resumed reading from its clients (`sequencer.md` S8)."""
        if self.transfers.paused:
            self._held_since_us = self.watcher.now_us
            self.watcher.saw("flow_on")
        else:
            self.watcher.saw("flow_off", value=self.watcher.now_us - self._held_since_us)
            self._held_since_us = 0

    def _applied(self, index: int, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        watcher = self.watcher
        effective = outcome.changed or type(event) not in _WIRING
        queue = outcome.queue.id if outcome.queue is not None else ""
        fact = EventFact(entry.seq, entry.ballot[0], watcher.now_us, entry.event, effective, queue=queue)
        watcher.term, watcher.seq = entry.ballot[0], entry.seq
        watcher.reporter.note(CLUSTER, watcher.journal(CLUSTER, index), encode_fact(fact))
        super()._applied(index, entry, event, outcome)

    def send(self, peer: str, frame: Frame) -> None:
        if type(frame) is Opened:
            self.watcher.saw("connect", client=self.sessions[peer].client, inc=self.inc)
        super().send(peer, frame)

    def _end(self, session: Session, code: str = "", text: str = "") -> None:
        if session.client:
            self.watcher.saw("disconnect", client=session.client, inc=self.inc, detail=code)
        super()._end(session, code, text)

    def report(self) -> dict[str, Any]:
        return super().report() | self.watcher.reporter.report()
