"""What a queue knows of what has come before, in its snapshot: its clients' numbers, those it refused, message ids."""

from __future__ import annotations

from typing import Any, Protocol

from .duplicates import LastNumbers
from .known_ids import KnownIds
from .refused_numbers import RefusedNumbers
from .snapshot import QueueSnapshot


class Knowing(Protocol):
    """A queue's state."""

    numbers: LastNumbers
    refusals: RefusedNumbers
    ids: KnownIds


def told(state: Knowing) -> dict[str, Any]:
    """As fields of a snapshot."""
    return {"numbers": state.numbers.table(), "refusals": state.refusals.table(), **state.ids.told()}


def assigned(state: Knowing, snapshot: QueueSnapshot) -> None:
    """Take over what was told."""
    state.numbers = LastNumbers(table=snapshot.numbers)
    state.refusals = RefusedNumbers(snapshot.refusals)
    state.ids.assign(snapshot.ids, snapshot.id_times)
