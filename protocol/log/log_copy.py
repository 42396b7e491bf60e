"""A log as its disk has it, without the disk: what a process that comes back with its log is given."""

from __future__ import annotations

from typing import NamedTuple

from ..wire.events import Ballot, Entry, Member, decode_event
from ..wire.log_frames import Numbers
from .keeper import Keeper


class LogCopy(NamedTuple):
    """The log of one stream at one voter.

    Attributes:
        life: under which it was kept.
        log_inc: its incarnation.
        blank: it did not vote: its keeper comes back blank.
        promised: the highest ballot that was promised.
        commit: up to where it is known as committed; the tables are as of there.
        base, base_ballot, base_seq: the last entry that is forgotten.
        log: the entries behind it.
        numbers, over, incs, lives, voters: as in `LogReport`.
    """

    life: int
    log_inc: int
    blank: bool
    promised: Ballot
    commit: int
    base: int
    base_ballot: Ballot
    base_seq: int
    log: list[Entry]
    numbers: Numbers
    over: dict[str, int]
    incs: dict[str, int]
    lives: dict[str, int]
    voters: list[str]


def recover_log(keeper: Keeper, kept: LogCopy) -> None:
    """Go on with the log of an earlier life: K4 does not apply, since nothing is forgotten."""
    keeper.log_inc, keeper.opened, keeper.stored = kept.log_inc, kept.life, True
    keeper.promise(kept.promised)
    keeper.commit, keeper.base = kept.commit, kept.base
    keeper.end = kept.base + len(kept.log)
    keeper._base_ballot, keeper._base_seq = kept.base_ballot, kept.base_seq
    keeper._log = dict(enumerate(kept.log, kept.base + 1))
    keeper.end_ballot, keeper.end_seq = keeper.place(keeper.end)
    keeper.numbers, keeper.over = dict(kept.numbers), dict(kept.over)
    keeper.incs, keeper.lives, keeper.voters = dict(kept.incs), dict(kept.lives), list(kept.voters)
    for index in range(keeper.commit + 1, keeper.end + 1):
        if _changes_voters(keeper._log[index]):
            keeper._change = index


def _changes_voters(entry: Entry) -> bool:
    return not entry.origin and type(decode_event(entry.event)) is Member
