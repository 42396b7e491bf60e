"""Which streams have no majority, who still has them, and what is to be done about it, in words. Pure.

The evidence is the sequencers' and brokers' own (`../../protocol/sequencer/majorities.py`): each report of theirs has
`waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...protocol.status.cluster import LossStatus
from ...protocol.status.machines import BrokerStatus, SequencerStatus
from ...protocol.wire.events import CLUSTER
from ...protocol.wire.majority_frames import LOST, WAITS, Waiting
from .reasons import Reason

NAMED = 5
"""Queues that one reason names; the rest are counted."""


@dataclass(frozen=True)
class Loss:
    """Streams that have no majority for the same reason.

    Attributes:
        streams: their ids, the wiring's among them.
        here: voters that are here and have them.
        blank: voters that have come back without them.
        missing: voters that are out of reach -> for how long, in milliseconds.
        for_ms: how long they have had none.
        fate: `majority_frames.WAITS`, RESET or LOST.
    """

    streams: tuple[str, ...]
    here: tuple[str, ...]
    blank: tuple[str, ...]
    missing: dict[str, int]
    for_ms: int
    fate: str

    @property
    def for_good(self) -> bool:
        """Whether waiting does not help."""
        return self.fate != WAITS

    def report(self) -> LossStatus:
        return LossStatus(
            streams=list(self.streams), here=list(self.here), blank=list(self.blank),
            missing_ms=dict(self.missing), for_ms=self.for_ms, for_good=self.for_good,
        )  # fmt: skip

    def reason(self) -> Reason:
        name = "majority-lost" if self.for_good else "no-majority"
        subject = called(self.streams[:1]).removeprefix("queue ") + " and others" * (len(self.streams) > 1)
        return Reason.of(name, subject, str(self), self.for_ms)

    def __str__(self) -> str:
        what = f"{called(self.streams)}: "
        if not self.for_good:
            return f"{what}no majority for {self.for_ms // 1000} s, nothing completes until {self._awaited()}"
        what += f"the majority is lost for good, {self._told()}; "
        if self.fate == LOST:
            return f"{what}nobody has anything of it, so it is dropped"
        rescue = "rescue what is left with `mantamq receive QUEUE --browse --rescue`, then " if self.here else ""
        return f"{what}nothing completes and waiting does not help: {rescue}{self._way_out()}"

    def _awaited(self) -> str:
        words = [f"{name} is back in reach (away for {ms // 1000} s)" for name, ms in self.missing.items()]
        if self.blank:
            words.append(f"{_and(self.blank)} {'is' if len(self.blank) == 1 else 'are'} brought up to date")
        return " or ".join(words) or "more of its voters are back"

    def _told(self) -> str:
        words = [f"only {_and(self.here)} still {'has' if len(self.here) == 1 else 'have'} it"] if self.here else []
        words.append(f"{_and(self.blank)} came back without it {self.for_ms // 1000} s ago")
        words += [f"{name} is out of reach for {ms // 1000} s" for name, ms in self.missing.items()]
        return ", ".join(words)

    def _way_out(self) -> str:
        anew = "`mantamq down` and `mantamq up`"
        return anew if CLUSTER in self.streams else f"`mantamq queue reset QUEUE` for each, or {anew}"


def losses(waiting: Iterable[Waiting]) -> list[Loss]:
    """Streams that wait for the same together, the wiring's first."""
    groups: dict[tuple[Any, ...], list[Waiting]] = {}
    for one in waiting:
        key = tuple(one.here), tuple(one.blank), tuple(sorted(one.missing)), one.fate
        groups.setdefault(key, []).append(one)
    return [
        Loss(
            tuple(one.stream for one in group), here, blank,
            {name: max(one.missing[name] for one in group) for name in missing},
            max(one.for_ms for one in group), fate,
        )
        for (here, blank, missing, fate), group in groups.items()
    ]  # fmt: skip


def waiting(
    leading: SequencerStatus | None, sequencers: Iterable[SequencerStatus], brokers: Iterable[BrokerStatus]
) -> Sequence[Waiting]:
    """The streams that wait, by the best word there is: the leader's, else that of a sequencer that tries to lead, else
    the newest that a broker was told.

    Args:
        leading: the sequencer that leads, None while none does.
        sequencers, brokers: those that answer.
    """
    if leading is not None:
        return leading.waiting
    for sequencer in sequencers:
        if sequencer.waiting:
            return sequencer.waiting
    told = [broker for broker in brokers if broker.waiting]
    return min(told, key=lambda broker: broker.waiting_heard_ms).waiting if told else []


def called(streams: list[str] | tuple[str, ...]) -> str:
    """Streams in words: a queue's id is its name, "#", and where it was declared."""
    queues = [name.rpartition("#")[0] for name in streams if "#" in name]
    words = [] if len(queues) == len(streams) else ["the wiring"]
    if queues:
        more = f" and {len(queues) - NAMED} more" if len(queues) > NAMED else ""
        words.append(f"{'queue' if len(queues) == 1 else 'queues'} {', '.join(queues[:NAMED])}{more}")
    return ", ".join(words)


def _and(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
