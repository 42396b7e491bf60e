"""Bugs of selectors, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.protocol.broker import receivers
from mantamq.protocol.queue import selector
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.selection import Looks, Selection
from mantamq.protocol.replica import consumers
from mantamq.protocol.wire.client_frames import AttachReceiver
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_not_known_is_not_false(patch: Patch) -> None:
    """NOT of what is unknown is true."""

    def inverse(node: Any) -> Any:
        reading = selector._compiled(node)
        return lambda properties, header: reading(properties, header) is not True

    patch.setitem(selector._RULES, "negation", inverse)
    for user in (consumers, receivers):  # what is remembered of a text would outlive the patch
        patch.setattr(user, "selector", selector.selector.__wrapped__)


def the_next_broker_is_not_told_of_selectors(patch: Patch) -> None:
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        for handle, frame in self._frames.items():
            if isinstance(frame, AttachReceiver):
                self._frames[handle] = replace(frame, selector="")
        resume(self)

    patch.setattr(Conversation, "_resume", forgetful)


def what_came_back_is_passed_over(patch: Patch) -> None:
    """A consumer with a selector looks at what comes back no more."""
    patch.setattr(Selection, "back", lambda self, place, positions: place)


def what_came_back_is_known_already(patch: Patch) -> None:
    """What had been passed, or given, is not offered again."""
    back = Selection.back

    def known(self: Any, place: Any, positions: Any) -> Any:
        back(self, place, positions)
        for first, last in positions:
            place.passed.add(first, last)
        return place

    patch.setattr(Selection, "back", known)


def who_has_no_look_left_is_done(patch: Patch) -> None:
    """Nobody says that there is more to look at."""
    patch.setattr(Looks, "short", property(lambda self: False, lambda self, short: None))


def who_wants_nothing_that_waits_keeps_the_lock(patch: Patch) -> None:
    patch.setattr(Dispatcher, "_may_have", lambda self, subscription: True)


def what_is_behind_is_passed_over_as_well(patch: Patch) -> None:
    """The place moves behind all that was offered, wanted or not."""
    look = Selection._look

    def hasty(self: Any, place: Any, first: int, last: int) -> bool:
        found = look(self, place, first, last)
        if found and place.first > first:
            place.inner = self._order.behind(place.inner, last)
        return found

    patch.setattr(Selection, "_look", hasty)


ALL = planted(globals())
