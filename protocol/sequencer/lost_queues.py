"""Queues that can never have a majority again: dropped by an ordered event, of themselves or when an operator says so.

A queue is lost for good when a majority of its voters has come back without its log (S12): fewer logs are left than
any sequencer must know to adopt it, for ever. If no voter that is here has anything of it, and the missing ones have
been so for `Timing.lost_ms`, the sequencer orders `Lost` in the cluster stream: its name is free, and its clients hear
why. If one has, nothing is thrown away unasked: the queue stands still, to be browsed, until `Reset`; so does a durable
one, whatever is here, since a disk may be put back (`durable.md` S12). Another sequencer
decides the same, since it follows from what the voters report.
"""

from __future__ import annotations

from ..errors import NOT_ALLOWED, UNAVAILABLE
from ..log.quorum import majority
from ..outbox import Outbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, Lost, encode_event
from ..wire.majority_frames import LOST, Reset, ResetDone
from ..wire.version import MINOR
from .election import LEADING, Election
from .majorities import MajorityWatch, Roll, roll
from .order import Order
from .stream import Stream

KNOWN_SINCE = 2
"""Minor version of the protocol from which on brokers know the event."""


def refusal(found: Roll, queue: str, even_durable: bool = False) -> str:
    """Why a queue is not to be reset, or "". It may be only when no voter could bring it back."""
    name = queue.rpartition("#")[0]
    if not found.short():
        return (
            f"queue {name!r} has its majority ({', '.join(sorted(found.votes))}) and goes on: there is nothing to reset"
        )
    if not found.hopeless():
        return (
            f"queue {name!r} waits for {', '.join(found.missing()) or 'an update'}, and goes on with all it holds when "
            "that is done: bring them back, or delete the queue with `mantamq queue delete --force` to go on without"
        )
    if found.durable and not even_durable:
        gone = [voter for voter in found.voters if voter not in found.logs]
        return (
            f"queue {name!r} is durable, and would be dropped with all that is left of it, at "
            f"{', '.join(found.left()) or 'nobody here'}: stop {', '.join(gone)} and put their disks back, or say "
            "--even-durable"
        )
    return ""


class LostQueues:
    """The queues that one sequencer has given up, or is asked to.

    Attributes:
        ordered: queue -> index of its `Lost` in the cluster stream, of this term.
        asked: (broker, its number) that is to be told when that is shown everywhere -> that index.
        waiting: what is asked and not decided yet -> the question, and since when.
        minors: broker -> minor version of the protocol it speaks.
    """

    def __init__(
        self,
        order: Order,
        outbox: Outbox,
        election: Election,
        watch: MajorityWatch,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._order = order
        self._outbox = outbox
        self._election = election
        self._watch = watch
        self.ordered: dict[str, int] = {}
        self.asked: dict[tuple[str, int], int] = {}
        self.waiting: dict[tuple[str, int], tuple[Reset, int]] = {}
        self.minors: dict[str, int] = {}

    def look(self) -> None:
        """Every beat."""
        watch, streams = self._watch, self._order.streams
        for name in list(watch.rolls) if self._leads() else ():
            if name in self.ordered or name not in streams or watch.short_ms(name) < self._timing.majority_noted_ms:
                continue
            # As of now, not as of the last look.
            if watch.fate(name) == LOST and self._lost(roll(self._order, self._election, streams[name])):
                self.order(name)
        for (peer, _), (frame, since_ms) in list(self.waiting.items()):
            self._judge(peer, frame, since_ms)
        if self.asked:
            shown = self._shown()
            for (peer, number), index in list(self.asked.items()):
                if index <= shown:
                    del self.asked[peer, number]
                    self._outbox.send(peer, ResetDone(number))

    @staticmethod
    def _lost(found: Roll) -> bool:
        return found.short() and found.hopeless() and found.nothing() and not found.durable

    def order(self, name: str, asked: bool = False, even_durable: bool = False) -> None:
        """The queue is lost."""
        cluster = self._leads()
        if cluster is not None and not self.older():
            self._order.append(cluster, encode_event(Lost(name, asked, even_durable)))
            self.ordered[name] = cluster.end

    def reset(self, peer: str, frame: Reset) -> None:
        """An operator gives a queue up."""
        if self._election.role == LEADING:  # else it is asked again
            self.waiting[peer, frame.number] = frame, self._outbox.now_ms
            self._judge(peer, frame, self._outbox.now_ms)

    def _judge(self, peer: str, frame: Reset, since_ms: int) -> None:
        """Order it, or say why not; of what may change at once, a little later."""
        order, name, now_ms = self._order, frame.queue, self._outbox.now_ms
        stream, older = order.streams.get(name), self.older()
        code, text = UNAVAILABLE, ""
        if name in order.dropped:
            code = ""
        elif name not in self.ordered:
            if older:
                text = f"{', '.join(older)} must be upgraded first: it does not know of queues that are lost"
            elif self._leads() is None:
                text = "the cluster itself has no majority and decides nothing: see `mantamq status`"
            elif stream is None or name == CLUSTER:
                text = "no replica of this queue has spoken yet: ask again in a moment"
            else:
                found = roll(order, self._election, stream)
                code, text = NOT_ALLOWED, refusal(found, name, frame.even_durable)
                if text and found.short() and now_ms - since_ms < self._timing.reset_ms:
                    return
            if text and code == UNAVAILABLE and now_ms - since_ms < self._timing.reset_ms:
                return
            if not text:
                self.order(name, True, frame.even_durable)
        del self.waiting[peer, frame.number]
        if name in self.ordered and not text:
            self.asked[peer, frame.number] = self.ordered[name]
        else:
            self._outbox.send(peer, ResetDone(frame.number, code, text))

    def _leads(self) -> Stream | None:
        """The cluster stream, if this sequencer can order anything in it now."""
        cluster = self._order.streams.get(CLUSTER)
        leads = self._election.role == LEADING and cluster is not None and cluster.ready
        if not leads or cluster is None or cluster.commit < cluster.start:
            return None
        voting = sum(keeper.voting and v in cluster.voters for v, keeper in cluster.keepers.items())
        return cluster if voting >= majority(cluster.voters) else None

    def older(self) -> list[str]:
        """Members whose program skips events that the others apply: `Lost`, and a queue would be kept."""
        return [m for m in self._order.members if self.minors.get(m, KNOWN_SINCE) < KNOWN_SINCE]

    def least(self) -> int:
        """The least minor version that a member is known to speak, or this program's own."""
        return min([MINOR, *(self.minors[m] for m in self._order.members if m in self.minors)])

    def _shown(self) -> int:
        return self._order.streams[CLUSTER].shown(self._order.members)
