"""How a keeper that has lost its log gets its vote back: the sequencer's part (`sequencer.md` K4).

It is named an updater if the log no longer reaches back to what it lacks, then sent entries without being counted; an
entry in the log itself says when it votes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log.quorum import recovery_quorum
from ..replica.update import RETRY_MS
from ..wire.events import Rejoin, encode_event
from ..wire.log_frames import Update
from .streams import Progress, Stream

if TYPE_CHECKING:
    from .machine import SequencerMachine


def patience(keeper: Progress) -> bool:
    """Sort key: those that act on commits first."""
    return not keeper.eager


class Rejoins:
    """Of one sequencer."""

    def __init__(self, machine: SequencerMachine) -> None:
        self.machine = machine

    @staticmethod
    def possible(stream: Stream, voter: str) -> bool:
        """Whether those who are here are enough to give it its vote back."""
        voting = {v for v, keeper in stream.keepers.items() if keeper.voting and v != voter}
        return all(
            len(voting.intersection(voters)) >= recovery_quorum(voters)
            for voters in (stream.voters, stream.changed)
            if voters
        )

    def hear_again(self) -> None:
        """Those who were too far behind and could not be spared."""
        for stream in list(self.machine.streams.values()):
            if stream.ready and stream.reports:
                reports, stream.reports = stream.reports, {}
                for peer, frame in reports.values():
                    self.machine.enrol(stream, peer, frame)

    def update(self, stream: Stream, keeper: Progress) -> None:
        """Name an updater, each time another: the one before may have died. It must know that it votes, and that all is
        committed which is not in the log any more; if nobody does, somebody will at the next beat."""
        knowing = [other for other in stream.voting() if other.sent_commit >= max(stream.base, other.rejoin)]
        able = [other.peer for other in sorted(knowing, key=patience, reverse=True)]
        keeper.remind_ms = self.machine.now_ms + (RETRY_MS if able else 0)
        if able:
            before = stream.updates.get(keeper.peer, len(stream.updates))
            keeper.updater = able[before % len(able)]
            stream.updates[keeper.peer] = before + 1
            self.machine.send(keeper.updater, Update(stream.name, keeper.peer))

    def remind(self) -> None:
        """Updates of which nothing is seen: nobody could give one, its first word was lost with a link, or whoever was
        to give it is gone."""
        for stream in self.machine.streams.values():
            for keeper in [one for one in stream.keepers.values() if one.updating]:
                here = any(other.peer == keeper.updater for other in stream.keepers.values())
                if not here or self.machine.now_ms >= keeper.remind_ms:
                    self.update(stream, keeper)

    def propose(self, stream: Stream, voter: str, keeper: Progress) -> None:
        """A blank keeper that has acknowledged what was committed when it first did: order that it votes (again)."""
        if keeper.voting or keeper.rejoin or not 0 <= keeper.catch_up_to <= keeper.match:
            return
        if voter in stream.voters or voter in stream.changed:
            self.machine.append(stream, encode_event(Rejoin(voter, keeper.inc)))
            keeper.rejoin = stream.end
            stream.returned[voter] = keeper.inc, stream.end
        else:
            self.machine.membership.admit(stream, voter, keeper)

    def vote(self, stream: Stream, voter: str, keeper: Progress) -> None:
        """It votes (again) once so many others hold the entry which says so that each majority has one of them: whoever
        comes to lead by the promise of an older incarnation meets it before anything is committed
        (`Recovery.mistaken`). If it is committed, so many did."""
        others = {v for v, k in stream.keepers.items() if k.voting and v != voter and k.match >= keeper.rejoin}
        enough = len(others.intersection(stream.voters)) >= recovery_quorum(stream.voters)
        if enough or keeper.rejoin <= stream.commit:
            keeper.voting = True
            stream.incs[voter] = keeper.inc
            stream.away.discard(voter)
