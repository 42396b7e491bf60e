"""Bugs of receivers with priorities, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.protocol.queue import ranks
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.replica import consumers
from mantamq.protocol.wire.client_frames import AttachReceiver
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def all_consumers_have_the_same_priority(patch: Patch) -> None:
    patch.setattr(consumers, "rank", lambda dispatcher, subscription, priority: None)


def the_lowest_priority_comes_first(patch: Patch) -> None:
    of = ranks._ranks
    patch.setattr(ranks, "_ranks", lambda everybody: of(everybody)[::-1])


def what_a_rank_takes_at_once_is_all_it_gets(patch: Patch) -> None:
    """The next rank is served though the one before has credit left, and there is something for it."""

    def hasty(dispatcher: Any, acquire: bool, numbers: Any) -> Any:
        everybody, delivered, more = dispatcher.subscriptions, [], False
        for served in ranks._ranks(everybody):
            dispatcher.served = served
            found, again = Dispatcher.run(dispatcher, acquire, numbers)
            delivered += found
            more = more or again
        dispatcher.served = everybody
        return delivered, more

    patch.setattr(ranks, "_run", hasty)


def the_next_broker_is_not_told_of_priorities(patch: Patch) -> None:
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        for handle, frame in self._frames.items():
            if isinstance(frame, AttachReceiver):
                self._frames[handle] = replace(frame, priority=0)
        resume(self)

    patch.setattr(Conversation, "_resume", forgetful)


ALL = planted(globals())
