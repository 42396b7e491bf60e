"""What a broker has asked the sequencer to order, and what each answer completes (`sequencer.md` B1, B2).

Nothing completes before its answer. A wiring request completes with the outcome that its event had in the wiring here:
the sequencer answers when every connected broker shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import UNAVAILABLE
from ..log.outbox import FollowerOutbox
from ..log.submitter import Submitter
from ..wire.events import CLUSTER, AnyEvent, Entry, encode_event
from ..wire.log_frames import Results
from ..wiring.wiring import Outcome

Done = Callable[[], None]
UNSEEN = Outcome(UNAVAILABLE, "committed, but this broker was cut off before it saw how: ask again")
"""Of a wiring event that has not applied here yet."""


class Requests:
    """Args:
        outbox: where requests are said.
        submitter: numbers them, and keeps them until they are answered.
        in_step: calls what it is given once all of the wiring that this broker has been told of has applied here.
        completed: called when all that one frame answers has been dealt with.

    Attributes:
        submitter: as given.
    """

    def __init__(
        self, outbox: FollowerOutbox, submitter: Submitter, in_step: Callable[[Done], None], completed: Done
    ) -> None:
        self.submitter = submitter
        self._outbox = outbox
        self._in_step = in_step
        self._completed = completed
        self._waiting: dict[int, Done] = {}  # request number -> what its answer completes
        self._outcomes: dict[int, Outcome] = {}  # wiring requests of this broker that have applied here

    def request(self, parts: list[tuple[str, bytes]], done: Done) -> int:
        """Ask the sequencer to order events; `done` is called when they are committed. Returns the number."""
        request = self.submitter.request(parts)
        self._waiting[request.number] = done
        self._outbox.lead(request)
        return request.number

    def order(self, event: AnyEvent, done: Callable[[Outcome], None]) -> None:
        """Order a wiring event; `done` gets its outcome once every connected broker shows it."""

        def answered() -> None:
            done(self._outcomes.pop(number, UNSEEN))

        number = self.request([(CLUSTER, encode_event(event))], answered)

    @property
    def idle(self) -> bool:
        """Nothing that was asked for waits for an answer, nor for what its answer completes."""
        return not self._waiting

    def answered(self, peer: str, frame: Results) -> None:
        """An answer stands behind all of the wiring that was complete before it, and that may be on its way to the disk
        here (K5): a queue that has taken a request, or a deleted one that never will."""
        self._in_step(partial(self._answer, frame))

    def _answer(self, frame: Results) -> None:
        for request in self.submitter.answered(frame):
            self._waiting.pop(request.number)()
        self._completed()

    def applied(self, entry: Entry, outcome: Outcome) -> None:
        """An event of the cluster stream has applied here; if this broker asked for it, its answer may complete."""
        ours = entry.origin == self.submitter.origin and entry.inc == self.submitter.inc
        if ours and entry.number in self._waiting:  # it may have been answered before
            self._outcomes[entry.number] = outcome

    def attached(self) -> None:
        """A sequencer has begun to lead: ask again what has no answer (B1)."""
        for request in self.submitter.unanswered.values():
            self._outbox.lead(request)
