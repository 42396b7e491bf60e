"""A queue that takes each message id once within a window: what comes again under one that is known does not come in.

It is decided message by message as the stream is applied, before the limits of the queue, so it is the same on every
replica, and does not depend on how messages were gathered on their way. A duplicate has come and gone at once, and
taken a position, as a refused message does; its sender hears that it is complete. An id is known from when a message
with it came in; a message that was refused has not, and a duplicate does not make its id known for longer.

What is moved to this queue by its name, or redriven, comes in all the same: its id may be known since it was here
before itself, and it is nowhere else any more. Its id comes in a list then.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..wire.events import Enqueue, Event
from .applied import Applied
from .refusing import Limit
from .settings import QueueSettings
from .state import QueueState
from .state_policy import Rule, one_by_one
from .traits import id_of, trait_of, with_id


class Deduplication:
    """Args: limit, of the queue, if it refuses messages."""

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def __init__(self, state: QueueState, settings: QueueSettings, limit: Limit | None = None) -> None:
        self._state, self._limit = state, limit
        self._window_ms = settings.dedupe_window_s * 1000
        self._most = settings.dedupe_most
        self._kind = trait_of(settings)

    def applied(self, event: Any, done: Applied, /) -> None:
        """It has followed from the event already."""

    def restored(self) -> None:
        """The ids are part of the state."""

    def around(self, rule: Rule) -> Rule:
        """The rule, for the messages whose ids are not known."""
        known = self._state.ids
        each = one_by_one(lambda message: self._one(rule, message))

        def enqueue(event: Enqueue) -> Applied:
            if self._all_repeated(event):
                return rule(self._inner(event))
            known.passed(event.at_ms, self._window_ms)
            ids = [id for id in self._ids(event) if id is not None]
            if self._repeated(event) or _named(ids) or not known.none_of(ids):
                return each(event)
            inner = self._inner(event)
            if self._limit is not None and not self._limit.admits(inner):
                return each(event)
            done = rule(inner)
            known.came(ids, self._most)
            return done

        return enqueue

    def _all_repeated(self, event: Enqueue) -> bool:
        return event.client != "" and (not event.numbers or event.numbers[-1] <= self._state.numbers.last(event.client))

    def _repeated(self, event: Enqueue) -> bool:
        """Whether any of it has been applied before, by its numbers."""
        return event.client != "" and (not event.numbers or event.numbers[0] <= self._state.numbers.last(event.client))

    def _one(self, rule: Rule, message: Enqueue) -> Applied:
        state = self._state
        if self._repeated(message):
            return rule(self._inner(message))
        (id,) = self._ids(message)
        if named := isinstance(id, list):
            (id,) = id
        is_known = id is not None and id in state.ids
        if is_known and not named:
            return self._duplicate(message)
        refused = state.refused
        done = rule(self._inner(message))
        if id is not None and not is_known and state.refused == refused:
            state.ids.came([id], self._most)
        return done

    def _duplicate(self, message: Enqueue) -> Applied:
        state, position = self._state, self._state.next_position
        state.next_position += 1
        state.enqueued += 1
        state.discarded += 1
        state.tallies.duplicates += 1
        if message.client:
            state.numbers.note(message.client, message.numbers[0])
        return Applied(positions=[(position, position)], dropped=[(position, position, False)])

    def _ids(self, event: Enqueue) -> list[Any]:
        """By what each message's id is known, or None; in a list where the queue is named."""
        carried = event.traits
        if len(carried) != len(event.blobs):  # from a broker that had no traits for it
            return list(map(id_of, event.blobs))
        return carried if self._kind is None else [id for _, id in carried]

    def _inner(self, event: Enqueue) -> Enqueue:
        """The same with what the queue's kind must know of each message alone."""
        kind = self._kind
        if kind is None:
            return event
        if len(event.traits) != len(event.blobs):
            event = replace(event, traits=list(map(with_id(kind), event.blobs)))
        return replace(event, traits=[trait for trait, _ in event.traits])


def _named(ids: list[Any]) -> bool:
    return any(type(id) is list for id in ids)
