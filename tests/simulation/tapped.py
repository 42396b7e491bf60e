"""The simulator with a tap: whatever happens to the cluster and to the tap, the table is what was committed, once.

The tap dies now and then, with what it had not written, and loses links. At the end its table is compared with the rows
of the committed logs as the checkers saw them on the wire, made anew by a queue's own machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.capture.capture import BrokerCapture, ReplicaCapture
from mantamq.protocol.capture.event_rows import rows
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.capture.tap import TapMachine
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import EVENTS, Kept, is_ownership, is_sequencer
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.arrangement import Arrangement
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.capture_frames import Facts, FactsWanted
from mantamq.protocol.wire.events import CLUSTER, DeclareQueue, DeleteQueue, decode_event
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.settings import read
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

from .model import Violation
from .workload import Story
from .world import Machines, World

TAP_DEATHS = 5
TAP_DIES = 0.01
"""How likely at each step, as long as there have been fewer deaths."""
TAP_AWAY_US = (20_000, 300_000, 1_500_000)
SETTLE_US = 8_000_000


def captured_broker(machine: Callable[..., BrokerMachine]) -> Callable[..., BrokerMachine]:
    def make(broker: str, inc: int, *arguments: Any, **options: Any) -> BrokerMachine:
        capture = BrokerCapture(broker, inc, options["timing"], options["limits"])
        return machine(broker, inc, *arguments, **options, observers=[capture])

    return make


def captured_replica(machine: Callable[..., ReplicaMachine]) -> Callable[..., ReplicaMachine]:
    def make(name: str, broker: str, inc: int, *arguments: Any, **options: Any) -> ReplicaMachine:
        capture = ReplicaCapture(name, broker, inc, options["timing"], options["limits"])
        return machine(name, broker, inc, *arguments, **options, observers=[capture])

    return make


def captured(machines: dict[str, Any]) -> Machines:
    """The same machines, which tell a tap."""
    return {
        **machines,
        "broker": captured_broker(machines.get("broker", BrokerMachine)),
        "replica": captured_replica(machines.get("replica", ReplicaMachine)),
    }


class TappedWorld(World):
    """A world with a tap.

    Attributes:
        table: stream -> what is safe of it: (index, rows), in the order in which the tap wrote it.
        order: the same rows of all streams, as one table.
        tap_deaths: how often the tap has died.
        tap_posted: how many frames went to it and came from it.
        withheld: what the tap has said to be missing while a process that lives had it: index range, stream, process.
    """

    def __init__(self, rng: random.Random, *, machines: dict[str, Any] | None = None, **options: Any) -> None:
        self.table: dict[str, list[tuple[int, list[Row]]]] = {}
        self.order: list[Row] = []
        self.tap_deaths = 0
        self.tap_posted = 0
        self.withheld: list[str] = []
        self._untaken: list[Any] = []
        self._looked_at = 0  # rows of the tap's, as it has them now
        self._asked: set[tuple[str, str]] = (
            set()
        )  # source and stream: who was asked for its facts, and not to stop since
        self._chance = random.Random(rng.random())
        # Not in pieces: a checkpoint in the middle of them, and a power cut of all that keep the queue while there is
        # no tap, and the beginning can be told by nobody, which these stories could not tell from a row that is lost.
        options["limits"] = replace(options["limits"], apply_entries=DEFAULT.apply_entries)
        super().__init__(rng, machines=captured(machines or {}), **options)
        self.steps.append(self._tap_stepped)
        self.deaths.append(self._source_died)
        self.watch({Facts: self._tells}, {FactsWanted: self._is_asked})

    def _build(self) -> None:
        super()._build()
        self._start_tap()

    def _start_tap(self) -> None:
        self.machines[EVENTS] = TapMachine({stream: made[-1][0] for stream, made in self.table.items()}, self.timing)
        for name in self.machines:
            if name in self.brokers or "." in name:
                self.link(EVENTS, name)

    def link(self, a: str, b: str) -> None:
        if not (EVENTS in (a, b) and (is_sequencer(a) or is_sequencer(b))):  # the tap has no link to a sequencer
            super().link(a, b)

    def post(self, source: str, target: str, frame: Frame) -> None:
        before = self.posted
        super().post(source, target, frame)
        if EVENTS in (source, target):  # a tap that has just come is no unrest of the cluster
            self.posted = before
            self.tap_posted += 1

    def add_replica(self, broker: str) -> None:
        if broker == EVENTS:
            return
        before = set(self.machines)
        super().add_replica(broker)
        for name in set(self.machines) - before:
            self.link(EVENTS, name)

    def _start_broker(self, broker: str) -> None:
        super()._start_broker(broker)
        if broker in self.machines:
            self.link(EVENTS, broker)

    def links_of_order(self) -> list[tuple[str, str]]:
        apart = [pair for pair in super().links_of_order() if EVENTS not in pair]
        hubs = [name for name in self.machines if is_sequencer(name) or is_ownership(name)]
        names = [name for name in self.machines if name not in (*hubs, EVENTS)]
        return apart + [(EVENTS, name) for name in names if EVENTS in self.machines]

    def _tap_stepped(self, name: str) -> None:
        if name != EVENTS:
            return
        tap = self.machines[EVENTS]
        for stream, upto, made in tap.rows[self._looked_at :]:
            if made and made[0].kind == "dropped":
                self._look_for(stream, upto - made[0].value + 1, upto)
        self._looked_at = len(tap.rows)
        if tap.rows and self._chance.random() < 0.5:
            self._untaken += tap.rows
            tap.rows = []
            self._looked_at = 0
            if self._chance.random() < 0.3:
                self.write()
            else:
                self.give(EVENTS, Kept({}))
        if self.standby and self.tap_deaths < TAP_DEATHS and self._chance.random() < TAP_DIES:
            self.tap_deaths += 1
            self.after(self._chance.randrange(1, 2_000), self._kill_tap)

    def _is_asked(self, tap: str, source: str, frame: FactsWanted) -> None:
        if frame.after >= 0:
            self._asked.add((source, frame.stream))
        else:
            self._asked.discard((source, frame.stream))

    def _tells(self, source: str, tap: str, frame: Facts) -> None:
        if (source, frame.stream) not in self._asked:
            raise Violation(f"{source} tells {frame.stream} from {frame.first} on, and was not asked, or to stop")

    def _source_died(self, name: str, machine: Any) -> None:
        self._asked = {(source, stream) for source, stream in self._asked if source != name}

    def _look_for(self, stream: str, first: int, last: int) -> None:
        """Whether a process has facts of those that the tap has just given up."""
        for name, machine in self.machines.items():
            reporter = getattr(machine, "companions", {}).get(EVENTS)
            buffer = reporter.buffers.get(stream) if reporter is not None else None
            if buffer is not None and buffer.base < last and buffer.end >= first:
                self.withheld.append(f"{first} to {last} of {stream}: {name} has {buffer.base + 1} to {buffer.end}")

    def _kill_tap(self) -> None:
        if EVENTS in self.machines:
            self._looked_at = 0
            self._untaken.clear()
            self.crash(EVENTS)
            self.after(self._chance.choice(TAP_AWAY_US), self._start_tap)

    def write(self) -> None:
        """The rows that the tap has made are safe now."""
        for stream, upto, made in self._untaken:
            table = self.table.setdefault(stream, [])
            if upto <= (table[-1][0] if table else 0):
                raise Violation(f"the tap made index {upto} of {stream} twice")
            table.append((upto, made))
            self.order += made
        self._untaken.clear()
        self.give(EVENTS, Kept({stream: made[-1][0] for stream, made in self.table.items()}))

    def finish(self) -> None:
        """Let the tap come after, and write all."""
        self.tap_deaths = TAP_DEATHS
        self.run_for(SETTLE_US)
        tap = self.machines[EVENTS]
        self._untaken += tap.rows
        tap.rows = []
        self.write()
        self.run_for(SETTLE_US)
        posted = self.tap_posted
        self.run_for(SETTLE_US)
        if self.tap_posted != posted:
            raise Violation(f"{self.tap_posted - posted} frames from and to the tap though nothing happens")


def play_tapped(
    seed: int, faulty: bool, machines: dict[str, Any] | None = None, stored: bool | None = None
) -> tuple[TappedWorld, int]:
    """Play one seed and check the table; returns the world and how many events are missing. `stored`: with stores or
    without; None: by seed.

    Raises:
        Violation: the table is not what was committed.
    """
    story = Story(seed, machines, faulty, TappedWorld, stored)
    world = story.world
    assert isinstance(world, TappedWorld)
    story.run()
    world.finish()
    dropped = 0
    wiring = Wiring()
    declared: dict[str, QueueSettings] = {}
    for stream in [CLUSTER, *(name for name in story.watch.logs if name != CLUSTER)]:
        expected = list(_expected(stream, story, wiring, declared))
        dropped += _compare(stream, world.table.get(stream, []), expected, stream in story.watch.gone)
    return world, dropped


def _expected(stream: str, story: Story, wiring: Wiring, declared: dict[str, QueueSettings]) -> list[list[Row]]:
    """The rows of each index, without their times."""
    settings = declared.get(stream, QueueSettings())
    state = QueueState(stream, settings.alternate)
    Arrangement(state, settings)
    found: list[list[Row]] = []
    log = story.watch.logs[stream]
    for index in range(1, story.watch.commits.get(stream, 0) + 1):
        event = decode_event(log[index].event)
        assert event is not None
        if stream == CLUSTER:
            outcome = wiring.apply(event, index)
            queue = outcome.queue.id if outcome.queue is not None else ""
            if queue and outcome.queue is not None and type(event) is DeclareQueue:
                declared[queue] = read(QueueSettings, outcome.queue.arguments, alternate=outcome.queue.alternate)
            done = Applied(outcome.changed or type(event).__name__ not in _CHANGES)
            named = queue if type(event) in (DeclareQueue, DeleteQueue) else ""
            found.append(rows(stream, log[index], event, done, 0, named))
        else:
            done = state.apply(event)
            found.append(rows(stream, log[index], event, done, 0, "", state.alternate, bool(state.batches.dissolved)))
    return found


_CHANGES = ("DeclareQueue", "DeleteQueue", "Dissolved", "DeclareExchange", "DeleteExchange", "Bind", "Unbind")


def _compare(stream: str, table: list[tuple[int, list[Row]]], expected: list[list[Row]], gone: bool) -> int:
    have = dropped = 0
    for upto, made in table:
        if made and made[0].kind == "dropped":
            if made[0].value != upto - have:
                raise Violation(f"{stream}: {made[0].value} are said to be missing before {upto}, {upto - have} are")
            dropped += made[0].value
        elif upto != have + 1:
            raise Violation(f"{stream}: {upto} comes behind {have}, and nobody says that anything is missing")
        elif upto > len(expected):
            if not gone:
                raise Violation(f"{stream}: index {upto} is in the table and not committed")
        elif [row._replace(time_us=0) for row in made] != expected[upto - 1]:
            raise Violation(f"{stream}: index {upto} is told as {made}, and was {expected[upto - 1]}")
        have = upto
    if have < len(expected) and not gone:
        raise Violation(f"{stream}: the table ends at {have}, {len(expected)} are committed")
    return dropped
