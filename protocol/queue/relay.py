"""The queue of an exchange that numbers its messages, or keeps the last: all that comes goes on by itself, in order.

Nobody consumes it. What has come is a batch, on its way as rejected messages are to an alternate exchange; what comes
meanwhile is the next one, which begins when that has left. So there is one batch at most, each is a function of the
stream alone, and no message overtakes another. Any member may send a batch on, several at once: each message goes under
its position as number, of which a queue knows the last, so it comes in once and in order.

That position is its number in the exchange. Of an exchange that keeps the last message, the last one of a batch stays
behind it, and is the first of the next: queues that had it pass over it, and one that was bound since has it first.

A batch goes by the bindings that were made up to `QueueState.wired` of the cluster's stream, whoever sends it and when:
else a queue that is bound in the midst of it would have what the slower of two members sends, and lack the rest. What a
`DeadLetterDone` says of that is true of the next batch (`wired_next`).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ..ranges import RangeSet
from ..wire.events import DeadLetterDone, Enqueue, Event
from ..wire.message import with_property
from .applied import Applied
from .settings import QueueSettings
from .state import QueueState
from .state_policy import Rule

NUMBER = "qpid.msg_sequence"
"""The property in which a message has its number when it goes on."""
AGAIN = 0
"""As a `DeadLetterDone`'s batch: the last message is to go on once more. As one of the state: that is still to be."""


class Addressed(msgspec.Struct, array_like=True, frozen=True):
    """A message as it is there, whatever it is: the broker that took it in, the keys that it was sent with, itself."""

    broker: str
    keys: Annotated[list[str], msgspec.Meta(min_length=1)]
    blob: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Addressed).decode


def addressed(blob: bytes, keys: list[str], broker: str) -> bytes:
    """A message as it goes into such a queue."""
    return _encode(Addressed(broker, keys, blob))


def address(blob: bytes) -> Addressed:
    """What comes from a broker that knows no such queues has the empty key, and is nobody's."""
    try:
        return _decode(blob)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Addressed("", [""], blob)


def as_sent(blob: bytes, number: int) -> bytes:
    """A message as it goes on. Args: number: that it is to have, 0 for none."""
    blob = address(blob).blob
    return with_property(blob, NUMBER, number) if number else blob


class Relay:
    """The policy of such a queue.

    Attributes:
        begun: index of the event that began the last batch here.
    """

    events: tuple[type[Event], ...] = (Enqueue, DeadLetterDone)
    one_by_one = False

    def __init__(self, state: QueueState, settings: QueueSettings) -> None:
        self._state = state
        self._keeps = settings.exchange_initial
        self.begun = 0

    def around(self, rule: Rule) -> Rule:
        """The rule with this policy before and behind it."""

        def rule_and_policy(event: Enqueue | DeadLetterDone) -> Applied:
            state = self._state
            ends = type(event) is DeadLetterDone and event.batch != AGAIN and event.batch in state.batches
            if ends and self._keeps:
                broker, ranges = state.batches[event.batch]  # type: ignore[union-attr]
                state.batches[event.batch] = broker, _but_the_last(ranges)  # type: ignore[union-attr]
            done = rule(event)
            self._follow(event, done, ends)
            return done

        return rule_and_policy

    def applied(self, event: Any, done: Applied, /) -> None:
        """It has followed from the event already."""

    def restored(self) -> None:
        """What is on its way is part of the state."""

    def _follow(self, event: Enqueue | DeadLetterDone, done: Applied, ends: bool) -> None:
        state = self._state
        asked = isinstance(event, DeadLetterDone) and event.batch == AGAIN
        if isinstance(event, DeadLetterDone):
            state.wired_next = max(state.wired_next, event.wired)
        if type(event) is Enqueue:
            for first, last in done.positions:
                state.available.remove(first, last)
                state.dead_lettering.add(first, last)
        elif asked and not (self._keeps and state.dead_lettering):
            return
        under_way = any(index != AGAIN for index in state.batches)
        asked = state.batches.pop(AGAIN, None) is not None or asked
        kept = 1 if self._keeps and ends else 0
        more = state.dead_lettering.count > kept if ends else bool(type(event) is Enqueue and done.positions)
        if under_way:
            if asked:
                state.batches[AGAIN] = "", []
        elif asked or more:
            self._begin(asked)

    def _begin(self, for_all: bool) -> None:
        """All that is here goes on; of what is to reach those that were bound since, every member takes care."""
        state = self._state
        broker = address(state.blobs[state.dead_lettering.last]).broker
        if for_all or broker in state.fence.absent:
            broker = ""
        state.batches[state.index] = broker, state.dead_lettering.flat()
        state.wired = state.wired_next
        self.begun = state.index


def _but_the_last(ranges: list[int]) -> list[int]:
    rest = RangeSet(ranges)
    rest.remove(rest.last, rest.last)
    return rest.flat()
