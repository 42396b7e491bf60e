"""A whole cluster's machines in one process with instant, ordered links: for conversations in unit tests.

The simulator (`tests/simulation`) is the place for delays, reorderings and faults; this is the quiet case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.machine import (
    OWNERSHIP,
    SEQUENCER,
    Again,
    Close,
    Flush,
    KeepAlive,
    Members,
    Multicast,
    PeerDown,
    PeerUp,
    Received,
    Send,
    SetTimer,
    Tick,
)
from mantamq.protocol.ranges import pairs
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.client_frames import Command, Delivery, Open, Reply
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame

IMPATIENT = Timing(patience_ms=0)
"""No time passes in a `MemoryCluster` by itself, so that what is patient would wait for ever."""


class Client:
    """A test's end of a client connection: `got` holds what the broker said, oldest first."""

    def __init__(self, cluster: MemoryCluster, name: str, broker: str) -> None:
        self.cluster, self.name, self.broker = cluster, name, broker
        self.got: deque[Frame] = deque()
        self.closed: tuple[str, str] | None = None
        self.commands = 0

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            self.cluster.post(self.name, self.broker, frame)
        self.cluster.settle()

    def command(self, what: str, /, **arguments: Any) -> Reply:
        self.commands += 1
        self.send(Command(self.commands, what, arguments))
        for frame in list(self.got):
            if isinstance(frame, Reply) and frame.number == self.commands:
                self.got.remove(frame)
                return frame
        raise AssertionError(f"no reply to {what}")

    def take(self, kind: type[Any]) -> list[Any]:
        """All frames of one kind that have come, removed."""
        taken = [frame for frame in self.got if isinstance(frame, kind)]
        self.got = deque(frame for frame in self.got if not isinstance(frame, kind))
        return taken

    def positions(self) -> list[int]:
        """Positions delivered since the last look."""
        return [p for d in self.take(Delivery) for a, b in pairs(d.ranges) for p in range(a, b + 1)]

    def vanish(self) -> None:
        self.cluster.down(self.broker, self.name)
        self.cluster.settle()


