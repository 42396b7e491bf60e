"""Bugs of receivers that want nothing of their own, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.protocol.queue import selection
from mantamq.protocol.queue.origins import NOBODY, Origins
from mantamq.protocol.replica import dead_letters
from mantamq.protocol.wire.client_frames import AttachReceiver
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_its_own_comes_too(patch: Patch) -> None:
    """A broker's replica pays no attention to who sent what."""
    init = selection.Selection.__init__

    def all_that_is_wanted(self: Any, state: Any, order: Any, wanted: Any, looks: Any, own: str = "") -> None:
        init(self, state, order, wanted or (lambda blob: True), looks)

    patch.setattr(selection.Selection, "__init__", all_that_is_wanted)


def who_has_a_selector_gets_its_own_too(patch: Patch) -> None:
    init = selection.Selection.__init__

    def either(self: Any, state: Any, order: Any, wanted: Any, looks: Any, own: str = "") -> None:
        init(self, state, order, wanted, looks, "" if wanted is not None else own)

    patch.setattr(selection.Selection, "__init__", either)


def the_next_broker_is_not_told_of_no_local(patch: Patch) -> None:
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        for handle, frame in self._frames.items():
            if isinstance(frame, AttachReceiver):
                self._frames[handle] = replace(frame, no_local=False)
        resume(self)

    patch.setattr(Conversation, "_resume", forgetful)


def an_update_forgets_who_sent_what(patch: Patch) -> None:
    patch.setattr(Origins, "assign", lambda self, names, runs: Origins.__init__(self))


def dead_letters_are_nobodys(patch: Patch) -> None:
    patch.setattr(dead_letters, "numbered", lambda origins: ([], []))


def the_first_of_a_run_is_of_the_one_before(patch: Patch) -> None:
    def of(self: Any, position: int) -> str:
        at = bisect_left(self._firsts, position)
        return self._names[at - 1] if at else NOBODY

    patch.setattr(Origins, "of", of)


def who_comes_again_is_not_noted(patch: Patch) -> None:
    """Once a client has sent something, what it sends behind others' is theirs."""
    begins = Origins._begins

    def once(self: Any, first: int, origin: str) -> None:
        if origin not in self._names:
            begins(self, first, origin)

    patch.setattr(Origins, "_begins", once)


def what_comes_behind_its_own_is_passed_over(patch: Patch) -> None:
    init = selection.Selection.__init__

    def hasty(self: Any, state: Any, order: Any, wanted: Any, looks: Any, own: str = "") -> None:
        init(self, state, order, wanted, looks, own)
        if own:
            good = self._wanted
            self._wanted = lambda position: good(position) and state.origins.of(position - 1) != own

    patch.setattr(selection.Selection, "__init__", hasty)


ALL = planted(globals())
