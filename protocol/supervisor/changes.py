"""The supervisor's decisions about members: the next step of a broker that joins or leaves, the end of a change or its
undoing, and a change that another supervisor takes up.

    join:    Tell -> StartBroker -> Tell -> Introduce -> look until it has everything -> Over
    leave:   Tell -> look: Hide, DrainBroker -> the others take its votes -> DismissBroker -> ForgetBroker -> Over

One change at a time, but a newcomer may be removed again before it has everything. Nothing is done before a majority of
the brokers knows the change, and no newcomer begins before a majority knows its processes: the next supervisor asks a
majority, so it takes up a change that this one did not finish. Each step may be done twice. Only a newcomer that never
began is undone; and no broker is forgotten before the others, in order, have said that it is out.

The machine has one door. Its shell carries out the deeds one after the other, and gives the answers; while a change is
under way it reports now and then (`Looked`).
"""

from __future__ import annotations

from typing import Any

from ..status.machines import BrokerStatus, SequencerStatus, StreamStatus
from ..wire.events import CLUSTER
from .change_deeds import (
    JOIN,
    LEAVE,
    Begin,
    BrokerDrained,
    Change,
    Deed,
    DismissBroker,
    Dismissed,
    DrainBroker,
    Fell,
    ForgetBroker,
    Forgotten,
    Hide,
    Introduce,
    Looked,
    Refuse,
    Resumed,
    Return,
    Stage,
    StartBroker,
    Started,
    Tell,
    Told,
    Undo,
    Undone,
)

ENDED_KEPT = 32
"""Number of past changes whose outcome can still be asked for."""


class Changes:
    """The changes of members by one supervisor.

    Attributes:
        change: the change under way.
        stage: its progress.
        ended: request -> (broker, what went wrong or ""), the latest ones.
        lost: the leaving broker has died, and the others see to it that it is out.
    """

    def __init__(self) -> None:
        self.change: Change | None = None
        self.stage = Stage("")
        self.ended: dict[str, tuple[str, str]] = {}
        self.lost = False
        self._told = False  # a majority knows the change
        self._waits = False  # processes of a newcomer wait to begin, until a majority knows them
        self._failure = ""  # why the newcomer did not start
        self._drained = 0

    def step(self, input: Any) -> list[Deed]:
        kind, change = type(input), self.change
        if kind is Begin:
            return self._begin(input)
        if kind is Resumed:
            self.ended = dict(input.ended)
            self._take(input.change, "a new supervisor goes on with it")
            return []
        if change is None:
            return []
        if kind is Told:
            self._told = self._told or input.enough
            if self._waits and input.enough:
                self._waits = False
                return [Introduce(change.broker)]
        elif kind is Started:
            self._failure, self._waits = input.why, not input.why
            return [Undo(change.broker)] if input.why else [Tell()]
        elif kind is Undone:
            why = f"broker {change.broker} did not start, and the cluster is as it was: {self._failure}"
            return self._over(change, why)
        elif kind is Looked:
            return self._looked(change, input)
        elif kind is BrokerDrained:
            self._drained = input.inc
        elif kind is Dismissed and input.out:
            return [ForgetBroker(change.broker)]
        elif kind is Forgotten:
            return self._over(change, "")
        elif kind is Fell and change.kind == LEAVE:
            return self._fell(change, input)
        return []

    def known(self, request: str) -> bool:
        return request in self.ended or (self.change is not None and self.change.request == request)

    def refusal(self, leaver: str = "", begun: bool = False) -> str:
        """Why no other change may begin: one is under way. But a newcomer that has begun may be removed again.

        Args:
            leaver: the broker that is to leave, "" for a join.
            begun: that broker has begun.
        """
        change = self.change
        if change is None or (begun and (change.kind, change.broker) == (JOIN, leaver)):
            return ""
        return f"{self.under_way()}: members change one at a time, ask again when that is done"

    def under_way(self) -> str:
        stage = self.stage
        return f"{self.change}: {stage.text}" + (f" ({stage.done} of {stage.total})" if stage.total else "")

    # ---- beginning and end

    def _begin(self, input: Begin) -> list[Deed]:
        change, before = input.change, self.change
        if self.known(change.request):
            return []
        why = self.refusal(change.broker if change.kind == LEAVE else "", input.begun)
        if why:
            return [Refuse(why)]
        if before is not None:
            self._note(before, "it was removed before it had everything")
        self._take(change, "its processes start" if change.kind == JOIN else "its clients are told")
        return [Tell()]

    def _take(self, change: Change | None, text: str) -> None:
        self.change, self.stage = change, Stage(text if change is not None else "")
        self.lost = self._told = self._waits = False
        self._failure = ""
        self._drained = 0

    def _note(self, change: Change, error: str) -> None:
        self.ended[change.request] = (change.broker, error)
        while len(self.ended) > ENDED_KEPT:
            del self.ended[next(iter(self.ended))]

    def _over(self, change: Change, error: str) -> list[Deed]:
        self._note(change, error)
        self._take(None, "")
        return [Tell()]

    # ---- under way

    def _looked(self, change: Change, now: Looked) -> list[Deed]:
        if not self._told or self._waits:
            self.stage = Stage("a majority of the brokers is to know of it first")
            return [Tell()]
        return self._joins(change, now) if change.kind == JOIN else self._leaves(change, now)

    def _joins(self, change: Change, now: Looked) -> list[Deed]:
        if self._failure:
            return [Undo(change.broker)]
        if not now.known:
            self.stage = Stage("its processes start")
            return [StartBroker(change.broker, change.node)]
        done, self.stage = joined(now.leading, now.newcomer if now.begun else None, change.broker)
        return self._over(change, "") if done and now.serving else []

    def _leaves(self, change: Change, now: Looked) -> list[Deed]:
        broker = change.broker
        out, self.stage = left(now.leading, broker)
        deeds: list[Deed] = []
        if now.serving:
            deeds.append(Hide(broker))  # so that its clients know where else to go before they must
        if now.begun and not (self.lost or out) and now.inc not in (0, self._drained):
            deeds.append(DrainBroker(broker))
        # `out` may be the word of a sequencer that was paused before the broker joined: the leader is asked in order.
        return [*deeds, DismissBroker(broker)] if out or self.lost else deeds

    def _fell(self, change: Change, input: Fell) -> list[Deed]:
        if left(input.leading, change.broker)[0]:
            return []
        # The others cannot even agree that the broker is gone, when they are no majority without it.
        self.lost = input.spared
        return [] if self.lost else [Return(change.broker)]


