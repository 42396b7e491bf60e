"""A network of machines under one seed: virtual time, links that delay and break, batches of any size.

Frames between one pair keep their order; between pairs anything may overtake anything. A machine gets what has arrived
as a shell would give it: `Tick`, the inputs, `Flush`. A link that is cut loses what is on its way; both ends hear of it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any
from zlib import crc32

import msgspec
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.machine import (
    OWNERSHIP,
    OWNERSHIP2,
    SEQUENCER,
    Again,
    Close,
    Dismiss,
    Drain,
    Flush,
    KeepAlive,
    Measured,
    Members,
    Multicast,
    PauseClient,
    PeerDown,
    PeerGone,
    PeerUp,
    Received,
    Retire,
    Send,
    SetTimer,
    Tick,
    WantSpare,
    Warn,
    is_ownership,
    is_sequencer,
)
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import DEFAULT_TIMING, Timing
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.kinds import KIND_OF
from mantamq.protocol.wire.link_frames import Ping, Pong, Refused
from mantamq.protocol.wire.log_frames import Heartbeat, HeartbeatReply, Suspect

from .model import Violation
from .ways import Way

LIVES = 10_000
"""The number of a broker's next process is so much higher; those of its replicas lie between."""
BROKERS = ("b1", "b2", "b3")
START_US = 1_000_000_000
TRACE_KEPT = 400
SLUGGISH_INPUTS = 8
"""A slow process takes at most this many inputs at a time."""
HEARTBEATS = frozenset((Heartbeat, HeartbeatReply, Ping, Pong))
FLUSH, PONG = Flush(), Pong()
Machines = dict[str, Callable[..., Any]]
Pair = tuple[str, str]
Rules = dict[type, Callable[[str, str, Any], None]]
"""Kind of frame -> what is called with (source, target, frame)."""
Words = dict[type, Callable[[str, Any], None]]
"""Kind of input that is no frame -> what is called with (machine, input)."""


