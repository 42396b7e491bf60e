"""One supervisor's process in the simulator: the shell of the product's own decisions, over a Ray that is late.

Whom it ends is `protocol/supervisor/supervision.py`, who is replaced at the same time `protocol/supervisor/turns.py`, where to
`protocol/supervisor/layout.py`, who joins and leaves `protocol/supervisor/changes.py`, who moves and when `protocol/supervisor/rebalance.py`. What is
here carries that out as `actors/supervisor/healer.py`, `joining.py` and `supervisor/rebalancer.py` do. What the next supervisor must know is
told to every broker, and a supervisor that is elected asks a majority of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mantamq.protocol.log.quorum import majority
from mantamq.protocol.machine import Dismiss, Drain, Supervises, Tick, broker_of, is_broker, is_ownership, is_sequencer
from mantamq.protocol.sequencer.election import LEADING
from mantamq.protocol.status.machines import SequencerStatus
from mantamq.protocol.supervisor import layout, rebalance
from mantamq.protocol.supervisor.change_deeds import (
    JOIN,
    LEAVE,
    Begin,
    BrokerDrained,
    Change,
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
    StartBroker,
    Started,
    Tell,
    Told,
    Undo,
    Undone,
)
from mantamq.protocol.supervisor.changes import Changes
from mantamq.protocol.supervisor.layout import Node
from mantamq.protocol.supervisor.office import Commission, Office
from mantamq.protocol.supervisor.rounds import Rounds
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.supervisor.supervision_deeds import (
    Answered,
    Ask,
    Began,
    Confirmed,
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
from mantamq.protocol.supervisor.turns import Turns

from .model import Violation

if TYPE_CHECKING:
    from .supervised import SupervisedWorld

LOOK_US = 1_000_000
ASK_US = 2_000_000
CONFIRM_US = 1_000_000
TELL_US = 5_000_000
CHANGE_US = 500_000
AGAIN_US = 1_000_000
START_US = 10_000_000
"""A process that has not started after this time is given up."""


@dataclass(frozen=True)
class Entry:
    """A line of the book. `machine`: None while it has not begun."""

    host: str
    inc: int = 0
    machine: Any = None
    serving: bool = False


@dataclass(frozen=True)
class Copy:
    """The state that every broker keeps for the next supervisor."""

    number: int = 0
    version: int = 0
    book: dict[str, Entry] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    moving: tuple[str, int] = ("", 0)
    change: Change | None = None
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)


class Supervisor:
    """Attributes:
    book: who is to be there, and by which process.
    members: who is to be a member.
    """

    def __init__(self, world: SupervisedWorld, name: str, host: str, commission: Commission, copy: Copy) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.machine = Supervision(commission, elected=commission.number > 0, timing=world.timing)
        self.changing = Changes()
        self.turns = Turns()
        self.running = False
        self._spreading = rebalance.Rebalance(world.timing)
        self._endings: dict[str, Callable[[bool], None]] = {}
        self._unready: set[str] = set()
        self._asked = 0
        self._rounds = Rounds()
        self._chain = 0
        self._version = 0
        self._adopt(copy)
        if not self.book:
            self.members = tuple(world.brokers)
            for member in world.machines:
                self._note(member)
            self._begin(copy)
        self._look()

    @property
    def alive(self) -> bool:
        return self.world.supervisors.get(self.name) is self

    def end(self) -> None:
        if self.alive:
            del self.world.supervisors[self.name]

    def brokers(self) -> list[str]:
        return [name for name in self.book if is_broker(name)]

    def _note(self, name: str) -> None:
        """A process is there that has begun."""
        machine = self.world.machines[name]
        inc = getattr(machine, "inc", 0) or getattr(machine, "uid", 0)
        self.book[name] = Entry(self.world.home(name), inc, machine, is_broker(name) and not machine.keeper.blank)

    def _adopt(self, copy: Copy) -> None:
        self.book, self.members, self.moving = dict(copy.book), copy.members, copy.moving
        self._version, self._inherited = copy.version, copy.change

    # ---- what the next one must know

    def _tell(self, then: Callable[[bool], None] = lambda enough: None) -> None:
        """Every broker keeps a copy of it."""
        world, brokers = self.world, [b for b in self.brokers() if self.book[b].machine is not None]
        self._version += 1
        copy = Copy(
            self.machine.commission.number, self._version, dict(self.book), self.members, self.moving,
            self.changing.change, dict(self.changing.ended),
        )  # fmt: skip

        def remember(name: str, machine: Any) -> bool:
            world.copies[name] = (machine, copy)
            return True

        wanted = majority([b for b in self.brokers() if self.book[b].machine is not None or b in self.turns])
        asked = [broker for broker in brokers if broker not in self.turns]
        self._gather(asked, TELL_US, remember, lambda told: then(len(told) >= wanted), order=True)

    def _resume(self, copy: Copy) -> None:
        """The newest copy of a majority of the brokers is what counts."""
        if not self.alive:
            return

        def recall(name: str, machine: Any) -> Copy:
            kept, found = self.world.copies.get(name, (None, Copy()))
            return found if kept is machine else Copy()

        def heard(found: dict[str, Copy]) -> None:
            newest = max([copy, *found.values()], key=lambda one: (one.number, one.version))
            if (newest.number, newest.version) > (copy.number, copy.version):
                self._adopt(newest)
                self._confirm(True)
            elif self.machine.enough(found):
                self._begin(copy)
                return
            self.world.after(200_000, lambda: self._resume(newest))

        self._gather([b for b in self.brokers() if self.book[b].machine is not None], ASK_US, recall, heard)

    def _begin(self, copy: Copy) -> None:
        """In office, and knows what there is to know."""
        world = self.world
        self.running = True
        self._end_unknown()
        for name, entry in list(self.book.items()):
            if entry.machine is None:
                self._dead(name)
            elif world.machines.get(name) is not entry.machine:
                world.call(self.host, self.host, lambda n=name, m=entry.machine: self.died(n, m, world.surely(m)))
            elif is_broker(name):
                self._serve(name)
        for name in [name for name in self.book if is_sequencer(name) and name in world.machines]:
            world.meet(name)
        self.changing.step(Resumed(copy.change, copy.ended))
        self._inherited = None
        if copy.change is not None:
            world.counts["went on"] = world.counts.get("went on", 0) + 1
            self._run(copy.change, self._chain)
        self._tell()
        self._spread()
        self._heal()

    def _end_unknown(self) -> None:
        world = self.world
        for name, machine in list(world.machines.items()):
            entry = self.book.get(name)
            if entry is None and name in world.began:
                raise Violation(f"{name} has begun, and the next supervisor does not know it")
            if "." not in name and (entry is None or entry.machine is not machine):
                world.call(self.host, world.home(name), lambda m=machine: world.kill(m, "unknown"))
        for name in [name for name in world.launched if name not in self.book]:
            del world.launched[name]

    # ---- the machine's shell

    def give(self, input: Any) -> None:
        if not self.alive:
            return
        change = self.changing.change or self._inherited
        changing = change.broker if change is not None else ""
        known = Known({name: entry.inc for name, entry in self.book.items()}, self.brokers(), changing)
        for one in (Tick(self.world.now_us // 1000), known, input):
            for deed in self.machine.step(one):
                self._carry_out(deed)

    def _carry_out(self, deed: Any) -> None:
        world, kind = self.world, type(deed)
        if kind is Ask:
            self._poll()
        elif kind is Stand:
            self._confirm(False)
        elif kind is Elected:
            world.counts["elected"] = world.counts.get("elected", 0) + 1
            self._resume(Copy(0, 0, self.book, self.members, self.moving))
        elif kind is Resign:
            world.counts["resigned"] = world.counts.get("resigned", 0) + 1
            self.end()
        elif kind is Replace:
            self.turns.add(deed.name)
        elif kind is TellEnd and deed.name in self.book:
            self._tell_end(deed.name, deed.outside)
        elif kind is Kill and deed.name in self.book:
            entry, outside = self.book[deed.name], deed.name in self._unready
            world.call(self.host, entry.host, lambda: world.kill(entry.machine, "killed", outside))
        elif kind is ProcessGone or kind is Spared:
            if kind is Spared:
                self.turns.drop(deed.name)
            if (then := self._endings.pop(deed.name, None)) is not None:
                world.after(
                    world.rng.choice([20_000, 400_000, 1_500_000]), lambda: self.alive and then(kind is ProcessGone)
                )

    def _end(self, name: str, outside: bool, then: Callable[[bool], None]) -> None:
        self._endings[name] = then
        self.give(End(name, outside))

    def _dead(self, name: str) -> None:
        """It did not begin as it should, whoever it is linked to."""
        self._unready.add(name)
        self.turns.add(name)

    # ---- replacing

    def _heal(self) -> None:
        """Everybody at once whose turn it is."""
        if self.alive:
            self.world.after(100_000, self._heal)
            for name in self.turns.take():
                self._replace(name)

    def _done(self, name: str, again: bool = False) -> None:
        self.turns.done(name)
        if again:
            self.world.after(AGAIN_US, lambda: self.turns.add(name))

    def _replace(self, name: str) -> None:
        change = self.changing.change
        if name not in self.book:
            self._done(name)
        elif change is not None and change.kind == LEAVE and change.broker == broker_of(name):
            if "." in name:
                self._done(name)
            else:
                self._leading(lambda leading: self._fell(name, leading))
        else:
            self._end_and_start(name)

    def _fell(self, name: str, leading: dict[str, Any] | None) -> None:
        """A broker that was to leave has died."""
        if leading is None:
            self._done(name, again=True)
        elif any(type(deed) is Return for deed in self.changing.step(Fell(leading, spares(leading, name)))):
            self._end_and_start(name)
        else:
            self.world.counts["stays away"] = self.world.counts.get("stays away", 0) + 1
            self._done(name)

    def _end_and_start(self, name: str) -> None:
        if not self.machine.may_act():
            self._poll()
            self._done(name, again=True)
            return
        outside = broker_of(name) in self._unready

        def ended(gone: bool) -> None:
            if gone:
                self._start(name)
            else:
                self._done(name)

        self._end(name, outside, ended)

    def _start(self, name: str) -> None:
        """It is gone: another comes, if we may still act."""
        world = self.world
        if not self.alive or name not in self.book:
            return
        entry = self.book[name]
        if not self.machine.may_act():
            self._poll()
            world.after(200_000, lambda: self._start(name))
        elif name in world.machines and world.machines[name] is entry.machine:
            world.after(50_000, lambda: self._start(name))  # the last of it is on its way
        elif is_broker(name):
            for other in [other for other in self.book if broker_of(other) == name]:
                self.turns.drop(other)
                if other != name:
                    del self.book[other]
            places = [(self.book[b].host, self.book[b].host) for b in self.brokers() if b != name]
            host = layout.for_broker(self._nodes(), entry.host, places).host
            self.book[name] = Entry(host)
            self.give(Launched(name))
            world.after(world.rng.choice([300_000, 1_500_000]), lambda: self._introduce(name, lambda: self._done(name)))
        else:
            del self.book[name]
            self._start_other(name, entry)
            self._tell()
            self._done(name)

    def _start_other(self, name: str, entry: Entry) -> None:
        world, others = self.world, [o for o in self.book if is_sequencer(o) == is_sequencer(name)]
        if is_sequencer(name):
            new = world.start_sequencer(layout.for_sequencer(self._nodes(), self._hosts(is_sequencer)).host)
            machine = world.machines[new]
            self._note(new)
            self._tell(lambda enough: self._known(new, machine, enough))
        elif is_ownership(name):
            if name in world.machines:
                return
            hosts = self._hosts(is_ownership)
            world.host[name] = layout.for_ownership(self._nodes(), entry.host, hosts).host
            world.start_ownership(name)
            new = name
        else:
            broker = broker_of(name)
            if broker not in world.machines or any(o.startswith(broker + ".") for o in others):
                return
            before = set(world.machines)
            world.add_replica(broker)
            (new,) = set(world.machines) - before
        self._unready.discard(name)
        self._note(new)
        world.counts["started"] = world.counts.get("started", 0) + 1

    def _known(self, sequencer: str, machine: Any, enough: bool) -> None:
        """It is dialled only when a majority of the brokers knows it: whom the next supervisor does not know it ends."""
        if self.world.machines.get(sequencer) is machine:
            if enough:
                self.world.meet(sequencer)
            else:
                self._dead(sequencer)

    def _introduce(self, broker: str, then: Callable[[], None]) -> None:
        """Let a broker begin that waits for it."""
        world = self.world
        if not self.alive or broker not in self.book:
            return
        if not self.machine.may_act():
            self._poll()
            world.after(200_000, lambda: self._introduce(broker, then))
            return
        host = self.book[broker].host
        self._unready.discard(broker)
        if broker in world.machines or host not in [node.id for node in self._nodes()]:
            self._dead(broker)  # once more, on another host
        else:
            self.give(Began(broker))
            world.begin_broker(broker, host)
            for name in [name for name in world.machines if broker_of(name) == broker]:
                self._note(name)
            world.counts["started"] = world.counts.get("started", 0) + 1
            self._serve(broker)
            self._tell()
        then()

    def _serve(self, broker: str) -> None:
        """Tell clients of a broker that has come back when it has rejoined."""
        entry, change = self.book.get(broker), self.changing.change
        if not self.alive or entry is None or entry.machine is None or entry.serving:
            return
        leaves = change is not None and change.kind == LEAVE and change.broker == broker

        def heard(blank: dict[str, bool]) -> None:
            now = self.book.get(broker)
            if now is not None and now.machine is entry.machine and blank.get(broker) is False and not leaves:
                self.book[broker] = replace(now, serving=True)
                self._tell()

        self._gather([broker], ASK_US, lambda name, machine: machine.keeper.blank, heard)
        self.world.after(CHANGE_US, lambda: self._serve(broker))

    def _nodes(self) -> list[Node]:
        """Those that answer."""
        return [Node(host, host) for host in self.world.hosts if not self.world.away(self.host, host)]

    def _hosts(self, of: Callable[[str], bool]) -> list[str]:
        return [entry.host for name, entry in self.book.items() if of(name)]

    def died(self, name: str, machine: Any, surely: bool) -> None:
        entry = self.book.get(name)
        if entry is not None and entry.machine is machine:
            self.give(Died(name, surely))

    # ---- members

    def add(self, request: str) -> None:
        """Somebody wants one more broker."""
        if self.running and not self.changing.refusal():
            places = [(self.book[b].host, self.book[b].host) for b in self.brokers()]
            self._add(request, layout.emptiest(self._nodes(), places).id)

    def _add(self, request: str, node: str) -> None:
        broker = self.world.new_broker()
        self.members = (*self.members, broker)
        self._change(Begin(Change(request, JOIN, broker, node)))

    def remove(self, request: str, broker: str) -> None:
        def heard(leading: dict[str, Any] | None) -> None:
            begun = broker in self.book and self.book[broker].machine is not None
            if self.running and broker in self.members and not self.changing.refusal(broker, begun):
                if leading is not None and spares(leading, broker):
                    self._change(Begin(Change(request, LEAVE, broker), begun))

        self._leading(heard)

    def _change(self, input: Begin) -> None:
        self.world.counts[input.change.kind] = self.world.counts.get(input.change.kind, 0) + 1
        self._chain += 1
        chain = self._chain
        self._step(input, chain, lambda: self._run(input.change, chain))

    def _run(self, change: Change, chain: int) -> None:
        if self.alive and self.changing.change is change and chain == self._chain:

            def again() -> None:
                self.world.after(CHANGE_US, lambda: self._run(change, chain))

            self._looked(change.broker, lambda looked: self._step(looked, chain, again))

    def _step(self, input: Any, chain: int, then: Callable[[], None]) -> None:
        self._each(self.changing.step(input), chain, then)

    def _each(self, deeds: list[Any], chain: int, then: Callable[[], None]) -> None:
        """Carry out one after the other; what is answered is the machine's next input."""
        if not self.alive or chain != self._chain:
            return
        if not deeds:
            then()
            return

        def done(answer: Any = None) -> None:
            if self.alive and chain == self._chain:
                rest: Callable[[], None] = lambda: self._each(deeds[1:], chain, then)  # noqa: E731
                if answer is None:
                    rest()
                else:
                    self._step(answer, chain, rest)

        self._deed(deeds[0], done)

    def _deed(self, deed: Any, done: Callable[..., None]) -> None:
        kind = type(deed)
        if kind is Tell:
            self._tell(lambda enough: done(Told(enough)))
        elif kind is Refuse:
            done()
        elif kind is StartBroker:
            self._launch(deed.broker, deed.node, done)
        elif kind is Introduce:
            self.world.began[deed.broker] = self.world.now_us
            self._introduce(deed.broker, done)
        elif kind is Hide:
            self.book[deed.broker] = replace(self.book[deed.broker], serving=False)
            self._tell(lambda enough: done())
        elif kind is DrainBroker:
            inc = self.book[deed.broker].inc
            drain: Callable[[str, Any], Any] = lambda name, machine: self.world.give(name, Drain()) or True  # noqa: E731
            self._gather(
                [deed.broker], ASK_US, drain, lambda told: done(BrokerDrained(inc) if told else None), order=True
            )
        elif kind is DismissBroker:
            self._dismiss(deed.broker, done)
        elif kind is ForgetBroker or kind is Undo:
            self._forget(deed.broker, kind is Undo, done)

    def _launch(self, broker: str, node: str, done: Callable[..., None]) -> None:
        world = self.world
        if not self.machine.may_act():
            self._poll()
            world.after(AGAIN_US, lambda: done(None))
        elif world.away(self.host, node) or world.rng.random() < 0.1:
            world.after(START_US, lambda: done(Started("its host does not answer")))
        else:
            self.book[broker] = Entry(node)
            world.launched[broker] = self
            world.after(world.rng.choice([300_000, 1_500_000]), lambda: done(Started()))

    def _dismiss(self, broker: str, done: Callable[..., None]) -> None:
        def dismiss(name: str, machine: Any) -> bool:
            self.world.give(name, Dismiss(broker))
            return broker in machine.lifecycle.left

        others = [name for name in self.brokers() if name != broker and self.book[name].machine is not None]
        self._gather(others, ASK_US, dismiss, lambda said: done(Dismissed(any(said.values()))), order=True)

    def _forget(self, broker: str, undo: bool, done: Callable[..., None]) -> None:
        def gone(ended: bool) -> None:
            if not ended:
                self.world.after(AGAIN_US, done)
                return
            if undo:
                self.world.check_undone(broker)
            else:
                self.world.check_left(broker)
            for name in [name for name in self.book if broker_of(name) == broker]:
                del self.book[name]
                self.turns.drop(name)
            self.members = tuple(member for member in self.members if member != broker)
            self.world.forget(broker)
            self.world.launched.pop(broker, None)
            done(Undone() if undo else Forgotten())

        if broker in self.book and self.book[broker].machine is not None:
            self._end(broker, True, gone)
        else:
            gone(True)

    def _looked(self, broker: str, then: Callable[[Looked], None]) -> None:
        def led(leading: SequencerStatus | None) -> None:
            entry = self.book.get(broker)
            if entry is None or entry.machine is None:
                then(Looked(leading, None, entry is not None, False, False, 0))
                return
            self._gather([broker], ASK_US, lambda name, machine: machine.report(), lambda found: then(
                Looked(leading, found.get(broker), True, True, self.book.get(broker, entry).serving, entry.inc)
            ))  # fmt: skip

        self._leading(led)

    def _leading(self, then: Callable[[SequencerStatus | None], None]) -> None:
        def heard(found: dict[str, SequencerStatus]) -> None:
            leading = [report for report in found.values() if report.role == LEADING]
            then(max(leading, key=lambda report: report.ballot, default=None))

        self._gather([n for n in self.book if is_sequencer(n)], ASK_US, lambda name, machine: machine.report(), heard)

    # ---- spreading

    def _spread(self) -> None:
        if not self.alive:
            return
        world = self.world
        world.after(LOOK_US, self._spread)
        whole = world.whole_for(self)
        if self.moving[0]:
            step = rebalance.onwards(self.moving, self.members, self.changing.change is not None, whole)
            if step == rebalance.DONE:
                self.moving = ("", 0)
                self._tell()
            elif step == rebalance.LEAVE:
                self.remove(f"away {self.moving[0]}", self.moving[0])
        elif self.changing.change is None:
            hosts = [{name: entry.host for name, entry in self.book.items() if of(name)}
                     for of in (is_sequencer, is_ownership, is_broker)]  # fmt: skip
            leading = world.leader()
            duty = world.machines[leading].duty.name if leading else ""
            found = layout.astray(*hosts, [node.host for node in self._nodes()], leading, duty)  # type: ignore[call-arg]
            if self._spreading.ripe(world.now_us // 1000, found is not None, whole) and found is not None:
                world.counts["moved"] = world.counts.get("moved", 0) + 1
                if found[1]:
                    self.moving = (found[0], len(self.members))
                    self._add(f"for {found[0]} {world.now_us}", found[1])
                else:
                    self._dead(found[0])

    # ---- asking

    def _gather(
        self, names: Iterable[str], limit_us: int, answer: Callable[[str, Any], Any],
        then: Callable[[dict[str, Any]], None], order: bool = False,
    ) -> None:  # fmt: skip
        """Ask several processes, or order them something, and go on with what they say in time."""
        asked, found, state = list(names), dict[str, Any](), {"over": False}
        giver = self.machine.commission

        def over() -> None:
            if not state["over"] and self.alive:
                state["over"] = True
                then(found)

        def heard(name: str, value: Any) -> None:
            found[name] = value
            if len(found) == len(asked):
                over()

        def there(name: str, machine: Any, _: int) -> list[Any]:
            if order:
                if not machine.office.admits(giver):
                    return []
                self.world.obeyed(name, giver)
            value = answer(name, machine)
            self.world.call(self.world.home(name), self.host, lambda: heard(name, value))
            return []

        for name in asked:
            self._ask(name, limit_us, there)
        self.world.after(limit_us if asked else 1000, over)

    def _look(self) -> None:
        """One after the other, as soon as it is in office."""
        if not self.alive and self._asked:
            return
        if not self.machine.elected:
            self.world.after(LOOK_US, self._look)
            self._poll()
            return
        self._asked += 1
        if self.alive:
            for name in self._rounds.due(self._watched(), self.world.now_us // 1000):
                self._ask_how(name)
        self.world.after(1000 * self._rounds.wait_ms(self.world.now_us // 1000), self._look)

    def _poll(self) -> None:
        self._asked += 1
        if self.alive:
            for name in self._watched():
                self._ask_how(name)
            self.give(Tick(self.world.now_us // 1000))

    def _watched(self) -> list[str]:
        there = [name for name in self.book if not is_broker(name) or self.book[name].machine is not None]
        return [name for name in there if "." not in name or name not in getattr(
            self.world.machines.get(broker_of(name)), "hosts", _NONE).replicas]  # fmt: skip

    def _ask_how(self, name: str) -> None:
        if is_broker(name):
            self._confirm_at(name, self.machine.elected)
        else:
            self._ask(name, ASK_US, lambda name, machine, asked: self._how(name, machine, asked))

    def _confirm(self, elected: bool) -> None:
        for broker in self.brokers():
            if self.book[broker].machine is not None:
                self._confirm_at(broker, elected)

    def _confirm_at(self, broker: str, elected: bool) -> None:
        giver = self.machine.commission
        self._ask(broker, CONFIRM_US, lambda b, m, asked: self._confirmed(b, m, asked, giver, elected))

    def _ask(self, name: str, limit_us: int, answer: Callable[[str, Any, int], Any]) -> None:
        """Ask a process; `answer` is made there, and its result, an input, is given to the machine here."""
        world, machine, asked = self.world, self.book[name].machine, self.world.now_us // 1000
        state = {"done": False}

        def there() -> None:
            frozen = world._frozen.get(name, 0) - world.now_us
            if world.machines.get(name) is not machine:
                return
            if frozen > 0:
                world.after(frozen + 10, there)
                return
            found = answer(name, machine, asked)
            world.call(world.home(name), self.host, lambda: here(found))

        def here(found: Any) -> None:
            state["done"] = True
            for one in found:
                self.give(one)

        def late() -> None:
            if not state["done"]:
                self.give(Silent(name, asked))

        world.call(self.host, self.book[name].host, there)
        world.after(limit_us, late)

    def _confirmed(self, broker: str, machine: Any, asked: int, giver: Commission, elected: bool) -> list[Any]:
        world = self.world
        for one in (Tick(world.now_us // 1000), Supervises(*giver, elected)):
            world._carry_out(broker, machine.step(one))
        office: Office = machine.office
        number = office.holder.number
        world.told[broker] = max(number, world.told.get(broker, 0))
        linked = frozenset(name for name in world.machines if not world.way(broker, name).down
                           and frozenset((broker, name)) in world._links)  # fmt: skip
        return [Confirmed(broker, asked, office.holder, office.settled, linked, machine.view.promised)]

    def _how(self, name: str, machine: Any, asked: int) -> list[Any]:
        found: list[Any] = [Answered(name)]
        if is_sequencer(name) and machine.election.role == LEADING:
            linked = frozenset(machine.linked)
            found.append(
                Led(
                    asked,
                    machine.order.ballot,
                    dict(machine.evictions.out),
                    frozenset(machine.evictions.absent),
                    linked,
                )
            )
        return found

    def _tell_end(self, name: str, outside: bool) -> None:
        world, giver, machine = self.world, self.machine.commission, self.book[name].machine

        def told(name: str, machine: Any, asked: int) -> list[Any]:
            if not machine.office.admits(giver):
                return []
            world.obeyed(name, giver)
            now_ms = world.now_us // 1000
            why = machine.mandate.needed(now_ms) if is_sequencer(name) else "" if outside else (
                machine.lifecycle.needed(now_ms) if is_broker(name) else "")  # fmt: skip
            if why:
                return [EndRefused(name, why)]
            if not outside:
                world.check_needed(name, machine, "ended")
            world.after(50_000, lambda: world.kill(machine, "ended", agreed=True))
            return [Ended(name)]

        if machine is not None and name in world.machines:
            self._ask(name, ASK_US, told)


def spares(leading: SequencerStatus, broker: str) -> bool:
    """Whether the others are a majority of every stream, with or without this broker among its voters."""
    for stream in leading.streams.values():
        there = [v for v in stream.voters if v not in (broker, *stream.blank, *stream.missing)]
        if not stream.ready or len(there) < majority(stream.voters):
            return False
    return True


class _NONE:
    replicas: dict[str, Any] = {}
