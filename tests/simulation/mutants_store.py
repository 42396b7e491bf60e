"""Bugs of stores and of those who write to them, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.log.durability import Durability, Promises
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.store.owners import Owners
from mantamq.store.log.log import Log

from ..store.disks import SimulatedFile
from .stored_voters import StoredVoter

Patch = pytest.MonkeyPatch


def ack_before_flush(patch: Patch) -> None:
    ack = Keeper.ack

    def early(self: Any, *arguments: Any) -> Any:
        durability, self.durability = self.durability, None
        said = ack(self, *arguments)
        self.durability = durability
        return said

    patch.setattr(Keeper, "ack", early)


def apply_before_flush(patch: Patch) -> None:
    appended = Durability.appended

    def early(self: Any, *arguments: Any) -> int:
        appended(self, *arguments)
        return self.known

    patch.setattr(Durability, "appended", early)


def promise_in_memory_only(patch: Patch) -> None:
    def keep(self: Any, ballot: Any) -> None:
        self._asked = self._flushed = max(ballot, self._asked)

    patch.setattr(Promises, "keep", keep)


def pledge_before_flush(patch: Patch) -> None:
    patch.setattr(Promises, "when_kept", lambda self, ballot, answer: answer())


def reported_before_flush(patch: Patch) -> None:
    """A log report, at which a sequencer counts the voter, tells of what is in memory."""
    patch.setattr(Keeper, "_said", lambda self: (self.end, self.end_ballot, self.end_seq))


def fsync_does_nothing(patch: Patch) -> None:
    """As a disk that lies, or a store that forgets to flush."""
    patch.setattr(SimulatedFile, "fdatasync", lambda self: None)


def fsync_error_is_ignored(patch: Patch) -> None:
    sync = Log.sync

    def careless(self: Any) -> None:
        try:
            sync(self)
        except OSError:
            self.error, self.flushed = None, self.end

    patch.setattr(Log, "sync", careless)


def life_is_reused(patch: Patch) -> None:
    """A broker that comes back says that it is the process it was."""
    init = StoredVoter.__init__

    def born(self: Any, broker: str, inc: int, *arguments: Any, **named: Any) -> None:
        init(self, broker, 1, *arguments, **named)

    patch.setattr(StoredVoter, "__init__", born)
    take = Owners.take
    patch.setattr(Owners, "take", lambda self, peer, stream, life, opened: take(self, peer, stream, life, 0))


def a_restarted_log_counts_as_empty(patch: Patch) -> None:
    """A process that comes back votes as if it had its log, and begins with an empty one."""
    patch.setattr(Keeper, "resume", lambda self, history: [])


def a_restarted_log_counts_as_blank(patch: Patch) -> None:
    """A process that comes back with its log waits to be given its vote again."""
    resume = Keeper.resume

    def blank(self: Any, history: Any) -> Any:
        history.blank = True
        return resume(self, history)

    patch.setattr(Keeper, "resume", blank)


OF_SMALL_WORLDS = ("reported_before_flush", "a_restarted_log_counts_as_blank")
"""Looked for where every order of events is tried, and only there."""
ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
