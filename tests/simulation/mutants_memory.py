"""Bugs of the memory watermark, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.memory import MemoryWatch
from mantamq.protocol.resident import ResidentTeller
from mantamq.protocol.sequencer.backlog import Backlog
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_replicas_have_is_not_counted(patch: Patch) -> None:
    patch.setattr(MemoryWatch, "heard", lambda self, peer, frame: None)


def memory_is_let_go_at_the_watermark(patch: Patch) -> None:
    """Not below nine tenths of it: flow control would go on and off all the time."""
    made = MemoryWatch.__init__

    def begun(self: Any, outbox: Any, cluster: Any, limits: Any, *more: Any) -> None:
        made(self, outbox, cluster, replace(limits, memory_resume=1.0), *more)

    patch.setattr(MemoryWatch, "__init__", begun)


def who_has_too_much_is_spared(patch: Patch) -> None:
    """As one whose disk is full is, after a while: its copies grow on."""
    memory = Backlog.memory

    def spared(self: Any, member: str, why: str) -> None:
        memory(self, member, why if len(self.crowded) < 1 else "")

    patch.setattr(Backlog, "memory", spared)


def memory_that_is_free_again_is_not_told(patch: Patch) -> None:
    say = MemoryWatch._say

    def silent(self: Any) -> None:
        if self._said and not self._cluster.crowded:
            self._said = ""
        else:
            say(self)

    patch.setattr(MemoryWatch, "_say", silent)


def a_process_that_has_less_again_does_not_say_so(patch: Patch) -> None:
    """Its broker goes by what it once had."""
    news = ResidentTeller.news

    def grown(self: Any, input: Any) -> Any:
        return news(self, input) if input.resident_bytes > self.told_bytes else None

    patch.setattr(ResidentTeller, "news", grown)


ALL = planted(globals())
