"""The supervisor's decisions: which processes are dead, which are to be ended, and whether it may act at all.

A supervisor that is cut off sees every other process dead. So it acts only while a majority of the brokers has
confirmed, a moment ago, that it is in office, and ends only processes that are gone by the cluster's evidence as well
as its own: a broker that the leading sequencer has put out, a process to which most brokers have no link, or one that
Ray says has died. A process that does not answer is unknown, not dead.

    Died, Silent, Led, Confirmed -> Replace -> (the shell) End -> evidence is fresh -> TellEnd
    TellEnd -> it ends -> ProcessGone
            -> no answer -> Kill, ProcessGone;  "I lead" -> Spared

First the process itself is asked to end: that order carries the supervisor's number, so it has no effect when it comes
late. A kill has no such fence; it goes out only behind evidence that is fresh, so the one that may be under way when a
cut begins is for a process that the majority has given up already.

The machine has one door. Its shell carries out the effects with Ray, or, in the simulator, without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..log.quorum import majority
from ..machine import Tick, is_ownership
from ..status.cluster import SupervisorStatus
from ..timing import DEFAULT_TIMING, Timing
from .office import Commission
from .supervision_deeds import (
    Answered,
    Ask,
    Began,
    Confirmed,
    Deed,
    Died,
    Elected,
    End,
    Ended,
    EndRefused,
    Kill,
    Known,
    Launched,
    Led,
    ProcessGone,
    Replace,
    Resign,
    Silent,
    Spared,
    Stand,
    TellEnd,
)


@dataclass
class _Ending:
    outside: bool
    since_ms: int
    told_ms: int = 0


@dataclass
class Supervision:
    """One supervisor.

    Attributes:
        commission: its number, id and name. The number is 0 until it first stands.
        elected: a majority has taken it for the supervisor once.
        timing: the cluster's, as soon as its plan is known.
    """

    commission: Commission
    elected: bool = False
    timing: Timing = DEFAULT_TIMING
    now_ms: int = 0
    resigned: str = ""
    _incs: dict[str, int] = field(default_factory=dict)
    _brokers: list[str] = field(default_factory=list)
    _others: list[str] = field(default_factory=list)  # all brokers but the one that joins or leaves
    _answers: dict[str, Confirmed] = field(default_factory=dict)
    _led: Led | None = None
    _silent_ms: dict[str, int] = field(default_factory=dict)
    _died: dict[str, bool] = field(default_factory=dict)
    _vacant: set[str] = field(default_factory=set)  # names whose process surely died, and is replaced in the book
    _unbegun: set[str] = field(default_factory=set)  # brokers that succeed surely dead ones, not yet known to others
    _condemned: set[str] = field(default_factory=set)
    _ending: dict[str, _Ending] = field(default_factory=dict)
    _asked_ms: int = 0
    _stood_ms: int = 0
    _began_ms: int = 0
    _could_ms: int = 0
    _deeds: list[Deed] = field(default_factory=list)

    def step(self, input: Any) -> list[Deed]:
        if self.resigned:
            return []
        kind = type(input)
        if kind is Tick:
            self.now_ms = input.now_ms
            self._began_ms = self._began_ms or self.now_ms
        elif kind is Known:
            self._known(input)
        elif kind is Confirmed:
            self._confirmed(input)
        elif kind is Led:
            if self._led is None or input.ballot >= self._led.ballot:
                self._led = input
        elif kind is Answered:
            self._silent_ms.pop(input.name, None)
        elif kind is Silent:
            self._silent_ms.setdefault(input.name, input.asked_ms)
        elif kind is Died:
            self._died[input.name] = self._died.get(input.name, False) or input.surely
        elif kind is Launched:
            self._unbegun.update(self._vacant.intersection([input.name]))
        elif kind is Began:
            self._unbegun.discard(input.name)
        elif kind is End:
            self._condemned.add(input.name)
            self._ending.setdefault(input.name, _Ending(input.outside, self.now_ms))
        elif kind is Ended:
            self._ended(input.name)
        elif kind is EndRefused and self._ending.pop(input.name, None) is not None:
            self._spare(input.name, input.why)
        self._judge()
        deeds, self._deeds = self._deeds, []
        return deeds

    # ---- the right to act

    def may_act(self) -> bool:
        """Whether the brokers that do not confirm this supervisor, and are not surely dead, are too few for a majority.
        Of an even number, half are enough to confirm it: the others can order nothing without one of these."""
        ours = {broker for broker, answer in self._fresh() if answer.holder[:2] == self.commission[:2]}
        return self.enough(ours | self._unbegun)

    def enough(self, some: Iterable[str]) -> bool:
        """Whether each majority of the brokers has one of these, or one that surely died."""
        return self._enough([*some, *(broker for broker in self._brokers if self._died.get(broker))])

    def in_office(self, now_ms: int) -> bool:
        """Whether this supervisor could act within the last `Timing.supervisor_idle_ms`."""
        return now_ms - self._could_ms < self.timing.supervisor_idle_ms

    def _enough(self, some: Iterable[str]) -> bool:
        """Whether each majority has one of these, both with and without the broker that joins or leaves."""
        found = set(some)
        for brokers in (self._brokers, self._others):
            if len(set(brokers) - found) >= majority(brokers):
                return False
        return bool(self._brokers)

    def _fresh(self) -> list[tuple[str, Confirmed]]:
        since = self.now_ms - self.timing.supervisor_fresh_ms
        return [(b, a) for b, a in self._answers.items() if a.asked_ms >= since and b in self._brokers]

    def gone(self, name: str) -> bool:
        """Whether the process is gone by the word of Ray or of the cluster: not by this supervisor's view alone."""
        if name in self._died:
            return True
        broker, _, replica = name.partition(".")
        answers = dict(self._fresh())
        if replica:
            mine = answers.get(broker)
            return self.gone(broker) or (mine is not None and name not in mine.linked)
        led = self._leading()
        if is_ownership(name):
            return led is not None and name not in led.linked
        if broker in self._brokers:
            return led is not None and self._out(broker, led)
        lost = {broker for broker, answer in answers.items() if name not in answer.linked}
        return self._enough(lost.union(broker for broker in self._brokers if self._died.get(broker)))

    def _leading(self) -> Led | None:
        """The report of the sequencer that leads: not of one that is deposed and does not know it."""
        led = self._led
        if led is None or self.now_ms - led.asked_ms > self.timing.evidence_ms:
            return None
        return led if all(led.ballot >= answer.ballot for _, answer in self._fresh()) else None

    def _out(self, broker: str, led: Led) -> bool:
        inc = self._incs.get(broker, 0)
        if inc and led.out.get(broker, -1) >= inc and broker in led.absent:
            return True
        never = broker in led.absent and broker not in led.linked
        return bool(inc) and never and self.now_ms - self._silent_ms.get(broker, self.now_ms) > self.timing.enrol_ms

    # ---- the evidence

    def _known(self, input: Known) -> None:
        self._vacant.clear()
        for name in [*self._incs, *self._died, *self._condemned]:
            if input.incs.get(name) != self._incs.get(name):  # another process by now, or forgotten
                if self._died.pop(name, False):
                    self._vacant.add(name)
                self._condemned.discard(name)
                self._silent_ms.pop(name, None)
        self._incs = dict(input.incs)
        self._brokers = list(input.brokers)
        self._others = [broker for broker in self._brokers if broker != input.changing] or self._brokers
        self._unbegun.intersection_update(self._brokers)

    def _confirmed(self, input: Confirmed) -> None:
        known = self._answers.get(input.broker)
        if known is None or known.asked_ms <= input.asked_ms:
            self._answers[input.broker] = input
            self._silent_ms.pop(input.broker, None)

    def _ended(self, name: str) -> None:
        if self._ending.pop(name, None) is not None:
            self._deeds.append(ProcessGone(name))

    def _spare(self, name: str, why: str) -> None:
        self._condemned.discard(name)
        self._silent_ms.pop(name, None)
        self._deeds.append(Spared(name, why))

    # ---- the decisions

    def _judge(self) -> None:
        if self._superseded():
            return
        if not self.may_act():
            if self._ending or (self._died.keys() & self._incs.keys()) - self._condemned:
                self._ask()
            self._give_up()
            return
        self._could_ms = self.now_ms
        if not self.elected:
            self.elected = True
            self._deeds.append(Elected())
        for name in self._incs:
            if name not in self._condemned and (why := self._why(name)):
                self._condemned.add(name)
                self._deeds.append(Replace(name, why))
        for name in list(self._ending):
            self._go_on(name)
        self._give_up()

    def _why(self, name: str) -> str:
        """Why a process is to be replaced; "" if it is not."""
        if name in self._died:
            return "has died"
        broker = name in self._brokers
        if not broker and self.now_ms - self._silent_ms.get(name, self.now_ms) <= self.timing.still_ms:
            return ""
        if not self.gone(name):
            return ""
        return "was evicted" if broker else "stands still, and the brokers have lost it"

    def _go_on(self, name: str) -> None:
        """One step on the way to the end of a process; this supervisor may act."""
        ending = self._ending[name]
        if not ending.outside and not self.gone(name):
            self._ask()
        elif name in self._died:
            del self._ending[name]
            self._deeds += [Kill(name), ProcessGone(name)]
        elif not ending.told_ms:
            ending.told_ms = self.now_ms
            self._deeds.append(TellEnd(name, ending.outside))
        elif self.now_ms - ending.told_ms >= self.timing.end_told_ms:
            del self._ending[name]
            self._deeds += [Kill(name), ProcessGone(name)]

    def _give_up(self) -> None:
        for name, ending in list(self._ending.items()):
            if self.now_ms - max(ending.told_ms, ending.since_ms) >= self.timing.end_patience_ms:
                del self._ending[name]
                may = self.may_act()
                self._spare(name, "the cluster does not hold it for gone" if may else "no majority confirms us")

    def _ask(self) -> None:
        if self.now_ms - self._asked_ms >= self.timing.supervisor_ask_ms:
            self._asked_ms = self.now_ms
            self._deeds.append(Ask())

    # ---- the office

    def _superseded(self) -> bool:
        """Whether another supervisor is in office. If not, stands for a new number while its own is not the highest."""
        mine = self.commission
        answers = self._fresh()
        if any(answer.settled > mine.number for _, answer in answers) and mine.number:
            return self._resign("another supervisor has taken over, by the cluster stream")
        others = [b for b, a in answers if a.holder.number >= max(mine.number, 1) and a.holder[:2] != mine[:2]]
        if self.elected and len(others) >= majority(self._brokers):
            return self._resign("another supervisor has taken over, by the word of a majority of the brokers")
        if not self.elected and self._began_ms and self.now_ms - self._began_ms > self.timing.candidate_ms:
            return self._resign("no majority of the brokers takes this one for the supervisor")
        heard = [broker for broker, _ in answers] + [broker for broker in self._brokers if self._died.get(broker)]
        # Brokers take an elected supervisor at its word: it takes a higher number only if no other can have a majority.
        ours = {broker for broker, answer in answers if answer.holder[:2] == mine[:2]}
        free = self._enough(ours) if self.elected else self._enough(heard)
        if (others or not mine.number) and free and self.now_ms - self._stood_ms >= self.timing.stand_ms:
            highest = max([answer.holder.number for _, answer in answers], default=0)
            self._stood_ms = self.now_ms
            self.commission = mine._replace(number=max(highest, mine.number) + 1)
            self._deeds.append(Stand(self.commission.number))
        return False

    def _resign(self, reason: str) -> bool:
        self.resigned = reason
        self._deeds.append(Resign(reason))
        return True

    def report(self) -> SupervisorStatus:
        return SupervisorStatus(
            name=self.commission.name, number=self.commission.number, confirmed=self.in_office(self.now_ms)
        )
