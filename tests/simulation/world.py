"""A network of machines under one seed: virtual time, links that delay and break, batches of any size.

Frames between one pair keep their order; between pairs anything may overtake anything. A machine gets what has arrived
as a shell would give it: `Tick`, the inputs, `Flush`. A link that is cut loses what is on its way; both ends hear of it.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from mantamq.protocol.broker import BrokerMachine
from mantamq.protocol.effects import (
    OWNERSHIP,
    SEQUENCER,
    Again,
    Close,
    Flush,
    Members,
    Multicast,
    PauseClients,
    PeerDown,
    PeerUp,
    Received,
    Send,
    SetTimer,
    Tick,
    WantSpare,
)
from mantamq.protocol.frames import Frame
from mantamq.protocol.framing import FrameBuffer, encode_frame
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.ownership import OwnershipMachine
from mantamq.protocol.replica import ReplicaMachine
from mantamq.protocol.sequencer import SequencerMachine

BROKERS = ("b1", "b2", "b3")
START_US = 1_000_000_000
TRACE_KEPT = 400
Machines = dict[str, Callable[..., Any]]
Pair = tuple[str, str]


class World:
    """All machines of three brokers.

    Args:
        rng: the seed's generator: the only source of chance.
        codec: frames pass through the real encoder and decoder.
        fixed: no chance in the network: every frame takes 100 us, every batch is whole (for scenarios).
        slice_ms: the consume lock's time slice.
        replicas: replicas per broker; 0 lets chance decide.
        limits: the brokers' limits.
        machines: classes to build, by role; mutants put their own here.

    Attributes:
        taps: called with (source, target, frame) when a frame is sent.
        arrivals: called with (source, target, frame) when a machine or client is given a frame.
        steps: called with the machine's name after each batch.
        trace: the last frames sent, as (time, source, target, frame); `digest` covers all of them.
        posted: how many frames were sent.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        codec: bool = False,
        fixed: bool = False,
        slice_ms: int = 20,
        replicas: int = 0,
        limits: Limits = DEFAULT,
        machines: Machines | None = None,
    ) -> None:
        self.rng = rng
        self.now_us = START_US
        self.taps: list[Callable[[str, str, Frame], None]] = []
        self.arrivals: list[Callable[[str, str, Frame], None]] = []
        self.steps: list[Callable[[str], None]] = []
        self.clients: dict[str, Any] = {}
        self.machines: dict[str, Any] = {}
        self.closed: dict[str, tuple[str, str]] = {}
        self.trace: deque[tuple[int, str, str, Frame]] = deque(maxlen=TRACE_KEPT)
        self.digest = 0
        self.posted = 0
        self._codec = codec
        self._fixed = fixed
        self._slice_ms = slice_ms
        self._replicas = replicas
        self._limits = limits
        self._classes: Machines = {
            "sequencer": SequencerMachine, "ownership": OwnershipMachine, "broker": BrokerMachine,
            "replica": ReplicaMachine,
        } | (machines or {})  # fmt: skip
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._last: dict[Pair, int] = {}  # direction -> when its last frame arrives
        self._slow: dict[Pair, int] = {}  # direction -> its largest usual delay
        self._epoch: dict[Pair, int] = {}  # direction -> how often it was cut
        self._down: set[Pair] = set()
        self._inbox: dict[str, deque[Any]] = {}
        self._due: set[str] = set()
        self._timers: dict[str, int] = {}
        self._paused: dict[str, list[tuple[str, Any]]] = {}  # broker -> client inputs it is not reading now
        self._build()

    def _build(self) -> None:
        classes = self._classes
        members = list(BROKERS)
        self.machines[SEQUENCER] = classes["sequencer"](7, members)
        self.machines[OWNERSHIP] = classes["ownership"](1, members, self._slice_ms)
        for broker in members:
            self.machines[broker] = classes["broker"](broker, 1, members, limits=self._limits)
            self.give(broker, Members({b: f"{b}:1" for b in members}))
        self.link(SEQUENCER, OWNERSHIP)
        for broker in members:
            self.link(SEQUENCER, broker)
            for _ in range(self._replicas or self.rng.choice([1, 2, 3])):
                self.add_replica(broker)

    def add_replica(self, broker: str) -> None:
        number = sum(name.startswith(broker + ".") for name in self.machines)
        name = f"{broker}.r{number}"
        fellows = [other for other in self.machines if "." in other and not other.startswith(broker + ".")]
        self.machines[name] = self._classes["replica"](name, broker, 1)
        for peer in (SEQUENCER, OWNERSHIP, broker, *fellows):
            self.link(peer, name)

    # ---- links

    def link(self, a: str, b: str) -> None:
        """Both sides hear of it; a side's frames use the new link from then on (`_process`)."""
        self.give(a, PeerUp(b))
        self.give(b, PeerUp(a))

    def links_of_order(self) -> list[Pair]:
        """The links that can be cut and dialled again without anybody having died."""
        return [(hub, name) for hub in (SEQUENCER, OWNERSHIP) for name in self.machines
                if ("." in name) or (hub == SEQUENCER and name != SEQUENCER)]  # fmt: skip

    def cut_link(self, a: str, b: str, down_us: int) -> None:
        """Lose what is on its way between two machines; dial again after `down_us`."""
        if (a, b) in self._down or (b, a) in self._down:
            return
        for pair in ((a, b), (b, a)):
            self._down.add(pair)
            self._epoch[pair] = self._epoch.get(pair, 0) + 1
            self.give(pair[0], PeerDown(pair[1]))
        self.after(down_us, lambda: self.link(a, b))

    def connect(self, client: Any, name: str, broker: str) -> None:
        self.clients[name] = client
        self.give(broker, PeerUp(name))

    def cut_client(self, name: str, broker: str, lose: bool = False) -> None:
        """The client is gone: nothing reaches it; the broker hears so behind what it had sent, or (`lose`) at once."""
        self.clients.pop(name, None)
        pair = (name, broker)
        arrival = self.now_us + 10
        if lose:
            self._epoch[pair] = self._epoch.get(pair, 0) + 1
        else:
            arrival = max(self._last.get(pair, 0), arrival)
        self.at(arrival, lambda: self.give(broker, PeerDown(name)))

    # ---- time

    def at(self, when_us: int, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (max(when_us, self.now_us), self._order, what))

    def after(self, delay_us: int, what: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, what)

    def run(self, until_us: int) -> None:
        """Let time pass."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, what = heapq.heappop(heap)
            what()
        self.now_us = max(self.now_us, until_us)

    def run_for(self, duration_us: int) -> None:
        self.run(self.now_us + duration_us)

    # ---- frames

    def post(self, source: str, target: str, frame: Frame) -> None:
        self.posted += 1
        self.trace.append((self.now_us, source, target, frame))
        data = encode_frame(frame)
        self.digest = zlib.crc32(f"{self.now_us} {source} {target} ".encode() + data, self.digest)
        for tap in self.taps:
            tap(source, target, frame)
        pair = (source, target)
        if pair in self._down:
            return  # dropped, as a shell drops what has no link
        if self._codec:
            (frame,) = FrameBuffer().feed(data)
        arrival = max(self._last.get(pair, 0), self.now_us + self._delay(pair))
        self._last[pair] = arrival
        epoch = self._epoch.get(pair, 0)
        self.at(arrival, lambda: self._arrive(source, target, frame, epoch))

    def _delay(self, pair: Pair) -> int:
        if self._fixed:
            return 100
        slow = self._slow.get(pair)
        if slow is None:
            slow = self._slow[pair] = self.rng.choice([50, 200, 200, 1000, 5000])
        delay = self.rng.randrange(10, slow + 11)
        if self.rng.random() < 0.01:
            delay += self.rng.randrange(30_000)
        return delay

    def _arrive(self, source: str, target: str, frame: Frame, epoch: int) -> None:
        if epoch != self._epoch.get((source, target), 0):
            return
        if target in self.clients:
            for tap in self.arrivals:
                tap(source, target, frame)
            self.clients[target].receive(frame)
        elif target in self.machines:
            self.give(target, Received(source, frame))

    def give(self, name: str, input: Any) -> None:
        held = self._paused.get(name)
        if held is not None and type(input) in (Received, PeerDown) and input.peer not in self.machines:
            held.append((name, input))
            return
        self._inbox.setdefault(name, deque()).append(input)
        self._wake(name, 0 if self._fixed else self.rng.choice([0, 10, 300]))

    def _wake(self, name: str, delay_us: int) -> None:
        if name not in self._due:
            self._due.add(name)
            self.after(delay_us, lambda: self._process(name))

    def _process(self, name: str) -> None:
        self._due.discard(name)
        inbox = self._inbox.setdefault(name, deque())
        whole = self._fixed or self.rng.random() < 0.7
        count = len(inbox) if whole else self.rng.randrange(len(inbox) + 1)
        machine = self.machines[name]
        self._carry_out(name, machine.step(Tick(self.now_us // 1000)))
        for _ in range(count):
            input = inbox.popleft()
            if type(input) is Received:
                for tap in self.arrivals:
                    tap(input.peer, name, input.frame)
            elif type(input) is PeerUp:
                self._down.discard((name, input.peer))
            self._carry_out(name, machine.step(input))
        self._carry_out(name, machine.step(Flush()))
        for seen in self.steps:
            seen(name)
        if inbox:
            self._wake(name, 10)

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self.post(name, effect.peer, effect.frame)
            elif kind is Multicast:
                for peer in effect.peers:
                    self.post(name, peer, effect.frame)
            elif kind is SetTimer:
                self._set_timer(name, effect.at_ms * 1000)
            elif kind is Again:
                self._wake(name, 10)
            elif kind is PauseClients:
                self._pause(name, effect.paused)
            elif kind is Close:
                self.closed[effect.peer] = (effect.code, effect.text)
                self.clients.pop(effect.peer, None)
                self.give(name, PeerDown(effect.peer))
            elif kind is WantSpare:
                if not self._fixed and sum(other.startswith(name + ".") for other in self.machines) < 4:
                    self.after(self.rng.randrange(1, 20_000), lambda: self.add_replica(name))
            else:
                raise TypeError(f"{name} asks for {effect!r}, which the world cannot do")

    def _pause(self, name: str, paused: bool) -> None:
        if paused:
            self._paused.setdefault(name, [])
            return
        for broker, input in self._paused.pop(name, []):
            self.give(broker, input)

    def _set_timer(self, name: str, at_us: int) -> None:
        self._timers[name] = at_us

        def due() -> None:
            if self._timers.get(name) == at_us:
                del self._timers[name]
                self._wake(name, 0)

        self.at(at_us, due)
