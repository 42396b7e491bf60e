"""A network of machines under one seed: virtual time, links that delay, batches of any size.

Frames between one pair keep their order; between pairs anything may overtake anything. A machine gets what has arrived as
a shell would give it: `Tick`, the frames, `Flush`.
"""

from __future__ import annotations

import heapq
import random
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
from mantamq.protocol.ownership import OwnershipMachine
from mantamq.protocol.replica import ReplicaMachine
from mantamq.protocol.sequencer import SequencerMachine

BROKERS = ("b1", "b2", "b3")
START_US = 1_000_000_000
Machines = dict[str, Callable[..., Any]]


class World:
    """All machines of three brokers.

    Args:
        rng: the seed's generator: the only source of chance.
        machines: classes to build, by role; mutants put their own here.

    Attributes:
        taps: called with (source, target, frame) when a frame is sent.
        arrivals: called with (source, target, frame) when a frame is received.
        steps: called with the machine's name after each batch.
    """

    def __init__(self, rng: random.Random, codec: bool = False, machines: Machines | None = None) -> None:
        self.rng = rng
        self.now_us = START_US
        self.taps: list[Callable[[str, str, Frame], None]] = []
        self.arrivals: list[Callable[[str, str, Frame], None]] = []
        self.steps: list[Callable[[str], None]] = []
        self.clients: dict[str, Any] = {}
        self.machines: dict[str, Any] = {}
        self.closed: dict[str, tuple[str, str]] = {}
        self._codec = codec
        self._classes: Machines = {
            "sequencer": SequencerMachine, "ownership": OwnershipMachine, "broker": BrokerMachine,
            "replica": ReplicaMachine,
        } | (machines or {})  # fmt: skip
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._last: dict[tuple[str, str], int] = {}  # link -> when its last frame arrives
        self._slow: dict[tuple[str, str], int] = {}
        self._inbox: dict[str, deque[Any]] = {}
        self._due: set[str] = set()
        self._timers: dict[str, int] = {}
        self._build()

    def _build(self) -> None:
        rng, classes = self.rng, self._classes
        members = list(BROKERS)
        self.machines[SEQUENCER] = classes["sequencer"](7, members)
        self.machines[OWNERSHIP] = classes["ownership"](1, members, rng.choice([5, 20, 50]))
        for broker in members:
            self.machines[broker] = classes["broker"](broker, 1, members)
            self.give(broker, Members({b: f"{b}:1" for b in members}))
        self.link(SEQUENCER, OWNERSHIP)
        for broker in members:
            self.link(SEQUENCER, broker)
            for _ in range(rng.choice([1, 2, 3])):
                self.add_replica(broker)

    def add_replica(self, broker: str) -> None:
        number = sum(name.startswith(broker + ".") for name in self.machines)
        name = f"{broker}.r{number}"
        self.machines[name] = self._classes["replica"](name, broker, 1)
        for peer in (SEQUENCER, OWNERSHIP, broker):
            self.link(peer, name)

    def link(self, a: str, b: str) -> None:
        self.give(a, PeerUp(b))
        self.give(b, PeerUp(a))

    # ---- time

    def at(self, when_us: int, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (max(when_us, self.now_us), self._order, what))

    def after(self, delay_us: int, what: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, what)

    def run(self, until_us: int) -> None:
        """Let time pass; ends early when nothing is left to happen."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, what = heapq.heappop(heap)
            what()
        self.now_us = max(self.now_us, until_us)

    # ---- frames

    def post(self, source: str, target: str, frame: Frame) -> None:
        for tap in self.taps:
            tap(source, target, frame)
        if self._codec:
            (frame,) = FrameBuffer().feed(encode_frame(frame))
        link = (source, target)
        slow = self._slow.get(link)
        if slow is None:
            slow = self._slow[link] = self.rng.choice([50, 200, 200, 1000, 5000])
        delay = self.rng.randrange(10, slow + 11)
        if self.rng.random() < 0.01:
            delay += self.rng.randrange(30_000)
        arrival = max(self._last.get(link, 0), self.now_us + delay)
        self._last[link] = arrival
        self.at(arrival, lambda: self._arrive(source, target, frame))

    def _arrive(self, source: str, target: str, frame: Frame) -> None:
        if target in self.clients:
            for tap in self.arrivals:
                tap(source, target, frame)
            self.clients[target].receive(frame)
        elif target in self.machines:
            self.give(target, Received(source, frame))

    def give(self, name: str, input: Any) -> None:
        self._inbox.setdefault(name, deque()).append(input)
        if name not in self._due:
            self._due.add(name)
            self.after(self.rng.choice([0, 10, 300]), lambda: self._process(name))

    def cut(self, client: str, broker: str) -> None:
        """The client is gone: nothing reaches it, and the broker hears so behind what it had sent."""
        self.clients.pop(client, None)
        arrival = max(self._last.get((client, broker), 0), self.now_us + 10)
        self.at(arrival, lambda: self.give(broker, PeerDown(client)))

    def _process(self, name: str) -> None:
        self._due.discard(name)
        inbox = self._inbox[name]
        count = len(inbox) if self.rng.random() < 0.7 else self.rng.randrange(len(inbox) + 1)
        machine = self.machines[name]
        self._carry_out(name, machine.step(Tick(self.now_us // 1000)))
        for _ in range(count):
            input = inbox.popleft()
            if type(input) is Received:
                for tap in self.arrivals:
                    tap(input.peer, name, input.frame)
            self._carry_out(name, machine.step(input))
        self._carry_out(name, machine.step(Flush()))
        for seen in self.steps:
            seen(name)
        if inbox and name not in self._due:
            self._due.add(name)
            self.after(10, lambda: self._process(name))

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
                self._again(name)
            elif kind is Close:
                self.closed[effect.peer] = (effect.code, effect.text)
                self.clients.pop(effect.peer, None)
                self.give(name, PeerDown(effect.peer))
            elif kind is WantSpare:
                if sum(other.startswith(name + ".") for other in self.machines) < 4:
                    self.after(self.rng.randrange(1, 20_000), lambda: self.add_replica(name))

    def _again(self, name: str) -> None:
        if name not in self._due:
            self._due.add(name)
            self.after(10, lambda: self._process(name))

    def _set_timer(self, name: str, at_us: int) -> None:
        self._timers[name] = at_us

        def due() -> None:
            if self._timers.get(name) == at_us:
                del self._timers[name]
                self._again(name)

        self.at(at_us, due)
