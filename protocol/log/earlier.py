"""The lives that have kept a log: by them an old copy of it is known, whoever has opened it since.

Others note which life of a voter has returned with its log last (`Return`). A log that this life has kept holds all
that it has acknowledged. A copy from before it does not, and a life that opens the copy and ends before it is told so
changes nothing of that: so a log says all the lives that have kept it, and not the last one only (`durable.md` S10).
"""

from __future__ import annotations

from ..wire.log_frames import LogReport, Promise

MOST_LIVES = 256
"""So many are kept. Where more have come and gone without a word from the others, those in the middle are left out: if
one of them is the last that returned, the log is taken for an old copy, and its voter comes back by an update."""


def lives_since(returned: int, lives: list[int]) -> list[int]:
    """Of the `lives` that have kept a log, rising, those that may have returned last: `returned` is the last one that
    the log itself knows of."""
    since = [life for life in lives if life >= returned]
    return since if len(since) <= MOST_LIVES else [since[0], *since[1 - MOST_LIVES :]]


def life_of(frame: LogReport | Promise) -> int:
    """Incarnation of the process that speaks. A member before 3 does not say it: no log there outlives its process."""
    return frame.life or frame.log_inc


def is_old(frame: LogReport | Promise, lives: dict[str, int]) -> bool:
    """Whether a log is a copy from before a life of its voter that has returned with it: what that one has promised and
    acknowledged is missing in it (`durable.md` S10). That later lives have kept the copy makes it no younger.

    Args:
        lives: voter -> the life that joined, rejoined or returned last.
    """
    latest = lives.get(frame.voter if isinstance(frame, LogReport) else frame.broker, 0)
    if frame.blank or not frame.opened or latest == life_of(frame):
        return False
    earlier = frame.earlier or [frame.opened]
    return latest > earlier[0] and latest not in earlier
