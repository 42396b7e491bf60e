"""The simulator with supervisors: hosts are cut off, and what was said before the cut arrives after it has healed.

Three hosts carry a broker each; the first has the leading sequencer, the first Ownership and the supervisor as well.
What a supervisor decides is `protocol/supervision.py`; what is here carries it out, as `actors/healing.py` does,
over a Ray that delivers late what was asked while a host was cut off. Whoever is ended, or obeys, is looked at by the
checker: no order of an older supervisor has effect at a member that has heard of a newer one, nobody ends who leads or
serves a majority, and in the end one supervisor is in office and all is whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from mantamq.protocol.effects import (
    OWNERSHIP,
    OWNERSHIP2,
    SEQUENCER,
    PeerDown,
    Supervises,
    Tick,
    is_ownership,
    is_sequencer,
)
from mantamq.protocol.frames import Supervised
from mantamq.protocol.office import Commission, Office
from mantamq.protocol.reign import LEADING
from mantamq.protocol.supervision import (
    Answered,
    Ask,
    Confirmed,
    Died,
    Elected,
    End,
    Ended,
    Gone,
    Kill,
    Known,
    Led,
    Refused,
    Replace,
    Resign,
    Silent,
    Spared,
    Stand,
    Supervision,
    TellEnd,
)
from mantamq.protocol.voters import majority

from .model import Violation
from .world import World

LOOK_US = 1_000_000
ASK_US = 2_000_000
CONFIRM_US = 1_000_000
DEPUTY_US = 2_000_000
STORY_US = 120_000_000
WHOLE_US = 90_000_000
LEADERLESS_US = 12_000_000
"""A majority that is neither cut off nor paused has a leader again within that time."""
SUPERVISOR = "supervisor"


class SupervisedWorld(World):
    """A world in which nothing comes back by itself: a supervisor has to start it.

    Attributes:
        host: process -> its host.
        supervisors: by name, those whose process is there.
        counts: what happened, and how often.
    """

    def __init__(self, rng: random.Random, machines: dict[str, Any] | None = None) -> None:
        self.host: dict[str, str] = {}
        self.supervisors: dict[str, Supervisor] = {}
        self.counts: dict[str, int] = {}
        self.told: dict[str, int] = {}  # member -> the highest supervisor's number it has heard of
        self._cut: dict[str, int] = {}  # host -> until when
        self._delayed: list[tuple[str, str, Callable[[], None]]] = []
        self._wanted: set[frozenset[str]] = set()  # links that cannot be there now
        self.legacy: dict[str, tuple[int, Any]] = {}
        super().__init__(rng, machines=machines, replicas=1)
        self.arrivals.append(self._arrived)
        self.deaths.append(self._died)
        self.chance = rng

    # ---- hosts

    def _build(self) -> None:
        self.ownerships = (OWNERSHIP, OWNERSHIP2)
        self.host = {SEQUENCER: "h1", OWNERSHIP: "h1", OWNERSHIP2: "h2"} | {f"b{n}": f"h{n}" for n in (1, 2, 3)}
        super()._build()
        self.start_sequencer("h3")
        self.elect(f"{SUPERVISOR}", "h1", Commission(1, "first", SUPERVISOR))
        for broker in self.brokers:
            self.after(DEPUTY_US, lambda broker=broker: self._deputy(broker, 0))

    def home(self, name: str) -> str:
        return self.host[name.partition(".")[0]]

    def apart(self, one: str, other: str) -> bool:
        """Whether nothing passes between these hosts now."""
        return one != other and any(self._cut.get(host, 0) > self.now_us for host in (one, other))

    def link(self, a: str, b: str) -> None:
        if a in self.machines and b in self.machines and self.apart(self.home(a), self.home(b)):
            self._wanted.add(frozenset((a, b)))
        else:
            super().link(a, b)

    def cut(self, host: str, us: int) -> None:
        """Packets to and from this host vanish; links notice by their heartbeats, and are dialled when it is over."""
        self.counts["cut"] = self.counts.get("cut", 0) + 1
        self._cut[host] = self.now_us + us
        for link in sorted(self._links, key=sorted):
            a, b = sorted(link)
            if a in self.machines and b in self.machines and host in (self.home(a), self.home(b)):
                if self.home(a) != self.home(b) and self.joined(a, b):
                    self._part(a, b)
        self.after(us, self._healed)

    def _part(self, a: str, b: str) -> None:
        ends = {name: self.machines[name] for name in (a, b)}
        for pair in ((a, b), (b, a)):
            self.way(*pair).cut()
            self.after(self.rng.randrange(3_000_000, 5_000_000), lambda pair=pair: self._notice_cut(ends, pair))
        self._wanted.add(frozenset((a, b)))

    def _notice_cut(self, ends: dict[str, Any], pair: tuple[str, str]) -> None:
        if self._same(ends) and self.way(*pair).down:
            self.give(pair[0], PeerDown(pair[1]))

    def _healed(self) -> None:
        wanted, self._wanted = self._wanted, set()
        for link in sorted(wanted, key=sorted):
            a, b = sorted(link)
            if a in self.machines and b in self.machines:
                # Nobody may have noticed: whoever dials anew has.
                if not self.apart(self.home(a), self.home(b)):
                    self.give(a, PeerDown(b))
                    self.give(b, PeerDown(a))
                self.after(self.rng.randrange(10_000, 500_000), lambda a=a, b=b: self.link(a, b))
        held, self._delayed = self._delayed, []
        for source, target, what in held:
            self.call(source, target, what)

    def call(self, source: str, target: str, what: Callable[[], None]) -> None:
        """Something is asked from host to host by way of Ray: it is late at times, and waits while there is no way."""
        late = self.rng.choice([1_000, 5_000, 20_000, 20_000, 300_000])
        self.after(self.rng.randrange(500, late + 1_000), lambda: self._deliver(source, target, what))

    def _deliver(self, source: str, target: str, what: Callable[[], None]) -> None:
        if self.apart(source, target):
            self._delayed.append((source, target, what))
        else:
            what()

    # ---- processes

    def start_sequencer(self, host: str) -> str:
        name = f"{SEQUENCER}{self._sequencers + 1}"
        self.host[name] = host
        self._start_sequencer()
        return name

    def start_again(self, name: str, host: str) -> None:
        """What a supervisor brings in place of one that is gone."""
        if is_sequencer(name):
            self.start_sequencer(host)
        elif is_ownership(name):
            self.host[name] = host
            self.start_ownership(name)
        elif "." in name:
            self.add_replica(name.partition(".")[0])
        else:
            self.host[name] = host
            self._start_broker(name)

    def _died(self, name: str, machine: Any) -> None:
        self.told.pop(name, None)
        for supervisor in list(self.supervisors.values()):
            self.call(self.home(name), supervisor.host, lambda s=supervisor: s.died(name, machine))

    def kill(self, machine: Any, why: str) -> None:
        """A process is ended from outside, or ends since it was told to."""
        name = next((name for name, other in self.machines.items() if other is machine), "")
        if not name:
            return
        self._check_needed(name, machine, why)
        self.counts[why] = self.counts.get(why, 0) + 1
        for replica in [other for other in self.machines if other.startswith(name + ".")]:
            self.crash(replica)
        self.crash(name)

    # ---- supervisors

    def elect(self, name: str, host: str, commission: Commission) -> None:
        if name in self.supervisors:
            return  # Ray gives a name to one
        self.counts["supervisors"] = self.counts.get("supervisors", 0) + 1
        self.supervisors[name] = Supervisor(self, name, host, commission)

    def _deputy(self, broker: str, missed: int) -> None:
        """What `actors/deputy.py` does."""
        machine = self.machines.get(broker)
        self.after(DEPUTY_US, lambda: self._deputy(broker, 0 if self.supervisors else missed + 1))
        if machine is None or broker in self._frozen:
            return
        rank, office, now_ms = self.brokers.index(broker), machine.office, self.now_us // 1000
        others = [
            (other.office.holder.number, other.office.silent_ms(now_ms))
            for name in self.brokers
            if name != broker and (other := self.machines.get(name)) is not None
            if name not in self._frozen and not self.apart(self.home(name), self.home(broker))
        ]
        vacant = not self.supervisors and missed > 1 + rank
        if vacant or office.out_of_reach(now_ms, rank, others, len(self.brokers)):
            name = SUPERVISOR if vacant else f"{SUPERVISOR}{office.holder.number + 1}"
            self.elect(name, self.home(broker), Commission(0, f"{name} {self.now_us}", name))

    # ---- checks

    def _arrived(self, source: str, target: str, frame: Any) -> None:
        if type(frame) is Supervised:
            self.told[target] = max(frame.number, self.told.get(target, 0))

    def obeyed(self, name: str, giver: Commission) -> None:
        """A member has taken an order."""
        if giver.number < self.told.get(name, 0):
            raise Violation(f"{name} obeys supervisor {giver.number}, and has heard of {self.told[name]}")
        self.told[name] = giver.number

    def leader(self) -> str:
        """The sequencer that leads a majority now, "" for none."""
        for name in self.sequencers():
            machine = self.machines[name]
            if machine.reign.role != LEADING or machine.deposed is not None or name in self._frozen:
                continue
            follow = [
                b for b in self.brokers
                if b in self.machines and b not in self._frozen and self.machines[b].following.attached
                and self.machines[b].following.leader == name and machine.pulse.followed(self.now_us // 1000)
                and not self.apart(self.home(b), self.home(name))
            ]  # fmt: skip
            if len(follow) >= majority(self.brokers):
                return name
        return ""

    def _check_needed(self, name: str, machine: Any, why: str) -> None:
        leading = self.leader()
        if name == leading:
            raise Violation(f"{name} leads a majority and is ended ({why})")
        if name in self.brokers and leading and name not in self._frozen:
            leader = self.machines[leading]
            serves = machine.following.leader == leading and machine.following.attached and name not in leader.absent
            if serves and not machine.lease.expired(self.now_us // 1000) and not machine.keeper.blank:
                raise Violation(f"{name} serves under {leading} and is ended ({why})")


class Supervisor:
    """One supervisor's process: the shell of `Supervision` here."""

    def __init__(self, world: SupervisedWorld, name: str, host: str, commission: Commission) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.machine = Supervision(commission, elected=commission.number > 0)
        # The book, as it was left to the next: who is to be there, and by which process.
        self.book: dict[str, tuple[int, Any]] = dict(world.legacy)
        self._healing: list[str] = []
        self._under_way = ""
        self._asked = 0
        if not self.book:
            for member in world.machines:
                self._note(member)
            self._tell()
        self._look()

    @property
    def alive(self) -> bool:
        return self.world.supervisors.get(self.name) is self

    def end(self) -> None:
        if self.alive:
            del self.world.supervisors[self.name]

    def _note(self, name: str) -> None:
        """A process is there, and this supervisor has started it, or was told of it."""
        machine = self.world.machines[name]
        self.book[name] = (getattr(machine, "inc", 0) or getattr(machine, "uid", 0), machine)

    def _tell(self) -> None:
        """Every broker keeps a copy of the book, for the next supervisor."""
        self.world.legacy = dict(self.book)

    # ---- the machine's shell

    def give(self, input: Any) -> None:
        if not self.alive:
            return
        known = Known({name: inc for name, (inc, _) in self.book.items()}, list(self.world.brokers))
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
            self.book = dict(world.legacy)
            for name, (_, machine) in self.book.items():
                if world.machines.get(name) is not machine:
                    world.call(self.host, self.host, lambda n=name, m=machine: self.died(n, m))
            world.counts["elected"] = world.counts.get("elected", 0) + 1
        elif kind is Resign:
            world.counts["resigned"] = world.counts.get("resigned", 0) + 1
            self.end()
        elif kind is Replace:
            self._healing.append(deed.name)
            self._next()
        elif kind is TellEnd and deed.name in self.book:
            self._tell_end(deed.name, deed.outside)
        elif kind is Kill and deed.name in self.book:
            target = self.book[deed.name][1]
            world.call(self.host, world.home(deed.name), lambda: world.kill(target, "killed"))
        elif kind is Gone:
            world.after(world.rng.choice([20_000, 400_000, 1_500_000]), lambda: self._start(deed.name))
        elif kind is Spared:
            self._finished(deed.name)

    def _next(self) -> None:
        """One after the other, as the healer goes."""
        while self._healing and self._healing[0] not in self.book:
            self._healing.pop(0)  # it has gone with its broker
        if self._healing and self.alive and self._under_way != self._healing[0]:
            self._under_way = self._healing[0]
            self.give(End(self._healing[0]))

    def _start(self, name: str) -> None:
        """It is gone: another comes, if we may still act."""
        world = self.world
        if not self.alive:
            return
        if not self.machine.may_act():
            self._poll()
            world.after(200_000, lambda: self._start(name))
            return
        if name in world.machines and world.machines[name] is self.book.get(name, (0, None))[1]:
            world.after(50_000, lambda: self._start(name))  # the last of it is on its way
            return
        before = set(world.machines)
        self.book.pop(name, None)
        if name not in world.machines and ("." not in name or name.partition(".")[0] in world.machines):
            reachable = [host for host in ("h1", "h2", "h3") if not world.apart(host, self.host)]
            used = {world.home(other) for other in world.machines if is_sequencer(other)}
            free = [host for host in reachable if host not in used] if is_sequencer(name) else []
            home = world.home(name)
            world.start_again(name, free[0] if free else home if home in reachable else self.host)
            world.counts["started"] = world.counts.get("started", 0) + 1
        for other in set(world.machines) - before:
            self._note(other)
        for other in [o for o in self.book if o not in world.machines and o.partition(".")[0] == name]:
            del self.book[other]
        self._tell()
        self._finished(name)

    def _finished(self, name: str) -> None:
        self._under_way = ""
        if name in self._healing:
            self._healing.remove(name)
        self._next()

    def died(self, name: str, machine: Any) -> None:
        if self.book.get(name, (0, None))[1] is machine:
            self.give(Died(name, True))

    # ---- asking

    def _look(self) -> None:
        if self.alive or not self._asked:
            self.world.after(LOOK_US, self._look)
            self._poll()

    def _poll(self) -> None:
        self._asked += 1
        if not self.alive:
            return
        self._confirm(self.machine.elected)
        for name in list(self.book):
            parted = "." in name and name not in getattr(self.world.machines.get(name.partition(".")[0]), "hosts",
                                                         _NONE).replicas  # fmt: skip
            if is_sequencer(name) or is_ownership(name) or parted:
                self._ask(name, ASK_US, lambda name, machine, asked: self._how(name, machine, asked))
        self.give(Tick(self.world.now_us // 1000))

    def _confirm(self, elected: bool) -> None:
        giver = self.machine.commission
        for broker in self.world.brokers:
            if broker in self.book:
                self._ask(broker, CONFIRM_US, lambda b, m, asked: self._confirmed(b, m, asked, giver, elected))

    def _ask(self, name: str, limit_us: int, answer: Callable[[str, Any, int], Any]) -> None:
        """Ask a process; `answer` is made there, and its result, an input, is given to the machine here."""
        world, machine, asked = self.world, self.book[name][1], self.world.now_us // 1000
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

        world.call(self.host, world.home(name), there)
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
        return [Confirmed(broker, asked, office.holder, office.settled, linked, machine.following.promised)]

    def _how(self, name: str, machine: Any, asked: int) -> list[Any]:
        found: list[Any] = [Answered(name)]
        if is_sequencer(name) and machine.reign.role == LEADING:
            linked = frozenset(machine.linked)
            found.append(Led(asked, machine.ballot, dict(machine.out), frozenset(machine.absent), linked))
        return found

    def _tell_end(self, name: str, outside: bool) -> None:
        world, giver, machine = self.world, self.machine.commission, self.book[name][1]

        def told(name: str, machine: Any, asked: int) -> list[Any]:
            if not machine.office.admits(giver):
                return []
            world.obeyed(name, giver)
            now_ms = world.now_us // 1000
            why = machine.charges.needed(now_ms) if is_sequencer(name) else "" if outside else (
                machine.standing.needed(now_ms) if name in world.brokers else "")  # fmt: skip
            if why:
                return [Refused(name, why)]
            world.after(50_000, lambda: world.kill(machine, "ended"))
            return [Ended(name)]

        if world.machines.get(name) is machine or name in world.machines:
            self._ask(name, ASK_US, told)


class _NONE:
    replicas: dict[str, Any] = {}


def play_supervised(seed: int) -> SupervisedWorld:
    """Play one seed: cuts, pauses and deaths of hosts' processes, then rest.

    Raises:
        Violation: a rule is broken.
    """
    rng = random.Random(seed)
    world = SupervisedWorld(rng)
    world.run_for(5_000_000)
    end = world.now_us + STORY_US
    while world.now_us < end:
        world.run_for(rng.randrange(1_000_000, 20_000_000))
        _fault(world, rng)
    world.run_for(30_000_000)
    until = world.now_us + WHOLE_US
    while wrong := _wrong(world):
        if world.now_us > until:
            raise Violation(f"not whole within {WHOLE_US / 1e6:g} simulated seconds: {wrong}; {world.counts}")
        world.run_for(500_000)
    return world


def _fault(world: SupervisedWorld, rng: random.Random) -> None:
    """One thing at a time: of three, a majority is there."""
    kind = rng.choice(["cut", "cut", "cut", "cut home", "cut home", "die", "die", "pause", "supervisor"])
    us = rng.choice([500_000, 3_000_000, 9_000_000, 15_000_000, 28_000_000])
    homes = [supervisor.host for supervisor in world.supervisors.values()] or ["h1"]
    if kind.startswith("cut"):
        world.cut(rng.choice(homes) if kind == "cut home" else rng.choice(["h1", "h2", "h3"]), us)
        if rng.random() < 0.5:  # something dies elsewhere, or there, meanwhile: orders are under way
            world.run_for(rng.randrange(us))
            _die(world, rng)
        world.run_for(max(0, max(world._cut.values()) - world.now_us))
    elif kind == "die":
        _die(world, rng)
    elif kind == "pause":
        world.pause(rng.choice(sorted(world.machines)), us)
        world.run_for(us)
    elif world.supervisors:
        world.supervisors[rng.choice(sorted(world.supervisors))].end()
    served = world.now_us
    while not world.leader():
        if world.now_us - served > LEADERLESS_US:
            raise Violation(f"nobody leads for {LEADERLESS_US / 1e6:g} simulated seconds after {kind}; {world.counts}")
        world.run_for(100_000)
    world.run_for(25_000_000)


def _die(world: SupervisedWorld, rng: random.Random) -> None:
    """A process dies by itself: one of a kind that the others can do without."""
    cut = {host for host, until in world._cut.items() if until > world.now_us}
    names = [name for name in world.machines if not cut or is_sequencer(name) or is_ownership(name)]
    others = [n for n in names if not is_sequencer(n) or len(world.sequencers()) > 1]
    if others and not (cut and len(world.sequencers()) < 2):
        world.crash(rng.choice(sorted(others)))


def _wrong(world: SupervisedWorld) -> str:
    """What is not whole yet."""
    if len(world.supervisors) != 1:
        return f"supervisors: {sorted(world.supervisors)}"
    (supervisor,) = world.supervisors.values()
    if not supervisor.machine.in_office(world.now_us // 1000):
        return "no supervisor in office"
    missing = [b for b in world.brokers if b not in world.machines or world.machines[b].keeper.blank]
    if missing:
        return f"brokers {missing} are not whole"
    if not world.leader():
        return "nobody leads"
    if len(world.sequencers()) < 2 or not all(name in world.machines for name in world.ownerships):
        return "no standby, or an Ownership is missing"
    numbers = {world.machines[b].wiring.supervisor.number for b in world.brokers}
    if numbers != {supervisor.machine.commission.number}:
        return f"the cluster stream says {numbers}, and {supervisor.machine.commission.number} is in office"
    return ""
