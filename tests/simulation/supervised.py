"""The simulator with supervisors: hosts are cut off or lost, and what was said before a cut arrives after it has healed.

Three hosts carry a broker each; the first has the leading sequencer, the first Ownership and the supervisor as well.
Brokers join and leave meanwhile, and move to a host that has come back. What a supervisor does is `supervisors.py`.
Whoever is ended, or obeys, is looked at by the checker: no order of an older supervisor has effect at a member that has
heard of a newer one, nobody ends who leads or serves a majority, no newcomer that began is undone, and nobody is
forgotten who has a vote. In the end one supervisor is in office, all is whole, no change of the members stands still,
and one host may fail.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from mantamq.protocol.log.quorum import majority
from mantamq.protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER, PeerDown, broker_of, is_ownership, is_sequencer
from mantamq.protocol.sequencer.election import LEADING
from mantamq.protocol.supervisor.office import Commission
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Supervised

from .model import Violation
from .supervisors import Copy, Supervisor
from .world import BROKERS, World

WATCH_US = 2_000_000
STORY_US = 120_000_000
WHOLE_US = 120_000_000
LEADERLESS_US = 12_000_000
"""A majority that is neither cut off nor paused has a leader again within that time."""
TOGETHER_US = 30_000_000
"""Brokers that died together have begun again by then."""
SUPERVISOR = "supervisor"
CHANGES = 4
MOST = 5
"""Brokers."""


class SupervisedWorld(World):
    """A world in which nothing comes back by itself: a supervisor has to start it.

    Attributes:
        host: process -> its host.
        supervisors: by name, those whose process is there.
        copies: broker -> its process, and what it keeps for the next supervisor.
        launched: newcomer -> who has started its processes, which wait to begin.
        began: newcomer -> when it began.
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
        self._lost: dict[str, int] = {}  # host -> until when
        self._fallen: dict[int, bool] = {}  # machine that died -> whether with its host
        self.copies: dict[str, tuple[Any, Copy]] = {}
        self.launched: dict[str, Supervisor] = {}
        self.began: dict[str, int] = {}
        self.hosts = ("h1", "h2", "h3")
        self._numbers = len(BROKERS)
        super().__init__(rng, machines=machines, replicas=1)
        self.arrivals.append(self._arrived)
        self.deaths.append(self._died)
        self.chance = rng

    # ---- hosts

    def _build(self) -> None:
        self.ownerships = (OWNERSHIP, OWNERSHIP2)
        self.host = {SEQUENCER: "h1", OWNERSHIP: "h1", OWNERSHIP2: "h2"} | {f"b{n}": f"h{n}" for n in (1, 2, 3)}
        super()._build()
        self.meet(self.start_sequencer("h3"))
        for broker in self.brokers:
            self.after(WATCH_US, lambda broker=broker: self._supervisor_watch(broker, 0))
        self.first()

    def first(self) -> None:
        self.elect(f"{SUPERVISOR}", "h1", Commission(1, "first", SUPERVISOR), Copy())

    def home(self, name: str) -> str:
        return self.host[broker_of(name)]

    def apart(self, one: str, other: str) -> bool:
        """Whether nothing passes between these hosts now."""
        return one != other and any(self._cut.get(host, 0) > self.now_us for host in (one, other))

    def away(self, one: str, other: str) -> bool:
        """Whether nothing can be started there now."""
        return self.apart(one, other) or self._lost.get(other, 0) > self.now_us

    def lose(self, host: str, us: int) -> None:
        """All that runs there ends, and nothing can be started there for a while."""
        self.counts["lost"] = self.counts.get("lost", 0) + 1
        self._lost[host] = self.now_us + us
        for supervisor in [one for one in self.supervisors.values() if one.host == host]:
            supervisor.end()
        for name in sorted(name for name in self.machines if self.home(name) == host):
            if name in self.machines:
                self._fallen[id(self.machines[name])] = True
                self.crash(name)

    def surely(self, machine: Any) -> bool:
        """Whether it surely died: its host lives, so it is no cut that is taken for a death."""
        return id(machine) not in self._fallen

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
        """Nobody dials it yet."""
        self._sequencers += 1
        name = f"{SEQUENCER}{self._sequencers}"
        self.host[name] = host
        self.machines[name] = self._classes["sequencer"](100 + self._sequencers, list(self.brokers), leading=False)
        return name

    def meet(self, sequencer: str) -> None:
        """Everybody dials it who does not yet."""
        for other in list(self.machines):
            pair = frozenset((sequencer, other))
            if not is_sequencer(other) and pair not in self._links and pair not in self._wanted:
                self.link(sequencer, other)

    def new_broker(self) -> str:
        """A broker's name that was never used."""
        self._numbers += 1
        return f"b{self._numbers}"

    def begin_broker(self, broker: str, host: str) -> None:
        self.host[broker] = host
        self.launched.pop(broker, None)
        if broker not in self.brokers:
            self.brokers = (*self.brokers, broker)
            self._incs.setdefault(broker, 0)
            self.after(WATCH_US, lambda: self._supervisor_watch(broker, 0))
        self._start_broker(broker)
        self._tell_members()

    def forget(self, broker: str) -> None:
        """A supervisor has forgotten it."""
        self.brokers = tuple(other for other in self.brokers if other != broker)
        self._tell_members()

    def _end(self, broker: str) -> None:
        """It says that it has left."""
        self.crash(broker)
        for replica in [name for name in self.machines if broker_of(name) == broker]:
            self.crash(replica)

    def _died(self, name: str, machine: Any) -> None:
        self.told.pop(name, None)
        for supervisor in list(self.supervisors.values()):
            self.call(
                self.home(name), supervisor.host, lambda s=supervisor: s.died(name, machine, self.surely(machine))
            )

    def kill(self, machine: Any, why: str, agreed: bool = False) -> None:
        """A process is ended from outside, or (`agreed`) ends since it was told to, or it is no member that serves."""
        name = next((name for name, other in self.machines.items() if other is machine), "")
        if not name:
            return
        if not agreed:
            self.check_needed(name, machine, why)
        self.counts[why] = self.counts.get(why, 0) + 1
        for replica in [other for other in self.machines if other.startswith(name + ".")]:
            self.crash(replica)
        self.crash(name)

    # ---- supervisors

    def elect(self, name: str, host: str, commission: Commission, copy: Copy) -> None:
        if name in self.supervisors:
            return  # Ray gives a name to one
        self.counts["supervisors"] = self.counts.get("supervisors", 0) + 1
        self.supervisors[name] = Supervisor.__new__(Supervisor)  # it is there before it says anything
        self.supervisors[name].__init__(self, name, host, commission, copy)

    def _supervisor_watch(self, broker: str, missed: int) -> None:
        """Do as `actors/supervisor/supervisor_watch.py` does."""
        machine = self.machines.get(broker)
        if broker not in self.brokers:
            return
        self.after(WATCH_US, lambda: self._supervisor_watch(broker, 0 if self.supervisors else missed + 1))
        kept, copy = self.copies.get(broker, (None, Copy()))
        if machine is None or broker in self._frozen or kept is not machine:
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
            self.elect(name, self.home(broker), Commission(0, f"{name} {self.now_us}", name), copy)

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
            if machine.election.role != LEADING or machine.election.deposed is not None or name in self._frozen:
                continue
            follow = [
                b for b in self.brokers
                if b in self.machines and b not in self._frozen and self.machines[b].view.attached
                and self.machines[b].view.leader == name and machine.detector.followed(self.now_us // 1000)
                and not self.apart(self.home(b), self.home(name))
            ]  # fmt: skip
            if len(follow) >= majority(self.brokers):
                return name
        return ""

    def check_undone(self, broker: str) -> None:
        """A newcomer that began may have a vote, and is not undone."""
        if broker in self.began:
            raise Violation(f"{broker} has begun, and is undone")

    def check_left(self, broker: str) -> None:
        """A member is forgotten by the cluster's own word only."""
        leading = self.leader()
        stream = self.machines[leading].order.streams.get(CLUSTER) if leading else None
        if stream is not None and stream.ready and broker in stream.voters:
            raise Violation(f"{broker} is forgotten, and votes under {leading}")

    def whole_for(self, supervisor: Supervisor) -> bool:
        """Whether this supervisor finds nothing wrong: nothing is missing, and all answer it."""
        here = supervisor.host
        return not _missing(self) and not any(self.away(here, self.home(name)) for name in self.machines)

    def unspread(self) -> str:
        """Why one host may not fail, though another is there."""
        brokers = Counter(self.home(name) for name in self.brokers)
        for host in self.hosts:
            better = min(brokers[other] for other in self.hosts) + 1 < brokers[host]  # four on three cannot be helped
            if better and len(self.brokers) - brokers[host] < majority(self.brokers):
                return f"{host} carries a majority of the brokers: {dict(brokers)}"
        for names in (self.sequencers(), self.ownerships):
            if len(names) > 1 and len({self.home(name) for name in names}) == 1:
                return f"{' and '.join(names)} share {self.home(names[0])}"
        return ""

    def check_needed(self, name: str, machine: Any, why: str) -> None:
        leading = self.leader()
        if name == leading:
            raise Violation(f"{name} leads a majority and is ended ({why})")
        if name in self.brokers and leading and name not in self._frozen:
            leader = self.machines[leading]
            serves = machine.view.leader == leading and machine.view.attached and name not in leader.evictions.absent
            if serves and not machine.lease.expired(self.now_us // 1000) and not machine.keeper.blank:
                raise Violation(f"{name} serves under {leading} and is ended ({why})")


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
    _rest(world)
    return world


def _rest(world: SupervisedWorld) -> None:
    """No faults any more: everything becomes whole."""
    world.run_for(30_000_000)
    until = world.now_us + WHOLE_US
    while wrong := _wrong(world):
        if world.now_us > until:
            raise Violation(f"not whole within {WHOLE_US / 1e6:g} simulated seconds: {wrong}; {world.counts}")
        world.run_for(500_000)


def _fault(world: SupervisedWorld, rng: random.Random) -> None:
    """One thing at a time: of three, a majority is there."""
    kind = rng.choice(
        [
            "cut",
            "cut",
            "cut home",
            "cut home",
            "die",
            "die",
            "pause",
            "supervisor",
            "lose",
            "member",
            "member",
            "member",
        ]
    )
    us = rng.choice([500_000, 3_000_000, 9_000_000, 15_000_000, 28_000_000])
    if kind == "member":
        _member(world, rng)
        kind = rng.choice(["supervisor", "cut home", "die", "none", "none"])
    homes = [supervisor.host for supervisor in world.supervisors.values()] or ["h1"]
    if kind.startswith("cut"):
        world.cut(rng.choice(homes) if kind == "cut home" else rng.choice(world.hosts), us)
        if rng.random() < 0.5:  # something dies elsewhere, or there, meanwhile: orders are under way
            world.run_for(rng.randrange(us))
            _die(world, rng)
        world.run_for(max(0, max(world._cut.values()) - world.now_us))
    elif kind == "die":
        _die(world, rng)
    elif kind == "lose":
        _lose(world, rng)
    elif kind == "pause":
        world.pause(rng.choice(sorted(world.machines)), us)
        world.run_for(us)
    elif kind == "supervisor" and world.supervisors:
        world.supervisors[rng.choice(sorted(world.supervisors))].end()
    served = world.now_us
    while not world.leader():
        if world.now_us - served > LEADERLESS_US:
            raise Violation(f"nobody leads for {LEADERLESS_US / 1e6:g} simulated seconds after {kind}; {world.counts}")
        world.run_for(100_000)
    world.run_for(25_000_000)


def _member(world: SupervisedWorld, rng: random.Random) -> None:
    """Somebody asks for a change of the members; what comes next may come in the midst of it."""
    if world.supervisors:
        supervisor = world.supervisors[rng.choice(sorted(world.supervisors))]
        request = f"request {world.now_us}"
        if len(world.brokers) < MOST and (len(world.brokers) <= len(BROKERS) or rng.random() < 0.5):
            supervisor.add(request)
        elif len(world.brokers) > len(BROKERS):
            supervisor.remove(request, rng.choice(world.brokers))
        world.run_for(rng.choice([rng.randrange(100_000), rng.randrange(2_000_000), rng.randrange(8_000_000)]))


def _lose(world: SupervisedWorld, rng: random.Random) -> None:
    """A host is lost, with all that is on it, if the others can do without."""
    host = rng.choice(world.hosts)
    if world.unspread() or _missing(world):
        return
    world.lose(host, rng.choice([5_000_000, 40_000_000]))
    world.run_for(max(0, world._lost[host] - world.now_us))


def _die(world: SupervisedWorld, rng: random.Random) -> None:
    """A process dies by itself: one of a kind that the others can do without."""
    cut = {host for host, until in world._cut.items() if until > world.now_us}
    names = [name for name in world.machines if not cut or is_sequencer(name) or is_ownership(name)]
    others = [n for n in names if not is_sequencer(n) or len(world.sequencers()) > 1]
    if others and not (cut and len(world.sequencers()) < 2):
        world.crash(rng.choice(sorted(others)))


def _missing(world: SupervisedWorld) -> str:
    """The processes that are not there, or not whole."""
    missing = [b for b in world.brokers if b not in world.machines or world.machines[b].keeper.blank]
    if missing:
        return f"brokers {missing} are not whole"
    leading = world.leader()
    if not leading:
        return "nobody leads"
    if len(world.sequencers()) < 2 or not all(name in world.machines for name in world.ownerships):
        return "no standby, or an Ownership is missing"
    voters = world.machines[leading].order.streams[CLUSTER].voters
    if sorted(voters) != sorted(world.brokers):
        return f"{voters} vote, and {world.brokers} are members"
    return ""


def _wrong(world: SupervisedWorld) -> str:
    """The processes that are not whole yet."""
    if len(world.supervisors) != 1:
        return f"supervisors: {sorted(world.supervisors)}"
    (supervisor,) = world.supervisors.values()
    if not supervisor.machine.in_office(world.now_us // 1000):
        return "no supervisor in office"
    if supervisor.changing.change is not None:
        return f"a change stands still: {supervisor.changing.under_way()}"
    if missing := _missing(world):
        return missing
    if sorted(supervisor.members) != sorted(world.brokers):
        return f"the supervisor knows {supervisor.members}, and {world.brokers} are members"
    numbers = {world.machines[b].wiring.supervisor.number for b in world.brokers}
    if numbers != {supervisor.machine.commission.number}:
        return f"the cluster stream says {numbers}, and {supervisor.machine.commission.number} is in office"
    return world.unspread()


def play_members(seed: int) -> SupervisedWorld:
    """Members change, and each time the supervisor dies, or its host is cut off, in the midst of it.

    Raises:
        Violation: a rule is broken.
    """
    rng = random.Random(seed)
    world = SupervisedWorld(rng)
    world.run_for(5_000_000)
    for _ in range(CHANGES):
        _member(world, rng)
        world.run_for(rng.randrange(2_500_000))
        for supervisor in list(world.supervisors.values()):
            if rng.random() < 0.5:
                supervisor.end()
            else:
                world.cut(supervisor.host, 15_000_000)
        world.run_for(25_000_000)
    _rest(world)
    return world


def play_return(seed: int) -> SupervisedWorld:
    """A supervisor comes back from a long cut, while nobody leads, so that no stream says who took its place; and its own
    broker dies before it has heard of the other one from everybody.

    Raises:
        Violation: a rule is broken.
    """
    rng = random.Random(seed)
    world = SupervisedWorld(rng)
    world.run_for(5_000_000)
    world.cut("h1", 28_000_000)
    world.run_for(rng.randrange(1_000_000, 8_000_000))
    world.crash(f"{SEQUENCER}2")
    world.run_for(world._cut["h1"] - world.now_us + rng.randrange(150_000))
    if "b1" in world.machines:
        world.crash("b1")
    world.run_for(30_000_000)
    for supervisor in world.supervisors.values():
        supervisor.add("one more")
    _rest(world)
    return world


def play_together(seed: int) -> SupervisedWorld:
    """Two of three brokers die at the same time; the wiring is lost with them, but both begin again.

    Raises:
        Violation: one waits for the other for ever.
    """
    rng = random.Random(seed)
    world = SupervisedWorld(rng)
    world.run_for(5_000_000 + rng.randrange(3_000_000))
    fallen = {broker: world.machines[broker] for broker in ("b2", "b3")}
    for broker in fallen:
        world.crash(broker)
    world.run_for(TOGETHER_US)
    waits = [broker for broker, machine in fallen.items() if world.machines.get(broker) in (None, machine)]
    if waits:
        raise Violation(f"{waits} have not begun again within {TOGETHER_US / 1e6:g} simulated seconds")
    return world
