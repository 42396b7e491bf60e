"""The acceptor in brokers and replicas: promises, log reports, and requests to the sequencer that leads.

K1: a promise is given once per ballot, for all logs of the process. B1: requests without an answer are sent again to
each new leader, at its first heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..companions import Companion, Companions
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Ballot
from ..wire.frame import Frame
from ..wire.log_frames import Evicted, Fetch, Heartbeat, LogReport, Nack, Prepare
from .durability import Promises
from .keeper import Keeper
from .outbox import FollowerOutbox


class Acceptor(FollowerOutbox):
    """Base of the machines that keep logs. Each is the outbox of its own parts.

    Attributes:
        companions: the small machines in the same process.
        promises: those on disk, if any log of the process is durable: what is answered under a ballot waits for them.
    """

    def __init__(self, timing: Timing = DEFAULT_TIMING, companions: Iterable[Companion | None] = ()) -> None:
        super().__init__(timing)
        self.companions = Companions(companions)
        self.promises: Promises | None = None

    def rules(self) -> dict[type[Frame], Callable[[str, Any], None]]:
        """What a sequencer says to each process that keeps logs."""
        return {Prepare: self.prepare, Heartbeat: self.heartbeat, Fetch: self.fetch}

    def keepers(self) -> Iterable[Keeper]:
        raise NotImplementedError

    def keeper_of(self, stream: str) -> Keeper | None:
        raise NotImplementedError

    def pledge(self) -> None:
        """Report all logs of this process to the leader."""
        raise NotImplementedError

    def attached(self) -> None:
        """A sequencer leads and has the log reports: send it the requests that have no answer yet."""
        raise NotImplementedError

    def follow(self, peer: str, ballot: Ballot) -> bool:
        """Whether `peer` may speak under `ballot`; promises it for all logs (K1)."""
        if not self.view.follow(peer, ballot, self.now_ms):
            self.send(peer, Nack(self.view.promised))
            return False
        for keeper in self.keepers():
            keeper.promise(ballot)
        if self.promises is not None:
            self.promises.keep(ballot)
        return True

    def adopt(self, ballot: Ballot) -> None:
        """Another process of the same broker has promised a ballot that may not be known here."""
        view = self.view
        if ballot > view.promised:
            view.promised = ballot
            view.leader, view.attached = "", False
            for keeper in self.keepers():
                keeper.promise(ballot)
            if self.promises is not None:
                self.promises.keep(ballot)

    def report_log(self, report: LogReport) -> None:
        """Tell the leader of one log; a leader whose promise is not kept yet hears of all of them when it is."""
        if self.view.leader and (self.promises is None or self.promises.kept(self.view.promised)):
            self.send(self.view.leader, report)

    def prepare(self, peer: str, frame: Prepare) -> None:
        if self.follow(peer, frame.ballot):
            self._answer(self.pledge)

    def _answer(self, answer: Callable[[], object]) -> None:
        """Give an answer that a sequencer counts on under its ballot: once the promise is kept (K1')."""
        if self.promises is None:
            answer()
        else:
            self.promises.when_kept(self.view.promised, answer)

    def heartbeat(self, peer: str, frame: Heartbeat) -> None:
        view = self.view
        if not self.follow(peer, frame.ballot):
            return
        view.heard_ms = self.now_ms
        if not view.attached:
            self._answer(self._attach)

    def _attach(self) -> None:
        """The sequencer that is followed leads, and what was promised to it is kept."""
        if self.view.leader in self.view.linked:
            self.view.attached = True
            self.pledge()
            self.attached()

    def fetch(self, peer: str, frame: Fetch) -> None:
        keeper = self.keeper_of(frame.stream)
        found = keeper.fetch(frame) if keeper is not None else None
        if found is not None:
            self.send(peer, found)

    def evicted(self, peer: str, frame: Evicted) -> None:
        if peer == self.view.leader:
            self.retire(frame.reason)
