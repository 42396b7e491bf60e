"""Who votes in a stream: majorities, and how a committed `Member` event changes them.

The change is a place in the log: what is before it, and the event itself, a majority of the voters before commits, what
is behind it a majority of those after. Since a change begins only when the one before is committed, and two neighbours
differ by one, whoever recovers asks a quorum of the last two, and has met every commit.
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
    """Carry a change out, in place. One that is carried out already changes nothing."""
    if event.present and event.broker not in voters:
        voters.append(event.broker)
    elif not event.present and event.broker in voters:
        voters.remove(event.broker)


def held_by_majority(voters: Sequence[str], held: dict[str, int]) -> int:
    """Up to which index a majority holds the log. `held`: voter -> index, of those whose word counts."""
    if not voters:
        return 0
    return sorted((held.get(voter, 0) for voter in voters), reverse=True)[len(voters) // 2]