def joined(leading: SequencerStatus | None, newcomer: BrokerStatus | None, broker: str) -> tuple[bool, Stage]:
    """Whether a broker has every stream, and a vote in each.

    Args:
        leading: the leading sequencer's report, None while none leads.
        newcomer: the broker's report, None while it does not answer.
    """
    if leading is None:
        return False, Stage("no sequencer leads")
    if newcomer is None:
        return False, Stage("its process does not answer yet")
    cluster = leading.streams.get(CLUSTER)
    if newcomer.blank or cluster is None or not _in(cluster, broker):
        return False, Stage("waiting for the wiring")
    queues = [stream for name, stream in leading.streams.items() if name != CLUSTER]
    whole = sum(_in(stream, broker) for stream in queues)
    total = max(len(queues), newcomer.queues)  # a sequencer that has just taken over may not know all of them
    if whole < total:
        return False, Stage("queues are brought up to date", whole, total)
    return True, Stage("it has everything", whole, total)


def left(leading: SequencerStatus | None, broker: str) -> tuple[bool, Stage]:
    """Whether a broker has no vote any more in any stream."""
    if leading is None:
        return False, Stage("no sequencer leads")
    streams = leading.streams
    cluster = streams.get(CLUSTER)
    if cluster is None or not cluster.ready:
        return False, Stage("a sequencer is taking over")
    # The cluster stream comes last, so a broker that has left it has left all.
    if broker not in cluster.voters:
        return True, Stage("it has left", len(streams), len(streams))
    queues = [stream for name, stream in streams.items() if name != CLUSTER]
    return False, Stage("its votes are taken over", sum(broker not in q.voters for q in queues), len(streams))


def _in(stream: StreamStatus, broker: str) -> bool:
    """Whether the broker votes in a stream, and is linked."""
    return stream.ready and broker in stream.voters and broker not in stream.blank and broker not in stream.missing
