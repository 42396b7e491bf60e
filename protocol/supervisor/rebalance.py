"""When processes that are astray (`layout.py`) are moved, one after the other, while nothing is missing.

    whole for a while -> a new broker joins on the emptiest host -> it has everything -> one of the fullest host leaves

So nothing has fewer copies at any time. The next supervisor is left the name of the moving broker, with the change of
members that may be under way.
"""

from __future__ import annotations

from collections.abc import Collection

from ..timing import DEFAULT_TIMING, Timing

WAIT, LEAVE, DONE = "wait", "leave", "done"


class Rebalance:
    """The wait of one supervisor before it moves a process."""

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._settled_ms = timing.settled_ms
        self._since_ms = -1  # since when the cluster is whole and a process astray; -1: it is not so

    def ripe(self, now_ms: int, astray: bool, whole: bool, wanted: bool = False) -> bool:
        """Whether a process may be moved now.

        Args:
            astray: a process is.
            whole: nothing is missing anywhere.
            wanted: the move was asked for, so there is no wait.
        """
        if not astray or not whole:
            self._since_ms = -1
            return False
        if self._since_ms < 0:
            self._since_ms = now_ms
        if now_ms - self._since_ms < self._settled_ms and not wanted:
            return False
        self._since_ms = -1
        return True


def onwards(moving: tuple[str, int], members: Collection[str], changing: bool, whole: bool) -> str:
    """The next step for a broker that is to leave when another has joined.

    Args:
        moving: that broker, and the number of members there are to be.
        changing: a change of the members is under way.
        whole: nothing is missing anywhere.

    Returns:
        WAIT; LEAVE: it leaves now; DONE: it has left, or no other broker has joined.
    """
    broker, count = moving
    if changing:
        return WAIT
    if broker not in members or len(members) <= count:
        return DONE
    return LEAVE if whole else WAIT
