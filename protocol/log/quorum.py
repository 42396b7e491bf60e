"""A stream's voters: their majorities, and how a committed `Member` event changes them.

The change is a place in the log: entries up to the event itself are committed by a majority of the voters before it,
entries behind it by a majority of those after. A change begins only when the one before is committed, and neighbouring
sets of voters differ by one, so a recovering sequencer that asks a quorum of each of the last two meets every commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..wire.events import Member


def majority(voters: Sequence[str]) -> int:
    return len(voters) // 2 + 1


def recovery_quorum(voters: Sequence[str]) -> int:
    """How many voters' logs must be known so that every majority has one of them."""
    return len(voters) - len(voters) // 2


def change(voters: list[str], event: Member) -> None:
    """Carry a change out, in place; it has no effect the second time."""
    if event.present and event.broker not in voters:
        voters.append(event.broker)
    elif not event.present and event.broker in voters:
        voters.remove(event.broker)


def held_by_majority(voters: Sequence[str], held: dict[str, int]) -> int:
    """The index up to which a majority holds the log. `held`: voter -> index, of those whose acknowledgements count."""
    if not voters:
        return 0
    return sorted((held.get(voter, 0) for voter in voters), reverse=True)[len(voters) // 2]
