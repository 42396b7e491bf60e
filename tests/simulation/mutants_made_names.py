"""Bugs of queues without a name, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from itertools import count

import pytest
from mantamq.protocol.broker import management
from mantamq.protocol.broker.made_names import MADE

from .planting import planted

Patch = pytest.MonkeyPatch


def who_asks_again_gets_another_name(patch: Patch) -> None:
    named, numbers = management.named, count(1)

    def anew(name: str, fresh: str, there: bool) -> str:
        return named(name, fresh, there) + (f"-{next(numbers)}" if fresh else "")

    patch.setattr(management, "named", anew)


def names_are_made_of_too_little(patch: Patch) -> None:
    named = management.named
    patch.setattr(management, "named", lambda name, fresh, there: named(name, fresh, there)[: len(MADE) + 1])


ALL = planted(globals())
