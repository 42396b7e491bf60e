"""Bugs of what consumers say of messages that they give back, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.protocol.queue import delivery_counts
from mantamq.protocol.queue.delivery_counts import DeliveryCounts
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.undeliverable import Without
from mantamq.protocol.replica import consumers, dead_letters
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.wire.client_frames import AttachReceiver
from mantamq.protocol.wire.events import Modify
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def a_modify_always_counts(patch: Patch) -> None:
    release = QueueState._release

    def counting(self: Any, event: Any) -> Any:
        return release(self, replace(event, redelivered=True) if isinstance(event, Modify) else event)

    patch.setattr(QueueState, "_release", counting)


def a_new_note_replaces_all(patch: Patch) -> None:
    modified = DeliveryCounts.modified

    def forgetful(self: Any, positions: Any, annotations: Any) -> None:
        if annotations:
            for first, last in positions:
                for position in range(first, last + 1):
                    self.annotations.pop(position, None)
        modified(self, positions, annotations)

    patch.setattr(DeliveryCounts, "modified", forgetful)


def notes_have_no_end(patch: Patch) -> None:
    patch.setattr(delivery_counts, "_encode", lambda annotations: b"")


def an_update_forgets_notes(patch: Patch) -> None:
    of = DeliveryCounts.of
    patch.setattr(DeliveryCounts, "of", lambda snapshot: of(replace(snapshot, annotations=[])))


def an_update_counts_what_did_not_fail(patch: Patch) -> None:
    of = DeliveryCounts.of
    patch.setattr(DeliveryCounts, "of", lambda snapshot: of(replace(snapshot, uncounted=[])))


def what_is_modified_is_passed_over(patch: Patch) -> None:
    """A message that came back so moves no place back."""
    applied = HostedQueue._applied

    def passing(self: Any, entry: Any, event: Any, done: Any) -> None:
        if isinstance(event, Modify):
            done.positions = []
        applied(self, entry, event, done)

    patch.setattr(HostedQueue, "_applied", passing)


def dead_letters_go_without_their_notes(patch: Patch) -> None:
    noted = dead_letters.piece

    def bare(state: Any, *given: Any) -> Any:
        notes, state.deliveries.annotations = state.deliveries.annotations, {}
        try:
            return noted(state, *given)
        finally:
            state.deliveries.annotations = notes

    patch.setattr(dead_letters, "piece", bare)


def who_did_not_fail_was_never_there(patch: Patch) -> None:
    """A message that came back uncounted says that nobody had it before."""
    column = DeliveryCounts.column

    def counted(self: Any, parts: Any) -> list[int]:
        flat = column(self, parts)
        return [n for index, count in zip(flat[::2], flat[1::2], strict=True) if count for n in (index, count)]

    patch.setattr(DeliveryCounts, "column", counted)


def undeliverable_here_is_given_again(patch: Patch) -> None:
    patch.setattr(consumers, "leave_out", lambda dispatcher, sub, ranges: None)


def what_is_behind_what_is_undeliverable_is_passed_over(patch: Patch) -> None:
    """The place moves behind the whole range in which something is not to be given."""

    def hasty(self: Any, place: Any) -> Any:
        while (found := self._order.next(place.inner)) is not None:
            first, last = found
            if not self.positions.within(first, last):
                return found
            place.inner = self._order.behind(place.inner, last)
        return None

    patch.setattr(Without, "next", hasty)


def the_next_broker_is_not_told_what_is_undeliverable(patch: Patch) -> None:
    write = Conversation._resume

    def forgetful(self: Any) -> None:
        say = self.write
        self.write = lambda frame: say(replace(frame, undeliverable=[]) if isinstance(frame, AttachReceiver) else frame)
        try:
            write(self)
        finally:
            self.write = say

    patch.setattr(Conversation, "_resume", forgetful)


ALL = planted(globals())
