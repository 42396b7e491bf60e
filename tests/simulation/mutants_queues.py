"""Bugs of durable queues, planted on purpose, as in `mutants.py`; looked for in stories whose brokers have stores."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.replica.update import Updater
from mantamq.protocol.stored.replica import StoredReplicaMachine
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def log_of_an_earlier_life_is_not_read(patch: Patch) -> None:
    """A queue that comes back begins with nothing, and votes as if it had never had anything."""
    found = StoredReplicaMachine._found

    def forgets(self: Any, taken: Any, history: Any, loaded: Any) -> None:
        found(self, replace(taken, last=0, opened=0), None, loaded)

    patch.setattr(StoredReplicaMachine, "_found", forgets)


def an_update_lacks_what_is_consumed_meanwhile(patch: Patch) -> None:
    """Also of a queue that must know its messages to say which go."""
    begins = Updater.__init__

    def bare(self: Any, state: Any, *rest: Any) -> None:
        begins(self, state, *rest)
        self._blobs = state.blobs

    patch.setattr(Updater, "__init__", bare)


ALL = planted(globals())
