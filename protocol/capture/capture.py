"""Capture: the observers of brokers and queue replicas that report to the tap, the event table's sources.

Facts are of events that are committed and applied, so a new sequencer changes nothing here: its term goes on in the
same streams under the next indexes. Of what is not in a stream, a process tells its own *observations*. One `Reporter`
keeps all of them, and is the companion that talks with the tap.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from ..broker.observers import BrokerObserver
from ..limits import DEFAULT, Limits
from ..queue.alerts import Alert
from ..queue.applied import PutOff
from ..queue.dispatch import Dispatcher
from ..queue.observers import QueueObserver
from ..queue.state import Applied, QueueState
from ..ranges import pairs
from ..replica.observers import ReplicaObserver
from ..status.machines import BrokerStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.capture_frames import EnqueueFact, EventFact, Observation, encode_fact
from ..wire.deletion_events import Dissolved
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
    Reject,
    Unbind,
    encode_event,
)
from ..wire.queue_frames import Deliver
from ..wiring.wiring import Outcome
from .event_rows import delays_of, fresh_numbers
from .event_table import OBSERVED_KINDS
from .fact_buffer import FactBuffer, Reporter

SIGHTS_A_FRAME = 64
"""At most this many runs of redelivered messages in one delivery are reported one by one."""


def sights(name: str, inc: int) -> str:
    """The stream of one process's own observations; no queue's id begins like that."""
    return f"@{name}#{inc}"


class Capture:
    """The common part of a broker's and a replica's capture.

    Args:
        name, inc: the process's peer name and incarnation.
        broker: the broker it belongs to, or is.
        timing, limits: the cluster's.

    Attributes:
        term, seq: of the last event that was noted.
    """

    def __init__(
        self, name: str, broker: str, inc: int, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT
    ) -> None:
        self.reporter = Reporter(timing, limits)
        self.name = name
        self.broker = broker
        self.inc = inc
        self.term = 0
        self.seq = 0
        self._stream = sights(name, inc)
        self._sights: FactBuffer | None = None

    @property
    def companion(self) -> Reporter:
        return self.reporter

    def observe(self, what: str, broker: str = "", **fields: Any) -> None:
        """Tell an observation of this process."""
        if self._sights is None:
            self._sights = self.reporter.open(self._stream, 0)
        fact = Observation(self.seq, self.term, self.reporter.now_us, what, broker or self.broker, **fields)
        self.reporter.note(self._stream, self._sights, encode_fact(fact))


class ReplicaCapture(Capture, ReplicaObserver):
    """Of one replica, `name`, of `broker`."""

    def hosted(self, state: QueueState, dispatcher: Dispatcher) -> QueueObserver:
        return QueueCapture(self, state, dispatcher)

    def alerted(self, queue: str, alert: Alert) -> None:
        detail = encode_json({"what": alert.what, "threshold": alert.threshold}).decode()
        self.observe("alert_up" if alert.up else "alert_down", queue=queue, value=alert.level, detail=detail)


class QueueCapture(QueueObserver):
    """Of one queue at one replica."""

    def __init__(self, capture: ReplicaCapture, state: QueueState, dispatcher: Dispatcher) -> None:
        self._capture = capture
        self._state = state
        self._dispatcher = dispatcher
        self._giving_us = 0  # since when the lock is on its way to another broker
        self._starved_us = 0  # since when messages wait and no consumer here has credit

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        state, capture = self._state, self._capture
        stream, reporter = state.id, capture.reporter
        buffer = reporter.buffers.get(stream)
        if buffer is None or buffer.end != index - 1:
            buffer = reporter.behind(stream, index - 1, state.alternate)
            buffer.bytes = state.bytes
            if type(event) is Enqueue and done.positions:
                buffer.bytes -= _bytes(event, done)
        size = state.bytes
        term = entry.ballot[0]
        now_us = reporter.now_us
        if type(event) is Enqueue:
            first, last = done.positions[0] if done.positions else (0, 0)
            if first:
                low, high = fresh_numbers(event, last - first + 1)
                came = size - buffer.bytes if not done.dropped else _bytes(event, done)
                fact = EnqueueFact(
                    entry.seq, term, now_us, event.client, low, high, first, last, came, done.dropped, done.aside,
                    bool(state.batches.dissolved), delays_of(event, first, last) if event.delays else [],
                )  # fmt: skip
            else:
                bare = Enqueue(event.client, event.numbers, [])
                fact = EventFact(entry.seq, term, now_us, encode_event(bare), False)
        else:
            fact = EventFact(entry.seq, term, now_us, entry.event, done.effective, done.positions, done.lost)
            if done.dropped or done.aside:
                fact = replace(fact, dropped=done.dropped, aside=done.aside)
            if isinstance(done, PutOff):
                fact = replace(fact, waits=done.waits)
            if type(event) is Reject and buffer.alternate != state.alternate:
                fact = replace(fact, alternate=state.alternate)
        buffer.bytes = size
        capture.term, capture.seq = term, entry.seq
        reporter.note(stream, buffer, encode_fact(fact))
        if type(event) is Own and entry.origin == capture.name and entry.inc == capture.inc:
            self._handed_over(event, done)
        near = bool(self._dispatcher.subscriptions)
        if near != buffer.near:
            reporter.near(stream, buffer, near)

    def handing_over(self, broker: str) -> None:
        if broker and broker != self._capture.broker:
            self._giving_us = self._capture.reporter.now_us

    def _handed_over(self, event: Own, done: Applied) -> None:
        """This process's own hand-over is applied."""
        since_us, self._giving_us = self._giving_us, 0
        if since_us and done.effective:
            capture = self._capture
            capture.observe(
                "hand_over", event.broker, queue=self._state.id, grant=event.grant,
                value=capture.reporter.now_us - since_us, detail=capture.broker,
            )  # fmt: skip

    def interest(self, shown: bool) -> None:
        now_us = self._capture.reporter.now_us
        if not self._dispatcher.has_consumers():
            self._starved_us = 0
        elif shown:
            since_us, self._starved_us = self._starved_us, 0
            if since_us:
                self._capture.observe("credit_stall", queue=self._state.id, value=now_us - since_us)
        elif self._state.available.count > self._dispatcher.taken.count:
            self._starved_us = now_us

    def delivered(self, frame: Deliver) -> None:
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
            self._capture.observe("redelivery", queue=frame.queue, first=first, last=last, value=times)

    def gone(self) -> None:
        self._capture.reporter.close(self._state.id)


