"""What a queue knows of what has come before, in its snapshot: numbers of clients, those it refused, named senders, and
message ids."""

from __future__ import annotations

from typing import Any, Protocol

from .duplicates import LastNumbers
from .known_ids import KnownIds
from .named_senders import NamedSenders
from .refused_numbers import RefusedNumbers
from .snapshot import QueueSnapshot


class Knowing(Protocol):
    """A queue's state."""

    numbers: LastNumbers
    refusals: RefusedNumbers
    ids: KnownIds
    named: NamedSenders


def told(state: Knowing) -> dict[str, Any]:
    """As fields of a snapshot."""
    return {
        "numbers": state.numbers.table(),
        "refusals": state.refusals.table(),
        **state.ids.told(),
        **state.named.told(),
    }


def assigned(state: Knowing, snapshot: QueueSnapshot) -> None:
    """Take over what was told."""
    state.named.assign(snapshot.named, snapshot.holders)
    state.numbers = LastNumbers(table=snapshot.numbers, named=state.named)
    state.refusals = RefusedNumbers(snapshot.refusals)
    state.ids.assign(snapshot.ids, snapshot.id_times)
