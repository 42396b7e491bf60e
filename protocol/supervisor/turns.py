"""The processes that wait to be replaced, and those that may be replaced at the same time. Pure.

Processes that share a fate take turns: a broker and its replicas, the sequencers, the Ownerships. Others go at once:
after the death of a host its sequencer does not wait until its broker has come back.
"""

from __future__ import annotations

from collections.abc import Collection

from ..machine import EVENTS, MANAGEMENT, OWNERSHIP, SEQUENCER, broker_of, is_ownership, is_sequencer


class Turns:
    """Attributes:
    waiting: processes to be replaced, in the order in which that was known.
    begun: processes that are being replaced now.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, None] = {}
        self.begun: set[str] = set()

    def due(self, but: Collection[str] = ()) -> bool:
        """Whether a process waits to be replaced, or is being replaced. `but`: those that are to wait longer."""
        return bool(self.begun) or any(name not in but for name in self.waiting)

    def __contains__(self, name: str) -> bool:
        return name in self.waiting or name in self.begun

    def add(self, name: str) -> None:
        self.waiting[name] = None

    def drop(self, name: str) -> None:
        """The process need not be replaced any more."""
        self.waiting.pop(name, None)

    def take(self, but: Collection[str] = ()) -> list[str]:
        """Begin the replacements that may begin now, and return them: sequencers first, the tap last.

        Args:
            but: processes that are to wait for another time.
        """
        taken: list[str] = []
        busy = {_fate(name) for name in self.begun}
        for name in sorted(self.waiting, key=_rank):
            if name not in but and _fate(name) not in busy:
                busy.add(_fate(name))
                taken.append(name)
        for name in taken:
            del self.waiting[name]
            self.begun.add(name)
        return taken

    def done(self, name: str) -> None:
        self.begun.discard(name)

    def names(self) -> list[str]:
        """All processes that wait or have begun."""
        return [*self.waiting, *sorted(self.begun.difference(self.waiting))]


def _fate(name: str) -> str:
    if is_sequencer(name):
        return SEQUENCER
    return OWNERSHIP if is_ownership(name) else broker_of(name)


def _rank(name: str) -> tuple[bool, bool, bool, bool]:
    return name in (EVENTS, MANAGEMENT), not is_sequencer(name), not is_ownership(name), "." in name
