"""A run: rounds of load with faults, each on queues of its own, drained and judged at its end.

Rounds keep what the checker must hold in memory small, and tell of a violation minutes after it happened, not hours.
The cluster lives through all of them.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec
from mantamq.client import MantaError

from . import faults, history, kinds, plants
from .closing import Closer
from .crowd import Crowd
from .disks import Disks, can_fill
from .facts import Verdict, Violation
from .journal import DRAINER, Journal, read_lines
from .load import PATIENCE_S, GivenUp, Task, declare, delete, drain
from .nodes import Nodes, can_cut
from .takers import look
from .world import World

BEGIN_S = 30.0
DRAIN_S = 60.0
CALM_S = (0.5, 4.0)
LATER_S = 45.0
LEAVE_S, LEAVE_MOST_S, LEFT = 1.0, 10.0, 40
"""How long takers need to leave; and how long it may take until so many messages have come then."""
PROGRESS_S = 5.0
RECEIVERS = "receiver", "alone"
LIMIT = "limit"
PROGRAMS = 2
"""So many send to each queue to which programs do."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes:
        minutes: of load, all rounds together. round_s: longest load of a round, in seconds.
        faults: names from `faults.FAULTS`, chosen by turns of the seed.
        seed: of the clients and of the faults (not of the machine's own timing).
        keep: where the journals go; "" for a folder that is removed unless there is a violation.
        kinds: names of `kinds.KINDS`, of each of which there is a queue beside the plain ones; takers: how many receivers
            each of these has.
        rate: messages a second that all senders send together, about. pushed: that each of two more sends to a queue
            that has a limit, where it is not held back. programmed: that each program sends.
        least: so many faults are done at least, however long that takes.
        calm_s: between two faults, in seconds.
        healthy_s: how long the cluster may take to be healthy again after a fault.
        plant: how many rounds' histories are also checked with violations planted into them.
    """

    minutes: float = 1.0
    faults: tuple[str, ...] = ()
    seed: int = 1
    keep: str = ""
    brokers: int = 3
    queues: int = 4
    senders: int = 4
    receivers: int = 4
    kinds: tuple[str, ...] = tuple(kinds.KINDS)
    takers: int = 3
    rate: float = 400.0
    pushed: float = 100.0
    programmed: float = 20.0
    round_s: float = 120.0
    least: int = 0
    calm_s: tuple[float, float] = CALM_S
    healthy_s: float = 30.0
    plant: int = 1


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        kills: faults by name. counts: what was checked. recoveries_s: time to be healthy again, by fault.
        folder: where the journals are, None when they were removed.
    """

    kills: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    violations: list[Violation] = field(default_factory=list[Violation])
    recoveries_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    folder: Path | None = None

    @property
    def operations(self) -> int:
        """Transfers, accepts, releases and rejects that were completed."""
        return sum(count for name, count in self.counts.items() if name.endswith(" completed"))

    def summary(self) -> str:
        return f"kills={self.kills.total()} operations={self.operations} violations={len(self.violations)}"


def run(settings: Settings, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run to the end of the time, or of the first round with a violation.

    Raises:
        LocalError: the cluster did not start.
    """
    outcome = Outcome()
    folder = Path(settings.keep) if settings.keep else Path(tempfile.mkdtemp(prefix="manta-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(asdict(settings), indent=1) + "\n")
    say("starting the cluster")
    nodes = Nodes(settings.brokers, can_cut()) if faults.NODE_FAULTS & set(settings.faults) else None
    disks = _disks(settings)
    try:
        world = World.start(settings.brokers, nodes, "cut-link" in settings.faults, disks)
    except BaseException:
        if nodes:
            nodes.stop()
        if disks:
            disks.remove()
        raise
    try:
        left_s, number = settings.minutes * 60, 0
        while left_s > 0.5 and not outcome.violations:
            number += 1
            seconds = min(settings.round_s, left_s)
            if left_s - seconds < settings.round_s / 4:
                seconds = left_s  # no short round at the end
            left_s -= seconds
            Round(settings, number, folder / f"round-{number}", world, outcome, say).run(seconds)
    finally:
        stuck = world.stop()
    if stuck:
        outcome.violations.append(Violation("left behind", f"processes {stuck} outlived the cluster"))
    if outcome.violations or settings.keep:
        outcome.folder = folder
    else:
        shutil.rmtree(folder)
    return outcome


def _disks(settings: Settings) -> Disks | None:
    """Disks for the stores that some faults need."""
    if not faults.STORE_FAULTS & set(settings.faults):
        return None
    brokers = [f"b{number}" for number in range(1, settings.brokers + 1)]
    return Disks(brokers, "fill-disk" in settings.faults and can_fill())


class Round:
    """One round: load, faults, drain, verdict."""

    def __init__(
        self, settings: Settings, number: int, folder: Path, world: World, outcome: Outcome,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._number = number
        self._folder = folder
        self._world = world
        self._outcome = outcome
        self._say = say
        self._chance = random.Random(settings.seed * 1000 + number)
        self._queues = [f"chaos-{number}-{index}" for index in range(settings.queues)]
        self._alone = f"chaos-{number}-alone"  # has one consumer
        self._kept = f"chaos-{number}-kept"  # has none until it is drained, and is browsed
        self._kinds = kinds.names(f"chaos-{number}", settings.kinds)
        self._pushed = [queue for queue in self._kinds if kinds.name(queue) == LIMIT]
        self._of_programs = [queue for queue in self._kinds if kinds.KINDS[kinds.name(queue)].program]
        others = *self._pushed, *self._of_programs
        self._sent = [*self._queues, self._alone, self._kept, *(q for q in self._kinds if q not in others)]
        self._every = [*self._sent, *others]
        self._addresses = folder / "addresses.json"
        self._progress_due = 0.0

    def run(self, seconds: float) -> None:
        """Load for `seconds`, then drain and judge. Violations are in the outcome."""
        self._folder.mkdir(parents=True)
        crowd = Crowd(self._folder)
        try:
            self._tell_addresses()
            self._declare()
            self._world.closer = Closer(self._folder / "closer.jsonl", set(self._settings.faults) == {faults.CLOSE})
            if self._begin(crowd) and self._attack(crowd, time.monotonic() + seconds):
                self._end(crowd)
        except (MantaError, GivenUp) as error:
            self._found("refused", f"the observer could not go on: {type(error).__name__}: {error}")
        finally:
            crowd.kill()
        self._judge()
        if not self._outcome.violations:
            self._delete()
            if not self._settings.keep:
                shutil.rmtree(self._folder)

    def _found(self, rule: str, text: str) -> None:
        self._outcome.violations.append(Violation(rule, text))
        self._say(f"violation: {rule}: {text}")

    # ---- queues

    def _declare(self) -> None:
        with self._world.connect(self._chance) as connection:
            for queue in self._every:
                declare(connection, queue, self._world.disks is not None)

    def _delete(self) -> None:
        with self._world.connect(self._chance) as connection:
            for queue in self._every:
                delete(connection, queue)

    # ---- load

    def _tell_addresses(self) -> None:
        new = self._addresses.with_suffix(".new")
        new.write_text(json.dumps(self._world.addresses()))
        new.rename(self._addresses)

    def _begin(self, crowd: Crowd) -> bool:
        """Start the clients and wait until each has sent or received; whether all have."""
        settings, queues = self._settings, self._queues
        tasks: list[Task] = []
        for index in range(settings.senders):
            tasks.append(self._task("sender", index, self._sent, settings.rate / settings.senders))
        for index in range(settings.receivers):
            mine = [queues[(index + step) % len(queues)] for step in range(min(2, len(queues)))]
            tasks.append(self._task("receiver", index, mine, 0.0))
        tasks.append(self._task("alone", 0, [self._alone], 0.0))
        looked_at = self._chance.sample(self._kinds, min(2, len(self._kinds)))
        looked_at += [
            queue for queue in self._kinds if kinds.KINDS[kinds.name(queue)].selected and queue not in looked_at
        ]
        tasks.append(self._task("browser", 0, [self._kept, self._alone, queues[0], *looked_at], 0.0))
        if self._kinds:
            away = [queue + kinds.AWAY for queue in self._kinds if kinds.KINDS[kinds.name(queue)].away]
            tasks += [self._task("taker", index, [*self._kinds, *away], 0.0) for index in range(settings.takers)]
            tasks.append(self._task("observer", 0, [q for q in self._kinds if kinds.KINDS[kinds.name(q)].most], 0.0))
        if self._pushed:
            tasks += [self._task("pusher", index, self._pushed, settings.pushed) for index in range(2)]
        if roaming := [queue for queue in self._kinds if kinds.roams(queue)]:
            tasks.append(self._task("operator", 0, roaming, 0.0))
        for index in range(PROGRAMS * len(self._of_programs)):
            tasks.append(self._program(index, self._of_programs[index // PROGRAMS]))
        for task in tasks:
            crowd.start(task)
        until = time.monotonic() + BEGIN_S
        while not all(_has_begun(Path(task.journal)) for task in tasks):
            if time.monotonic() > until or crowd.failed():
                self._found("refused", f"the clients could not begin: {crowd.failed()}")
                return False
            time.sleep(0.1)
        return True

    def _task(self, role: str, index: int, queues: list[str], rate: float) -> Task:
        client = f"{role if role in ('program', 'operator') else role[0]}{index + 1}"
        journal = str(self._folder / f"{client}.jsonl")
        seed = self._chance.randrange(1 << 32)
        return Task(client, role, queues, journal, str(self._addresses), index, seed, rate, True)

    def _program(self, index: int, queue: str) -> Task:
        task = self._task("program", index, [queue], self._settings.programmed)
        by_name = kinds.KINDS[kinds.name(queue)].program == kinds.BY_NAME
        return replace(task, producer=task.client if by_name else kinds.name(queue))

    # ---- faults

    def _attack(self, crowd: Crowd, until: float) -> bool:
        """Faults until the time is over; whether the cluster lives."""
        names = self._settings.faults
        deck: list[str] = []
        kills, least = self._outcome.kills, self._settings.least
        while (left_s := until - time.monotonic()) > 0 or kills.total() < least:
            self._progress(left_s)
            calm_s = self._chance.uniform(*self._settings.calm_s) if names else 1.0
            time.sleep(min(max(0.0, left_s), calm_s) if kills.total() >= least else calm_s)
            if crowd.failed():
                break
            if names and (until - time.monotonic() > 0 or kills.total() < least):
                deck = deck or self._chance.sample(names, len(names))  # each has its turn before any has two
                if not self._fault(deck.pop()):
                    return False
            self._tell_addresses()
        if wrong := self._world.until_well(self._settings.healthy_s):
            self._found("not healthy", f"at the end of round {self._number}: {'; '.join(wrong)}")
            self._note_status()
            return False
        return True

    def _fault(self, name: str) -> bool:
        began = time.monotonic()
        try:
            what = faults.FAULTS[name](self._world, self._chance)
        except faults.NoVictim as why:
            self._say(f"{name}: {why}")
            return True
        except Exception as error:
            self._found("not healthy", f"{name} could not even be done: {type(error).__name__}: {error}")
            return False
        done = time.monotonic()
        self._outcome.kills[name] += 1
        wrong = self._world.until_well(self._settings.healthy_s)
        took_s = time.monotonic() - done
        with (self._folder / "faults.log").open("a") as log:
            log.write(f"{began:.3f} {done:.3f} {time.monotonic():.3f} {name} {what}: {'; '.join(wrong) or 'healthy'}\n")
        if wrong:
            limit_s = self._settings.healthy_s
            self._found("not healthy", f"{limit_s:g} s after {name} of {what}: {'; '.join(wrong)}")
            self._note_status()
            return False
        self._outcome.recoveries_s.setdefault(name, []).append(took_s)
        self._say(f"{name} {what}: healthy after {took_s:.1f} s")
        return True

    def _note_status(self) -> None:
        """For who looks into it: the cluster's status as it is, and once it has had more time."""
        for name, wait_s in (("status.json", 0.0), ("status-later.json", LATER_S)):
            began = time.monotonic()
            wrong = self._world.until_well(wait_s)
            if wait_s:
                self._say(f"{'not ' if wrong else ''}healthy {time.monotonic() - began:.0f} s later")
            try:
                (self._folder / name).write_bytes(msgspec.json.encode(self._world.status().plain()))
            except Exception as error:
                self._say(f"nobody tells the status: {error}")

    def _progress(self, left_s: float) -> None:
        if time.monotonic() < self._progress_due:
            return
        self._progress_due = time.monotonic() + PROGRESS_S
        size = sum(path.stat().st_size for path in self._folder.glob("*.jsonl"))
        self._say(
            f"round {self._number}: {left_s:.0f} s left, {self._outcome.kills.total()} kills, "
            f"{self._outcome.operations:,} operations judged, {size / 1e6:.1f} MB of journals to judge"
        )

    # ---- the end

    def _end(self, crowd: Crowd) -> None:
        """All that is sent is sent; the receivers get what is there; then one drains what they left."""
        self._say(f"round {self._number}: draining")
        self._leave(crowd)
        stuck = crowd.finish("sender", 3 * PATIENCE_S)
        stuck += crowd.finish("program", 4 * PATIENCE_S)
        stuck += crowd.finish("operator", 4 * PATIENCE_S)
        stuck += crowd.finish("pusher", 3 * PATIENCE_S)
        stuck += crowd.finish("browser", 3 * PATIENCE_S)
        for role in RECEIVERS:
            crowd.tell(role, "drain")
        until = time.monotonic() + DRAIN_S
        with self._world.connect(self._chance) as connection:
            while time.monotonic() < until:
                if not any(connection.queue(queue)["messages"] for queue in [*self._queues, self._alone]):
                    break
                time.sleep(0.2)
        for role in (*RECEIVERS, "taker", "observer"):
            stuck += crowd.finish(role, 3 * PATIENCE_S)
        if self._world.closer is not None:
            self._world.closer.done()
        for text in stuck:
            self._found("stuck", text)
        for text in crowd.failed():
            self._found("client", text)
        journal = Journal(self._folder / "drain.jsonl", DRAINER)
        with self._world.connect(self._chance) as connection:
            drain(connection, journal, self._every, until + DRAIN_S)
            for queue in self._kinds:
                look(connection, journal, queue, tally=True)
        journal.write("done")
        journal.close()

    def _leave(self, crowd: Crowd) -> None:
        """Have something come to the queues that are drained in their order when nobody takes from them any more."""
        left = [queue for queue in self._kinds if kinds.KINDS[kinds.name(queue)].left]
        if not left:
            return
        crowd.tell("taker", "drain")
        time.sleep(LEAVE_S)
        until = time.monotonic() + LEAVE_MOST_S
        with self._world.connect(self._chance) as connection:
            before = {queue: connection.queue(queue)["enqueued"] for queue in left}
            while time.monotonic() < until:
                if all(connection.queue(queue)["enqueued"] >= before[queue] + LEFT for queue in left):
                    break
                time.sleep(0.2)

    def _judge(self) -> None:
        self._say(f"round {self._number}: judging")
        verdict = judge(self._folder, strict=not self._settings.faults)
        if not self._outcome.violations and self._number <= self._settings.plant:
            lines = [line for path in sorted(self._folder.glob("*.jsonl")) for line in read_lines(path)]
            for name in plants.escaped(lines):
                verdict.found("vacuous", f"planted into this history, and not found: {name}")
        # After the cluster is lost, all that is known to be missing follows from that.
        lost = any(violation.rule in ("not healthy", "refused") for violation in self._outcome.violations)
        follows = {"unfinished", "undrained", "lost", "vanished", "vacuous"} if lost else set[str]()
        for violation in verdict.violations:
            if violation.rule not in follows:
                self._outcome.violations.append(violation)
        self._outcome.counts += verdict.counts


def judge(folder: Path, strict: bool) -> Verdict:
    """The checker's word on the journals of one round."""
    least = {"loss checks": 100, "accepts completed": 100, "place order checks": 100, "redeliveries": 1,
             "browse loss checks": 100}  # fmt: skip
    return history.check_files(folder.glob("*.jsonl"), strict, least)


def _has_begun(journal: Path) -> bool:
    return journal.exists() and any(
        line["op"] in ("send", "deliver", "browse", "look", "roam") for line in read_lines(journal)
    )
