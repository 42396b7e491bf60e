"""Tells a broker what a queue has made of the enqueues that the broker has asked for: an observer of a queue that may
refuse messages or hold producers back.

What has come in, if only in part, is told when the queue holds nobody back: until then it is kept here. That is lost
with this process, and when an update overtakes what was to be applied; then the broker is asked for what it waits for,
and is answered by the state.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..queue.applied import Applied
from ..queue.named_senders import is_named
from ..queue.observers import QueueObserver
from ..queue.origins import NOBODY, client_in
from ..queue.state import QueueState
from ..ranges import pairs, size
from ..wire.events import AnyEvent, Enqueue, Entry
from ..wire.verdict_frames import Judge, Judged
from .outbox import QueueOutbox

PRODUCES_MS = 1_000
"""So long behind its last enqueue a broker counts as one with producers."""


class VerdictTeller(QueueObserver):
    """Args, and attributes: destroys: the queue destroys itself when it would refuse a message."""

    def __init__(self, state: QueueState, outbox: QueueOutbox, destroys: bool = False) -> None:
        self.destroys = destroys
        self._told_over = False
        self._state = state
        self._outbox = outbox
        self._broker = outbox.broker
        self._stopped = False  # as the broker has been told
        self._until_ms = 0
        # (incarnation, number) of the requests that are not told -> what of them is refused.
        self._held: dict[tuple[int, int], list[int]] = {}

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        if type(event) is Enqueue and entry.origin == self._broker:
            self._until_ms = self._outbox.now_ms + PRODUCES_MS
            self._judge(entry.inc, entry.number, event.client, event.numbers)
        stopped = self._state.flow_stopped
        # A broker without producers need not know that it would hold them back.
        if (self._stopped or self._held) if not stopped else not self._stopped and self.expected():
            self._turned()
        if self.destroys and not self._told_over and self._destroyed():
            self._say(Judged(self._state.id, self._outbox.inc, stopped=self._stopped))

    def expected(self) -> bool:
        """Whether the broker has producers here, to go by the last second: this replica is then told of each commit at
        once."""
        return self._outbox.now_ms < self._until_ms

    def _judge(self, inc: int, number: int, client: str, numbers: list[int]) -> None:
        refused = self._refused(client, numbers)
        # From another queue: no producer is to be held back by it.
        moved = client_in(client) == NOBODY and not is_named(client)
        if self._state.flow_stopped and size(refused) < size(numbers) and not moved:
            self._held[inc, number] = refused
        else:
            self._say(Judged(self._state.id, inc, [number], [refused], self._state.flow_stopped))

    def _refused(self, client: str, numbers: list[int]) -> list[int]:
        within = self._state.refusals.within
        return [edge for first, last in pairs(numbers) for part in within(client, first, last) for edge in part]

    def _turned(self) -> None:
        """The queue begins to hold its producers back, or lets them go on."""
        if self._state.flow_stopped:
            self._say(Judged(self._state.id, self._outbox.inc, stopped=True))
            return
        held, self._held = self._held, {}
        for inc in dict.fromkeys([self._outbox.inc, *(inc for inc, _ in held)]):
            numbers = [number for at, number in held if at == inc]
            self._say(Judged(self._state.id, inc, numbers, [held[inc, number] for number in numbers]))

    def judge(self, frame: Judge) -> None:
        """The broker asks; of what is not applied yet it will be told."""
        last = self._state.numbers.last
        for number, client, numbers in frame.asked:
            if numbers and numbers[-1] <= last(client) and (frame.inc, number) not in self._held:
                self._judge(frame.inc, number, client, numbers)
        self._say(Judged(self._state.id, frame.inc, stopped=self._state.flow_stopped))

    def restored(self) -> None:
        """The state is another one."""
        self._held = {}
        self._say(Judged(self._state.id, self._outbox.inc, stopped=self._state.flow_stopped, again=True))

    def _say(self, frame: Judged) -> None:
        if self.destroys and self._destroyed():
            self._told_over = True
            frame = replace(frame, over=True)
        self._stopped = frame.stopped
        self._outbox.send(self._broker, frame)

    def _destroyed(self) -> bool:
        return self._state.refused > self._state.configured.refused