def _bytes(event: Enqueue, done: Applied) -> int:
    """Of the messages that an enqueue has brought: of a partly repeated one those are the last."""
    first, last = done.positions[0]
    return sum(map(len, event.blobs[first - last - 1 :]))


_WIRING = (DeclareQueue, DeleteQueue, Dissolved, Lost, DeclareExchange, DeleteExchange, Bind, Unbind)


class BrokerCapture(Capture, BrokerObserver):
    """Of one broker."""

    def __init__(self, broker: str, inc: int, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT) -> None:
        super().__init__(broker, broker, inc, timing, limits)
        self._paused_us = 0
        self._pressed_us = 0
        self._address = ""

    def applied(self, index: int, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        reporter = self.reporter
        effective = outcome.changed or type(event) not in _WIRING
        queue = outcome.queue.id if outcome.queue is not None else ""
        self.term, self.seq = entry.ballot[0], entry.seq
        fact = EventFact(entry.seq, self.term, reporter.now_us, entry.event, effective, queue=queue)
        reporter.note(CLUSTER, reporter.behind(CLUSTER, index - 1), encode_fact(fact))

    def client_opened(self, client: str) -> None:
        self.observe("connect", client=client, inc=self.inc)

    def client_ended(self, client: str, code: str) -> None:
        self.observe("disconnect", client=client, inc=self.inc, detail=code)

    def reading_paused(self, paused: bool) -> None:
        now_us = self.reporter.now_us
        if paused:
            self._paused_us = now_us
            self.observe("flow_on")
        else:
            self.observe("flow_off", value=now_us - self._paused_us)

    def store_opened(self, before: int, blank: bool, entries: int, took_ms: int) -> None:
        detail = encode_json({"before": before, "blank": blank, "entries": entries}).decode()
        self.observe("store_opened", inc=self.inc, value=took_ms * 1000, detail=detail)

    def store_happened(self, what: str, queue: str, value: int, detail: str) -> None:
        if what in OBSERVED_KINDS:
            self.observe(what, inc=self.inc, queue=queue, value=value, detail=detail)

    def disk_pressed(self, pressed: bool) -> None:
        now_us = self.reporter.now_us
        if pressed:
            self._pressed_us = now_us
            self.observe("disk_full", inc=self.inc)
        else:
            self.observe("disk_free", inc=self.inc, value=now_us - self._pressed_us)

    def report(self, status: BrokerStatus) -> None:
        status.facts, status.facts_dropped = self.reporter.kept, self.reporter.dropped

    def members_moved(self, addresses: dict[str, str]) -> None:
        address = addresses.get(self.broker, "")
        if address and address != self._address:
            self._address = address
            self.observe("address", inc=self.inc, detail=address)