class World:
    """All machines of a cluster.

    Args:
        rng: the seed's generator: the only source of chance.
        codec: frames pass through the real encoder and decoder.
        fixed: no chance in the network: every frame takes 100 us, every batch is whole (for scenarios).
        slice_ms: the consume lock's time slice.
        replicas: replicas per broker; 0 lets chance decide.
        timing, limits: those of all machines.
        brokers: their ids.
        standby: whether there are a second sequencer and a second Ownership, and processes that die come back.
        machines: classes to build, by role; mutants put their own here.

    Attributes:
        taps: called with (source, target, frame) when any frame is sent, before those who watch for its kind (`watch`).
        arrivals: called with (source, target, frame) when a machine or client is given any frame, before those.
        given: machine -> the last frame it was given.
        steps: called with the machine's name after each batch.
        trace: the last frames sent, as (time, source, target, frame); `digest` covers all of them.
        posted: how many frames were sent, heartbeats apart.
        noticed_us: when the last broken line of a client is known to its broker.
        crashes: how many processes have died.
        begun_us: when the last process has begun or ended, or will begin that is known to come.
        deaths: called with (name, machine) when a process dies.
        spares: whether every stream has its majority without that broker, so that it may be gone for good.
        calm: whether no fault goes on that may yet end a process.
        durable: whether the queue of a name is to be declared durable: only where brokers have stores.
        blackouts: whether all nodes may lose power at once: only where all queues are durable.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        codec: bool = False,
        fixed: bool = False,
        slice_ms: int = 20,
        replicas: int = 0,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
        machines: Machines | None = None,
        brokers: tuple[str, ...] = BROKERS,
        standby: bool = False,
    ) -> None:
        self.rng = rng
        self._bits = rng.getrandbits
        self.brokers = brokers
        self.standby = standby
        self.crashes = self.begun_us = 0
        self.deaths: list[Callable[[str, Any], None]] = []
        self.spares: Callable[[str], bool] = lambda broker: True
        self.calm: Callable[[], bool] = lambda: True
        self.ownerships = (OWNERSHIP, OWNERSHIP2) if standby else (OWNERSHIP,)
        self._incs: dict[str, int] = {}
        self._ownership_incs: dict[str, int] = {}
        self._replica_numbers: dict[str, int] = {}
        self._sequencers = 1
        self.leaving: set[str] = set()
        self._links: set[frozenset[str]] = set()
        # Who is cut off together, which brokers had come by then, and until when.
        self._partitions: list[tuple[set[str], set[str], int]] = []
        self._ending: set[tuple[str, str]] = set()  # ways of processes that have died, still to be cut off
        self.doomed: set[str] = set()  # die behind the frame they are just saying
        self._gone: set[str] = set()  # died for good
        self._frozen: dict[str, int] = {}  # paused process -> until when
        self.now_us = START_US
        self.taps: list[Callable[[str, str, Frame], None]] = []
        self.arrivals: list[Callable[[str, str, Frame], None]] = []
        self._on_sent: dict[type, list[Callable[[str, str, Any], None]]] = {}
        self._on_arrived: dict[type, list[Callable[[str, str, Any], None]]] = {}
        self._on_told: dict[type, list[Callable[[str, Any], None]]] = {}
        self.given: dict[str, Frame] = {}
        self.steps: list[Callable[[str], None]] = []
        self.warned: list[Callable[[str, str], None]] = []
        self.clients: dict[str, Any] = {}
        self.noticed_us = 0
        self._guests: set[str] = set()  # every client there ever was
        self.machines: dict[str, Any] = {}
        self.closed: dict[str, tuple[str, str]] = {}
        self.durable: Callable[[str], bool] = lambda name: False
        self.blackouts = False
        self.stores: Any = None  # `stores.Stores`, in stories that have them
        self.trace: deque[tuple[int, str, str, Frame]] = deque(maxlen=TRACE_KEPT)
        self.digest = 0
        self.posted = 0
        self._codec = codec
        self._fixed = fixed
        self._slice_ms = slice_ms
        self._replicas = replicas
        self.timing = timing
        self.limits = limits
        self._classes: Machines = {
            "sequencer": SequencerMachine, "ownership": OwnershipMachine, "broker": BrokerMachine,
            "replica": ReplicaMachine,
        } | (machines or {})  # fmt: skip
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._ways: dict[Pair, Way] = {}
        self._said: Frame | None = None  # what was sent last, and its bytes: one frame goes to many
        self._bytes = b""
        self._encode = msgspec.msgpack.Encoder().encode
        self._inbox: dict[str, deque[Any]] = {}
        self._due: set[str] = set()
        self._timers: dict[str, int] = {}
        self._unread: set[str] = set()  # clients that are not read now
        self._waiting: dict[str, list[Any]] = {}  # broker -> inputs from clients that it has not read, oldest first
        self._sluggish: dict[str, tuple[int, int]] = {}  # slow process -> until when, and how long it takes for a batch
        self._build()

    def _build(self) -> None:
        classes = self._classes
        members = list(self.brokers)
        self.machines[SEQUENCER] = classes["sequencer"](7, members, timing=self.timing, limits=self.limits)
        for broker in members:
            self._incs[broker] = 1
            self.machines[broker] = self._broker(broker)
            self.give(broker, Members({b: f"{b}:1" for b in members}))
        for name in self.ownerships:
            self.start_ownership(name)
        for broker in members:
            self.link(SEQUENCER, broker)
            for _ in range(self._replicas or self.rng.choice([1, 2, 3])):
                self.add_replica(broker)
        if self.standby:
            for _ in range(self.rng.choice([1, 2, 2])):
                self._start_sequencer()

    def _broker(self, name: str, **options: Any) -> Any:
        machine = self._classes["broker"](
            name, self._incs[name], list(self.brokers), timing=self.timing, limits=self.limits, **options
        )
        if hasattr(machine, "connections"):  # a voter alone has no clients
            machine.connections.cluster = "simulated"
        return machine

    def sequencers(self) -> list[str]:
        return [name for name in self.machines if is_sequencer(name)]

    def add_replica(self, broker: str) -> None:
        if broker not in self.machines:
            return
        self.begun_us = max(self.begun_us, self.now_us)
        number = self._replica_numbers.get(broker, 0)
        self._replica_numbers[broker] = number + 1
        name = f"{broker}.r{number}"
        fellows = [other for other in self.machines if "." in other and not other.startswith(broker + ".")]
        self.machines[name] = self._classes["replica"](
            name, broker, self._incs[broker], timing=self.timing, limits=self.limits
        )
        for peer in (*self.sequencers(), *self.ownerships, broker, *fellows):
            if peer in self.machines:
                self.link(peer, name)
        if self.stores is not None:
            self.stores.link(broker, name)

    # ---- processes that die and come back

    def _start_sequencer(self) -> None:
        self._sequencers += 1
        name = f"{SEQUENCER}{self._sequencers}"
        self.machines[name] = self._classes["sequencer"](
            100 + self._sequencers, list(self.brokers), leading=False, timing=self.timing, limits=self.limits
        )
        for other in list(self.machines):
            if not is_sequencer(other):
                self.link(name, other)

    def _start_broker(self, broker: str) -> None:
        if broker in self._gone:
            return
        for replica in [name for name in self.machines if name.startswith(broker + ".")]:
            self.crash(replica)
        self._incs[broker] += LIVES
        blank = True
        if self.stores is not None:
            self.stores.born(broker)
            blank = broker in self.stores.new
        self.machines[broker] = self._broker(broker, blank=blank)
        self.give(broker, Members({b: f"{b}:1" for b in self.brokers}))
        if self.stores is not None:
            self.stores.begin(broker)
        for sequencer in self.sequencers():
            self.link(sequencer, broker)
        for _ in range(self._replicas or self.rng.choice([1, 2])):
            self.add_replica(broker)

    def life(self, broker: str) -> int:
        """The number of a broker's processes of now, or of those that were the last."""
        return self._incs[broker]

    def add_broker(self) -> str:
        """A new member: blank, and voter of nothing yet."""
        broker = f"b{len(self._incs) + 1}"
        self.brokers = (*self.brokers, broker)
        self._incs[broker] = 0
        self._start_broker(broker)
        self._tell_members()
        return broker

    def _tell_members(self) -> None:
        """Tell every broker who is there, as a supervisor does."""
        for broker in self.brokers:
            if broker in self.machines:
                self.give(broker, Members({b: f"{b}:1" for b in self.brokers}))

    def remove_broker(self, broker: str) -> None:
        """Have a member leave, or taken out if it is dead for good, as whoever supervises the cluster does: ask until it
        is done."""
        self.leaving.add(broker)
        if broker in self._gone:
            others = [b for b in self.brokers if b in self.machines and b not in self.leaving]
            if others:
                self.give(self.rng.choice(others), Dismiss(broker))
        elif broker in self.machines:
            self.give(broker, Drain())
        self.after(500_000, lambda: self._look_after(broker))

    def _look_after(self, broker: str) -> None:
        """Done when it says so itself, or a member whom it was asked of."""
        if any(b in self.machines and broker in self.machines[b].lifecycle.left for b in self.brokers):
            self._end(broker)
        elif broker in self.leaving:
            self.remove_broker(broker)

    def _end(self, broker: str) -> None:
        """It is no member any more."""
        self.brokers = tuple(b for b in self.brokers if b != broker)
        self.leaving.discard(broker)
        self._gone.add(broker)
        self.crash(broker, back=False)
        self._tell_members()

    def start_ownership(self, name: str) -> None:
        inc = self._ownership_incs[name] = self._ownership_incs.get(name, 0) + 1
        self.machines[name] = self._classes["ownership"](inc, self._slice_ms, name, timing=self.timing)
        for other in list(self.machines):
            if is_sequencer(other) or "." in other:
                self.link(other, name)

    def crash(self, name: str, back: bool = True) -> None:
        """The process is gone, with all it had not sent; its peers notice. What supervises the cluster starts another
        after a while."""
        machine = self.machines.pop(name, None)
        if machine is None:
            return
        self.crashes += 1
        self.begun_us = max(self.begun_us, self.now_us)
        for told in self.deaths:
            told(name, machine)
        self._inbox.pop(name, None)
        self._timers.pop(name, None)
        self._frozen.pop(name, None)
        self._sluggish.pop(name, None)
        self._waiting.pop(name, None)
        self._links = {link for link in self._links if name not in link}
        for other in [*self.machines, *self.clients]:
            # Frames handed to its link before it died may still arrive, or only the first of them.
            said = self.way(name, other)
            said.down = True
            behind = min(said.last_us, self.now_us + 40_000)
            self._ending.add((name, other))
            self.at(self.rng.randrange(self.now_us, max(behind, self.now_us) + 2), self._end_way, name, other)
            self.way(other, name).cut()
            if other in self.machines:
                # Behind what may still arrive from it.
                at = max(said.last_us, self.now_us + self.rng.randrange(10, 3000))
                self.at(at, lambda other=other, machine=machine: self._tell_dead(other, name))
        for client in [c for c, at in self.clients.items() if getattr(at, "broker", "") == name]:
            # Frames sent to it may still arrive before it notices.
            at = max(self.way(name, client).last_us, self.now_us + self.rng.randrange(10, 3000))
            if self.clients[client].outlives():
                self.at(at, lambda client=client: self._hang_up(client, "the broker died"))
            else:
                del self.clients[client]
        if not back:
            self._gone.add(name)
            for replica in [other for other in self.machines if other.startswith(name + ".")]:
                self.crash(replica, back=False)
        if name in self.leaving and name in self.brokers and self.rng.random() < 0.5 and self.spares(name):
            self._gone.add(name)  # it is not started again
        if not back or not self.standby or name.partition(".")[0] in self._gone:
            return
        delay_us = self.rng.choice([50_000, 400_000, 1_500_000, 4_000_000])
        held = self.stores is not None and name in self.brokers
        if held and self.rng.random() < 0.6:  # before anybody has noticed, or soon after
            delay_us = self.rng.choice([1_000, 20_000, 100_000])
        if is_sequencer(name):
            self._comes(delay_us, self._start_sequencer)
        elif is_ownership(name):
            self._comes(delay_us, lambda: self.start_ownership(name))
        elif name in self.brokers:
            self._comes(delay_us, lambda: self._start_broker(name))
        else:
            self._comes(delay_us, lambda: self.add_replica(name.partition(".")[0]))

    def _comes(self, delay_us: int, begin: Callable[[], None]) -> None:
        """A process begins after that time."""
        self.begun_us = max(self.begun_us, self.now_us + delay_us)
        self.after(delay_us, begin)

    def _hang_up(self, client: str, reason: str) -> None:
        """A client finds its connection closed."""
        found = self.clients.pop(client, None)
        if found is not None:
            found.hung_up(reason)

    def _tell_dead(self, other: str, name: str) -> None:
        # Not if another of that name has come meanwhile, or is about to be heard of: the end of an older link is never
        # told behind the beginning of a newer one. It may have died before this one heard that it had come.
        coming = any(type(input) is PeerUp and input.peer == name for input in self._inbox.get(other, ()))
        if name not in self.machines or (self.way(other, name).down and not coming):
            self.give(other, PeerDown(name))
            if is_sequencer(name) and self.rng.random() < 0.5:  # nobody listens there any more
                self.after(self.rng.randrange(1, 50_000), lambda: self.give(other, PeerGone(name)))

    def pause(self, name: str, us: int) -> None:
        """The process stands still; its links stay open, and what comes waits."""
        if name in self.machines:
            self._frozen[name] = self.now_us + us
            self.after(us, lambda: self._thaw(name))

    def slow(self, name: str, us: int, batch_us: int) -> None:
        """The process goes on, but a batch takes it long."""
        if name in self.machines:
            self._sluggish[name] = (self.now_us + us, batch_us)

    def give_up(self, replica: str, us: int) -> None:
        """A replica stands still; its broker loses the link to it, which it learns only behind all else."""
        broker = replica.partition(".")[0]
        machine = self.machines[replica]
        self.pause(replica, us)
        self.way(broker, replica).cut()
        self.way(replica, broker).cut()
        self.give(broker, PeerDown(replica))
        end_us = us + self.rng.choice([0, 1_000, 50_000])
        self.after(
            end_us, lambda: self.give(replica, PeerDown(broker)) if self.machines.get(replica) is machine else None
        )

    def _thaw(self, name: str) -> None:
        if self._frozen.get(name, self.now_us + 1) <= self.now_us:
            del self._frozen[name]
            self._wake(name, 0)

    def suspect_leader(self, standby: str) -> None:
        """Every broker asks a standby to take over, whether or not anything is wrong."""
        for broker in self.brokers:
            if broker in self.machines:
                promised = self.machines[broker].view.promised
                self.give(standby, Received(broker, Suspect(promised, broker)))

    def serves(self, broker: str) -> bool:
        """Whether a client that tries this broker would be let in."""
        machine = self.machines.get(broker)
        if machine is None or broker in self._frozen or broker in self.leaving:
            return False
        return machine.lifecycle.returned and (self.stores is None or machine.store.opened)

    # ---- links

    def way(self, source: str, target: str) -> Way:
        way = self._ways.get((source, target))
        if way is None:
            way = self._ways[source, target] = Way(source, target)
        return way

    def joined(self, a: str, b: str) -> bool:
        """Whether the link between the two is open in both directions, by what they have noticed."""
        return not self.way(a, b).down and not self.way(b, a).down

    def _end_way(self, source: str, target: str) -> None:
        """What a process that has died had sent is lost from now on, unless that is so already."""
        if (source, target) in self._ending:
            self._ending.discard((source, target))
            self.way(source, target).cut_off()

    def link(self, a: str, b: str) -> None:
        """Both sides hear of it; a side's frames use the new link from then on (`_process`)."""
        if (until_us := self._apart_us(a, b)) > self.now_us:
            self.at(until_us, self.link, a, b)
        elif a in self.machines and b in self.machines:
            for pair in ((a, b), (b, a)):
                self._end_way(*pair)  # an end that is still to come would cut the new link
            self._links.add(frozenset((a, b)))
            self.give(a, PeerUp(b))
            self.give(b, PeerUp(a))

    def links_of_order(self) -> list[Pair]:
        """The links that can be cut and dialled again without anybody having died."""
        hubs = [name for name in self.machines if is_sequencer(name) or is_ownership(name)]
        return [(hub, name) for hub in hubs for name in self.machines
                if ("." in name) or (is_sequencer(hub) and not is_sequencer(name))]  # fmt: skip

    def cut_link(self, a: str, b: str, down_us: int) -> None:
        """Lose what is on its way between two machines; dial again after `down_us`."""
        if a not in self.machines or b not in self.machines or not self.joined(a, b):
            return
        for pair in ((a, b), (b, a)):
            self.way(*pair).cut()
            self.give(pair[0], PeerDown(pair[1]))
        self.after(down_us, lambda: self.link(a, b))

    def silence_link(self, a: str, b: str, told_us: tuple[int, int]) -> None:
        """From now on frames between `a` and `b` vanish, and only their own heartbeats tell them: each notices after its
        time in `told_us`, then dials again."""
        if a not in self.machines or b not in self.machines or not self.joined(a, b):
            return
        ends = {name: self.machines[name] for name in (a, b)}
        for pair, us in zip(((a, b), (b, a)), told_us, strict=True):
            self.way(*pair).cut()
            self.after(us, lambda pair=pair: self._notice(ends, pair))
        self.after(max(told_us) + 1_000, lambda: self.link(a, b) if self._same(ends) else None)

    def _same(self, ends: dict[str, Any]) -> bool:
        return all(self.machines.get(name) is machine for name, machine in ends.items())

    def _notice(self, ends: dict[str, Any], pair: Pair) -> None:
        if self._same(ends):  # otherwise its death has been told
            self.give(pair[0], PeerDown(pair[1]))

    def partition(self, brokers: list[str], others: list[str], down_us: int) -> None:
        """Cut these brokers, with their replicas and the `others` named, off from everything else."""
        inside = {name for name in self.machines if name.partition(".")[0] in brokers or name in others}
        for a in sorted(inside):
            for b in [name for name in self.machines if name not in inside]:
                if frozenset((a, b)) in self._links:
                    self.cut_link(a, b, down_us + self.rng.randrange(20_000))

        self._partitions.append((inside | set(brokers), set(self._incs), self.now_us + down_us))

    def _apart_us(self, a: str, b: str) -> int:
        """Until when nothing passes between the two since one is cut off, and the other of a broker that has come since:
        it comes from outside, so it reaches those there alone."""
        hosts = [name.partition(".")[0] for name in (a, b)]
        self._partitions = [cut for cut in self._partitions if cut[2] > self.now_us]
        apart = [
            until_us
            for inside, known, until_us in self._partitions
            if not inside.isdisjoint((a, b, *hosts)) and any(host in self._incs and host not in known for host in hosts)
        ]
        return max(apart, default=0)

    def connect(self, client: Any, name: str, broker: str) -> None:
        if broker not in self.machines:
            return  # refused: nobody listens there
        self.clients[name] = client
        self._guests.add(name)
        self.give(broker, PeerUp(name))

    def cut_client(self, name: str, broker: str, lose: bool = False, late_us: int = 0) -> None:
        """The client is gone: nothing reaches it; the broker hears so behind what it had sent, or (`lose`) at once; or
        later by `late_us`."""
        self.clients.pop(name, None)
        way = self.way(name, broker)
        arrival = self.now_us + 10 + late_us
        if lose:
            way.cut_off()
        else:
            arrival = max(way.last_us, arrival)
        machine = self.machines.get(broker)
        self.noticed_us = max(self.noticed_us, arrival)
        self.at(arrival, lambda: self.give(broker, PeerDown(name)) if self.machines.get(broker) is machine else None)

    def silence_client(self, name: str, broker: str) -> None:
        """Nothing passes between the two any more, and nobody is told."""
        self.clients.pop(name, None)
        self.way(name, broker).cut()
        self.way(broker, name).cut()

    # ---- time

    def at(self, when_us: int, what: Callable[..., None], *arguments: Any) -> None:
        self._order = order = self._order + 1
        now_us = self.now_us
        heappush(self._heap, (when_us if when_us > now_us else now_us, order, what, arguments))

    def after(self, delay_us: int, what: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now_us + delay_us, what, *arguments)

    def run(self, until_us: int) -> None:
        """Let time pass."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, what, arguments = heappop(heap)
            what(*arguments)
        self.now_us = max(self.now_us, until_us)

    def run_for(self, duration_us: int) -> None:
        self.run(self.now_us + duration_us)

    # ---- frames

    def watch(self, sent: Rules | None = None, arrived: Rules | None = None, told: Words | None = None) -> None:
        """Have rules called for every frame of their kinds that is sent, or given to a machine or client; and for what
        else a machine is told by its shell."""
        for rules, named in ((self._on_sent, sent), (self._on_arrived, arrived), (self._on_told, told)):
            for kind, rule in (named or {}).items():
                rules.setdefault(kind, []).append(rule)

    def post(self, source: str, target: str, frame: Frame) -> None:
        kind = frame.__class__
        if kind not in HEARTBEATS:
            self.posted += 1
        now_us = self.now_us
        self.trace.append((now_us, source, target, frame))
        if frame is not self._said:
            self._bytes = self._encode(frame)
            self._said = frame
        way = self._ways.get((source, target))
        if way is None:
            way = self.way(source, target)
        self.digest = crc32(self._bytes, (self.digest + now_us * way.number + KIND_OF[kind]) & 0xFFFFFFFF)
        for tap in self.taps:
            tap(source, target, frame)
        rules = self._on_sent.get(kind)
        if rules is not None:
            for rule in rules:
                rule(source, target, frame)
        if way.down:
            return  # dropped, as a shell drops what has no link
        if self._codec:
            (frame,) = FrameBuffer().feed(encode_frame(frame))
        arrival = now_us + (100 if self._fixed else way.delay_us(self.rng))
        if arrival < way.last_us:
            arrival = way.last_us
        else:
            way.last_us = arrival
        self._order = order = self._order + 1
        heappush(self._heap, (arrival, order, self._arrive, (way, way.epoch, source, target, frame)))

    def _below(self, limit: int) -> int:
        """As `rng.randrange(limit)`, which checks its arguments each time."""
        bits = limit.bit_length()
        number = self._bits(bits)
        while number >= limit:
            number = self._bits(bits)
        return number

    def _arrive(self, way: Way, epoch: int, source: str, target: str, frame: Frame) -> None:
        if epoch != way.epoch:
            return
        client = self.clients.get(target)
        if client is not None:
            self._tell_arrived(source, target, frame)
            client.receive(frame)
        elif target in self.machines:
            if frame.__class__ is not Ping:
                self.give(target, Received(source, frame))
            elif target not in self._frozen:  # the shell answers
                self.post(target, source, PONG)
        elif self.stores is not None:
            self.stores.receive(source, target, frame)

    def _tell_arrived(self, source: str, target: str, frame: Frame) -> None:
        for tap in self.arrivals:
            tap(source, target, frame)
        rules = self._on_arrived.get(frame.__class__)
        if rules is not None:
            for rule in rules:
                rule(source, target, frame)

    def give(self, name: str, input: Any) -> None:
        if name not in self.machines:
            return
        if (
            self._unread
            and type(input) in (Received, PeerDown)
            and input.peer in self._guests
            and input.peer in self._unread
        ):
            self._waiting.setdefault(name, []).append(input)
            return
        inbox = self._inbox.get(name)
        if inbox is None:
            inbox = self._inbox[name] = deque()
        inbox.append(input)
        delay_us = 0
        if not self._fixed:
            while (drawn := self._bits(2)) > 2:
                pass
            delay_us = (0, 10, 300)[drawn]
        if name not in self._due:
            self._due.add(name)
            self._order = order = self._order + 1
            heappush(self._heap, (self.now_us + delay_us, order, self._process, (name,)))

    def measure(self, name: str, has: Measured) -> None:
        """A process hears how much memory it has. Its shell measures when the process has time: what it had some batches
        ago a slow one, or one that stood still, never hears."""
        inbox = self._inbox.get(name, ())
        stale = next((place for place, input in enumerate(inbox) if type(input) is Measured), None)
        if stale is None:
            self.give(name, has)
        else:
            inbox[stale] = has  # type: ignore[index]

    def _wake(self, name: str, delay_us: int) -> None:
        if name not in self._due:
            self._due.add(name)
            self.at(self.now_us + delay_us, self._process, name)

    def _process(self, name: str) -> None:
        self._due.discard(name)
        machine = self.machines.get(name)
        if machine is None or name in self._frozen:
            return
        inbox = self._inbox.get(name) or ()
        count = len(inbox)
        if not self._fixed and self.rng.random() >= 0.7:
            count = self._below(count + 1)
        if name in self._sluggish:
            until_us, batch_us = self._sluggish[name]
            if self.now_us < until_us:
                count = min(count, SLUGGISH_INPUTS)
                self.pause(name, batch_us)
        step, machines = machine.step, self.machines
        if effects := step(Tick(self.now_us // 1000)):
            self._carry_out(name, effects)
            if machines.get(name) is not machine:
                return  # it has retired
        for _ in range(count):
            input = inbox.popleft()  # type: ignore[union-attr]
            kind = input.__class__
            if kind is Received:
                frame = self.given[name] = input.frame
                if self.arrivals or frame.__class__ in self._on_arrived:
                    self._tell_arrived(input.peer, name, frame)
            elif kind is PeerUp:
                self.way(name, input.peer).down = False
            elif kind in self._on_told:
                for rule in self._on_told[kind]:
                    rule(name, input)
            if effects := step(input):
                self._carry_out(name, effects)
                if machines.get(name) is not machine:
                    return
        if effects := step(FLUSH):
            self._carry_out(name, effects)
            if machines.get(name) is not machine:
                return
        for seen in self.steps:
            seen(name)
        if inbox:
            self._wake(name, 10)

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            if self._dies(name):
                return
            kind = type(effect)
            if kind is Send:
                self.post(name, effect.peer, effect.frame)
            elif kind is Multicast:
                for peer in effect.peers:
                    if not self._dies(name):
                        self.post(name, peer, effect.frame)
            elif kind is SetTimer:
                self._set_timer(name, effect.at_ms * 1000)
            elif kind is Again:
                self._wake(name, 10)
            elif kind is PauseClient:
                self._pause(name, effect.peer, effect.paused)
            elif kind is Close:
                self.closed[effect.peer] = (effect.code, effect.text)
                self._close(name, effect)
            elif kind is Retire:
                if effect.left:
                    self._end(name)
                else:
                    self.crash(name)
                return
            elif kind is KeepAlive:
                pass  # `give_up` is what comes of it
            elif kind is Warn:
                for hears in self.warned:
                    hears(name, effect.text)
            elif kind is WantSpare:
                if not self._fixed and sum(other.startswith(name + ".") for other in self.machines) < 4:
                    self._comes(self.rng.randrange(1, 20_000), lambda: self.add_replica(name))
            elif self.stores is None or not self.stores.carries_out(name, effect):
                raise TypeError(f"{name} asks for {effect!r}, which the world cannot do")

    def _close(self, broker: str, effect: Close) -> None:
        """The shell says why, behind all else, and closes the connection. No member has a reason to, with another."""
        if effect.peer in self.machines:
            raise Violation(f"{broker} is told by {effect.peer} what breaks a rule: {effect.code}, {effect.text}")
        client = self.clients.get(effect.peer)
        if client is not None and client.outlives():
            self.post(broker, effect.peer, Refused(effect.code, effect.text))
            self.at(self.way(broker, effect.peer).last_us, lambda: self._hang_up(effect.peer, effect.text))
        else:
            self.clients.pop(effect.peer, None)
        self.give(broker, PeerDown(effect.peer))

    def _dies(self, name: str) -> bool:
        """Whether the process is dead: in the midst of what it says, if it is doomed."""
        if self.doomed and name in self.doomed:
            self.doomed.discard(name)
            self.crash(name)
        return name not in self.machines

    def _pause(self, broker: str, name: str, paused: bool) -> None:
        client = self.clients.get(name)
        if paused:
            self._unread.add(name)
            if client is not None:
                client.unread()
            return
        self._unread.discard(name)
        waiting = self._waiting.pop(broker, [])
        self._waiting[broker] = [input for input in waiting if input.peer in self._unread]
        for input in waiting:
            if input.peer not in self._unread:
                self.give(broker, input)

    def _set_timer(self, name: str, at_us: int) -> None:
        self._timers[name] = at_us
        self.at(at_us, self._timer_due, name, at_us)

    def _timer_due(self, name: str, at_us: int) -> None:
        if self._timers.get(name) == at_us:
            del self._timers[name]
            self._wake(name, 0)
