"""One keeper of a stream, as the sequencer sees it: what it holds, what it has applied, and whether its vote counts."""

from __future__ import annotations

from enum import Enum

from ..errors import LocalError


class KeeperState(Enum):
    """Where a keeper is on its way to a vote that counts (K4)."""

    UPDATING = "updating"
    """The log no longer reaches back to what this keeper lacks. An updater brings it that; it is sent no entries, and
    it reports anew when the update is done."""

    CATCHING_UP = "catching up"
    """It is sent entries and acknowledges them, and no majority counts it: it has lost its log, or is new. When it
    holds what was committed at its first acknowledgement, an entry is ordered that gives it its vote."""

    REJOINING = "rejoining"
    """That entry is in the log. The vote counts when a recovery quorum of the other voters holds the entry, or when the
    entry is committed."""

    VOTING = "voting"
    """Its acknowledgements count."""


MOVES: dict[KeeperState, set[KeeperState]] = {
    KeeperState.UPDATING: {KeeperState.REJOINING},
    KeeperState.CATCHING_UP: {KeeperState.REJOINING},
    KeeperState.REJOINING: {KeeperState.VOTING},
    KeeperState.VOTING: set(),
}
"""The legal moves of one `Progress`. A keeper that reports again begins anew, in whichever state its report shows."""


class Progress:
    """One keeper of a stream.

    Attributes:
        log_inc, life: incarnation of its log, and that under which its process keeps it.
        next, match, applied: the entry to send next; the last entry it holds; the last entry it has applied.
        sent_commit: the commit index it has been told.
        eager: it acts on commits, and is told of each at once.
        catch_up_to: the commit index at its first acknowledgement; it may vote when it holds that; -1: it has sent
        none.
        minor: minor version of the protocol that it speaks; 0: one before 3.
        kept_from: while it is updating: its updater has applied up to there at least, so nothing before is kept for it.
        updater, remind_ms: who brings it up to date; another keeper is asked from then on.
        rejoin: index of the entry that gives it its vote, 0 for none.
        state: see `KeeperState`; `voting` and `updating` say the same, for the walks that only ask that.
    """

    __slots__ = (
        "applied",
        "catch_up_to",
        "eager",
        "kept_from",
        "life",
        "log_inc",
        "match",
        "minor",
        "next",
        "peer",
        "rejoin",
        "remind_ms",
        "sent_commit",
        "state",
        "updater",
        "updating",
        "voting",
    )

    def __init__(self, peer: str, log_inc: int, have: int, voting: bool, minor: int = 0, life: int = 0) -> None:
        self.peer = peer
        self.log_inc = log_inc
        self.life = life or log_inc
        self.minor = minor
        self.next = have + 1
        self.match = have
        self.applied = 0
        self.eager = True
        self.sent_commit = -1
        self.kept_from = 0
        self.updater = ""
        self.remind_ms = 0
        self.rejoin = 0
        self.catch_up_to = -1
        self.begin(KeeperState.VOTING if voting else KeeperState.CATCHING_UP)

    def begin(self, state: KeeperState) -> None:
        """The state that its report shows."""
        self.state = state
        self.voting = state is KeeperState.VOTING
        self.updating = state is KeeperState.UPDATING

    def become(self, state: KeeperState) -> None:
        """Move on.

        Raises:
            LocalError: `MOVES` has no such move.
        """
        if state not in MOVES[self.state]:
            raise LocalError(f"a keeper that is {self.state.value} does not become {state.value}: see MOVES")
        self.begin(state)

    def rejoins_by(self, index: int) -> None:
        """The entry that gives it its vote is in the log at `index`."""
        self.rejoin = index
        self.become(KeeperState.REJOINING)

    def caught_up(self) -> bool:
        """Whether it holds what was committed at its first acknowledgement, and nothing is ordered for it yet."""
        return not self.voting and not self.rejoin and 0 <= self.catch_up_to <= self.match