class MemoryCluster:
    """Machines of `brokers` brokers with `replicas` replicas each, all with one `timing` and `limits`; `observers`
    watch the machines of these names; `options` go to every BrokerMachine."""

    def __init__(
        self,
        brokers: int = 3,
        replicas: int = 2,
        slice_ms: int = 20,
        timing: Timing = IMPATIENT,
        limits: Limits = DEFAULT,
        observers: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> None:
        self.timing = timing
        self.limits = limits
        watching = observers or {}
        self.now_ms = 1_000_000
        self.members = [f"b{i}" for i in range(1, brokers + 1)]
        self.machines: dict[str, Any] = {
            SEQUENCER: SequencerMachine(7, self.members, timing=timing, limits=limits),
            OWNERSHIP: OwnershipMachine(1, slice_ms, timing=timing),
        }
        self.clients: dict[str, Client] = {}
        self.timers: dict[str, int] = {}
        self.traffic: list[tuple[str, str, Frame]] = []
        self.kept: list[KeepAlive] = []
        self._said: deque[tuple[Frame, bytes]] = deque(maxlen=300)
        self._inbox: deque[tuple[str, Any]] = deque()
        self._holding: tuple[tuple[type[Frame], ...], list[tuple[str, Any]]] = (), []
        for broker in self.members:
            self.machines[broker] = self.broker(broker, 1, observers=watching.get(broker, ()), **options)
            self._inbox.append((broker, Members({b: f"127.0.0.1:{5000 + i}" for i, b in enumerate(self.members)})))
            for i in range(replicas):
                name = f"{broker}.r{i}"
                self.machines[name] = self.queue_replica(name, broker, 1, watching.get(name, ()))
        self._up(SEQUENCER, OWNERSHIP)
        for broker in self.members:
            self._up(SEQUENCER, broker)
            for name in [n for n in self.machines if n.startswith(broker + ".")]:
                for peer in (SEQUENCER, OWNERSHIP, broker):
                    self._up(peer, name)
        names = [name for name in self.machines if "." in name]
        for a, b in combinations(names, 2):
            if a.split(".")[0] != b.split(".")[0]:
                self._up(a, b)
        self.settle()

    def broker(self, name: str, inc: int, **options: Any) -> BrokerMachine:
        """A new process of that broker."""
        return BrokerMachine(name, inc, self.members, timing=self.timing, limits=self.limits, **options)

    def queue_replica(self, name: str, broker: str, inc: int, observers: Sequence[Any] = ()) -> ReplicaMachine:
        return ReplicaMachine(name, broker, inc, self.timing, self.limits, observers)

    def _up(self, a: str, b: str) -> None:
        self._inbox += ((a, PeerUp(b)), (b, PeerUp(a)))

    def know(self, members: dict[str, str]) -> None:
        """Broker ids and addresses of the cluster, told to every broker."""
        self._inbox += [(broker, Members(members)) for broker in self.members]
        self.settle()

    def down(self, machine: str, peer: str) -> None:
        self._inbox.append((machine, PeerDown(peer)))

    def client(self, broker: str, token: str = "", name: str = "", opened: bool = True) -> Client:
        client = Client(self, f"c{len(self.clients) + 1}", broker)
        self.clients[client.name] = client
        self._inbox.append((broker, PeerUp(client.name, "10.9.8.7:4711")))
        if opened:
            client.send(Open(name or client.name, token))
        return client

    def post(self, source: str, target: str, frame: Frame) -> None:
        self.traffic.append((source, target, frame))
        data = encode_frame(frame)
        self._said.append((frame, data))
        clients = target in self.clients or source in self.clients
        (frame,) = FrameBuffer(self.limits if clients else self.limits.between_members()).feed(data)
        if target in self.clients:
            self.clients[target].got.append(frame)
        elif target in self.machines:
            kinds, held = self._holding
            inbox = held if isinstance(frame, kinds) else self._inbox
            inbox.append((target, Received(source, frame)))

    def hold(self, *kinds: type[Frame]) -> list[tuple[str, Any]]:
        """Keep frames of these kinds from machines, in the list that is returned, until `let_go`."""
        self._holding = kinds, []
        return self._holding[1]

    def let_go(self, held: list[tuple[str, Any]]) -> None:
        self._holding = (), []
        self._inbox += held
        self.settle()

    def settle(self, limit: int = 100_000) -> None:
        """Deliver until nothing is under way."""
        while self._inbox:
            batch: dict[str, list[Any]] = {}
            while self._inbox:
                name, input = self._inbox.popleft()
                batch.setdefault(name, []).append(input)
            for name, inputs in batch.items():
                for input in [Tick(self.now_ms), *inputs, Flush()]:
                    self._carry_out(name, self.machines[name].step(input))
            for frame, data in self._said:  # a frame may be kept and sent again: it must be its own
                assert encode_frame(frame) == data, f"{type(frame).__name__} was changed after it was handed out"
            limit -= 1
            assert limit, "the cluster does not come to rest"

    def pass_time(self, ms: int) -> None:
        """Let the clock run, firing timers on the way."""
        end = self.now_ms + ms
        while True:
            due = [(at, name) for name, at in self.timers.items() if at <= end]
            if not due:
                break
            at, name = min(due)
            del self.timers[name]
            self.now_ms = max(self.now_ms, at)
            self._inbox.append((name, Tick(self.now_ms)))
            self.settle()
        self.now_ms = end

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.post(name, effect.peer, effect.frame)
            elif isinstance(effect, Multicast):
                for peer in effect.peers:
                    self.post(name, peer, effect.frame)
            elif isinstance(effect, SetTimer):
                self.timers[name] = effect.at_ms
            elif isinstance(effect, Again):
                self._inbox.append((name, Flush()))
            elif isinstance(effect, Close):
                self.clients[effect.peer].closed = (effect.code, effect.text)
                self._inbox.append((name, PeerDown(effect.peer)))
            elif isinstance(effect, KeepAlive):
                self.kept.append(effect)

    def queue_states(self, name: str) -> list[Any]:
        """The replicated states of a queue, one per broker."""
        return [
            hosted.state
            for machine in self.machines.values()
            if isinstance(machine, ReplicaMachine)
            for id, hosted in machine.queues.items()
            if id.startswith(name + "#")
        ]
