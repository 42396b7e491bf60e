"""Programs that send under a name, die in the midst of it, come back with the same name and go on from what their queue
knows: each number is in the queue once and in order, and what they hear of that is neither too much nor too little.

A program sends the lines of a file: number n is the same message in each of its lives, which may run side by side for a
while. What a life hears when it begins is compared with the committed log as it is where its beginning is; all that is
judged here is counted here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mantamq.client import MantaError, Message
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import AttachSender, Completed, Failed

from .boxes import PROPERTIES, TTL_S, Outbox
from .duplicates import IDS
from .model import ModelQueue, Violation, each, opened
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

STORIES = 0.3
"""The share of stories with such programs."""
RATE = 0.08
"""How often one of them dies, comes back, or is followed by another."""
WORKS = 0.4
"""How often each of them sends some of its lines."""
AHEAD = 200
"""At most so many messages of a life are under way."""
FLEETING = 0.02
"""How often another program comes, for a queue that may be deleted under it."""
MOST = 3
"""Programs at a time."""
AGAIN = 0.2
"""The share of lives that begin their file anew, though the queue has some of it."""
DELAYS_MS = (1, 20, 500)


@dataclass
class Program:
    """Attributes:
    skips: its lines have gaps, so it says their numbers. lives: its senders, users: who runs it, the latest last.
    heard: queue id -> the highest number in it of which any life has heard that it is complete. refused: those that
        were refused.
    """

    name: str
    queue: str
    seed: int
    skips: bool
    lives: list[Life] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    heard: dict[str, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    @property
    def user(self) -> User | None:
        return self.users[-1] if self.users else None

    def has(self, number: int) -> bool:
        return not self.skips or number % 7 not in (3, 4)

    def body(self, number: int) -> bytes:
        return f"{self.name}:{number}".encode()

    def line(self, number: int) -> tuple[Message, int]:
        """That message, the same in each life, and for how many ms it is delayed."""
        rng, body = random.Random(f"line {number} of {self.name} in {self.seed}"), self.body(number)
        ms = rng.choice(DELAYS_MS) if rng.random() < 0.1 else 0
        if rng.random() < 0.5:
            return Message(body), ms
        said = Message(body, None, rng.choice(PROPERTIES), rng.choice(TTL_S), rng.choice([None, 4, 9]))
        if rng.random() < 0.3:
            said.message_id = rng.choice(IDS)
        return said, ms


class Life(Outbox):
    """A program's sender, from when it begins until it ends.

    Attributes:
        began_behind: what was heard of its queue, as it is now, before it asked to begin. began_with: the id of that.
        begins_at: what it heard as its last completed, -1 before.
    """

    def __init__(self, program: Program, user: User, handle: int, capacity: int, queue: str) -> None:
        super().__init__(user, handle, "", program.queue, capacity)
        self.program = program
        self.began_behind, self.begins_at = program.heard.get(queue, 0), -1
        self.began_with = queue
        self.names_number = program.skips

    @property
    def holder(self) -> str:
        """As its queue knows it."""
        return f"{self.user.name}/{self.handle}"

    def act(self, rng: random.Random, batch: int) -> None:
        self.work(random.Random(f"{self.number} {batch} {self.holder}"))

    def work(self, rng: random.Random) -> None:
        core = self.core
        assert core is not None
        self.hear()
        self.looks()
        if rng.random() < 0.1 or not self.user.conversation.online:
            core.flush()
            return
        for _ in range(rng.choice([1, 2, 5, 20])):
            if core.full() or core.failure is not None or core.unsettled > AHEAD:
                core.flush()
                return
            self._next()

    def _next(self) -> None:
        core, program = self.core, self.program
        assert core is not None
        number = self.number + 1
        while not program.has(number):
            number += 1
        if self.names_number and not core.number(number):
            self.number = number
            self.user.ledger.count("repeated lines")
            if number > self.begins_at:
                raise Violation(f"{self.holder} keeps line {number} of {program.name}, and heard {self.begins_at}")
            return
        message, ms = program.line(number)
        self.number = number
        self.user.ledger.put(self, number, message, [], (ms, False) if ms else None)
        if ms:
            core.put_later(message, (ms + 0.5) / 1000, None, None)
        else:
            core.put(message)

    def looks(self) -> None:
        """What it is told to be complete, as its program may ask at any time, is neither too much nor too little."""
        core = self.core
        assert core is not None
        told = core.last_completed
        ledger = self.user.ledger
        if told < self.begins_at or (early := ledger.open_numbers(self.key, told)):
            raise Violation(f"{self.holder} counts {told} of {self.program.name}, and {early} are not complete")
        waits = min(ledger.open_numbers(self.key, self.number), default=self.number + 1)
        if core.failure is None and any(map(self.program.has, range(max(told, self.begins_at) + 1, waits))):
            raise Violation(f"{self.holder} counts {told} of {self.program.name} only, and {waits} is not complete")


class NamedPrograms:
    """Of one story; its choices are its own, so that a story without is as it was.

    Attributes:
        some: the story has any. judged: lives whose beginning was compared with the log; twice: numbers that came again.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"named senders of {seed}")
        self.some = self._rng.random() < STORIES
        self.judged = self.twice = 0
        self._seed, self._world, self._watch = seed, world, watch
        self._before = 0  # positions there were before the event that is applied
        self._programs: dict[str, Program] = {}
        self._story: Story | None = None
        self._senders: dict[tuple[str, int], str] = {}  # (client, handle) -> its program's name
        self._last: dict[tuple[str, str], int] = {}  # (queue id, name) -> the highest number in it
        self._began: dict[str, set[int]] = defaultdict(set)  # holder -> the highest number in its queue as it began
        if self.some:
            world.watch(sent={AttachSender: self._attaches, Completed: self._told, Failed: self._failed})
            watch.before_commit.append(self._committing)
            watch.on_commit.append(self._committed)

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some:
            return
        if not self._programs:
            for number in range(rng.choice([1, 1, 2])):
                name, queue = f"import{number}", rng.choice(story.queues[1:])
                self._programs[name] = Program(name, queue, self._seed, rng.random() < 0.4)
        for program in self._programs.values():
            for life in program.lives[-2:]:  # the one before the last may not know yet that it is over
                if life.open and not life.user.over and rng.random() < WORKS:
                    life.work(rng)
        if there := [program for program in self._programs.values() if self._is_there(program)]:
            if rng.random() < RATE or not all(program.lives for program in there):
                self._turn(story, rng.choice(there))
        if story.temporary and len(there) < MOST and rng.random() < FLEETING:
            name = f"import{len(self._programs)}"
            self._programs[name] = Program(name, rng.choice(story.temporary), self._seed, rng.random() < 0.4)

    def _is_there(self, program: Program) -> bool:
        """Its queue is not deleted, nor still to be declared."""
        return program.queue in self._watch.wiring.ids

    def _id(self, program: Program) -> str:
        """Of its queue as it is now: another one where it was deleted and declared anew."""
        return self._watch.wiring.ids.get(program.queue, "")

    def _turn(self, story: Story, program: Program) -> None:
        rng = self._rng
        life, user = program.lives[-1] if program.lives else None, program.user
        if user is not None and not user.over and (life is None or life.user is not user or life.core is None):
            if rng.random() < 0.9:  # it is on its way
                return
        if life is None or life.core is None or life.ended or life.closing or life.user.over:
            self._begin(story, program)
            return
        what = rng.random()
        if what < 0.45:
            life.user.die(rng)
            if rng.random() < 0.7:
                self._begin(story, program)
        elif what < 0.7:
            self._begin(story, program)  # beside the one that is there
            if rng.random() < 0.3:
                life.user.cut()
        elif what < 0.9:
            life.user.cut()
        elif life.open:
            life.user.start(life.user.close_sender(life, rng.random() < 0.5))

    def _begin(self, story: Story, program: Program) -> None:
        user, rng = story.user(True), self._rng
        program.users.append(user)
        capacity, anew = rng.choice([1, 5, 50, 300]), rng.random() < AGAIN

        def begin() -> Task:
            yield lambda: user.opened or user.over
            if user.over:
                return
            conversation = user.conversation
            handle = conversation.attach(lambda h: AttachSender(h, "", program.queue, 0, False, program.name))
            queue = self._id(program)
            life = user.outboxes[handle] = Life(program, user, handle, capacity, queue)
            program.lives.append(life)
            yield lambda: conversation.attached(handle)
            try:
                life.core = conversation.sender(handle, program.queue, False, capacity)
            except MantaError as error:
                life.code = error.code
                return
            life.begins_at = life.number = life.core.last_completed
            if life.begins_at < life.began_behind and self._id(program) == queue:
                raise Violation(
                    f"{life.holder} is told that {life.begins_at} of {program.name} are complete; before it came another "
                    f"had heard so of {life.began_behind}"
                )
            if anew:
                life.number, life.names_number = 0, True

        user.start(begin())

    # ---- what comes of it

    def _attaches(self, source: str, target: str, frame: AttachSender) -> None:
        if frame.name:
            self._senders[source.partition("~")[0], frame.handle] = frame.name

    def _of(self, line: str, handle: int) -> Program | None:
        return self._programs.get(self._senders.get((line.partition("~")[0], handle), ""))

    def _told(self, source: str, target: str, frame: Completed) -> None:
        if program := self._of(target, frame.handle):
            queue = self._id(program)
            here = [number for number in each(frame.ranges) if number <= self._last.get((queue, program.name), 0)]
            program.heard[queue] = max([program.heard.get(queue, 0), *here])  # others were for a queue that has gone

    def _failed(self, source: str, target: str, frame: Failed) -> None:
        if program := self._of(target, frame.handle):
            program.refused.update(each(frame.ranges))

    def _committing(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        """A life begins where the log says, at its place in that."""
        if isinstance(event, events.Named) and not event.again:
            self._began[event.holder].add(self._last.get((stream, event.name), 0))
        self._before = len(model.place)

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        program = self._programs.get(event.client[:-1]) if isinstance(event, events.Enqueue) else None
        if not isinstance(event, events.Enqueue) or program is None or event.client[-1] != "!":
            return
        last, fresh = self._last.get((stream, program.name), 0), []
        for number, blob in zip(each(event.numbers), event.blobs, strict=True):
            if _body(blob) != program.body(number):
                raise Violation(f"{stream}: number {number} of {program.name} is {blob!r}")
            if number <= last:
                self.twice += 1
                continue
            left = [n for n in range(last + 1, number) if program.has(n) and n not in program.refused]
            if left:
                raise Violation(f"{stream}: number {number} of {program.name} comes behind {last}, without {left[:5]}")
            last = self._last[stream, program.name] = number
            fresh.append(program.body(number))
        came = [_body(model.blobs[position]) for position in range(self._before + 1, len(model.place) + 1)]
        if came != fresh:
            raise Violation(f"{stream}: {event.numbers} of {program.name} bring {came}, once each and in order {fresh}")

    # ---- the end

    def rest(self, story: Story) -> None:
        """All is answered that is still awaited: a last life of each program begins."""
        self._story = story
        for program in filter(self._is_there, self._programs.values()):
            self._begin(story, program)

    def over(self) -> bool:
        """Each has one life, the last that began."""
        return all(self._has_one_life(program) for program in self._programs.values() if self._is_there(program))

    def _has_one_life(self, program: Program) -> bool:
        coming = {user.name for user in program.users if not user.over}
        coming -= {life.user.name for life in program.lives if life.ended or life.core is not None}
        last = next((life for life in program.lives if life.user is program.user), None)
        if coming:
            return False
        if last is None or last.ended or last.user.over:
            assert self._story is not None
            self._begin(self._story, program)
            return False
        return not any(life.open and not life.user.over for life in program.lives if life is not last)

    def finish(self) -> None:
        for program in self._programs.values():
            for life in program.lives:
                if life.begins_at < 0 or not self._is_there(program):
                    continue
                self.judged += 1
                if life.begins_at not in self._began[life.holder]:
                    raise Violation(
                        f"{life.holder} is told that {life.begins_at} of {program.name} are complete; as it began "
                        f"{program.queue} had {self._began[life.holder]}"
                    )
            last = next((life for life in program.lives if life.user is program.user), None)
            if last is None or last.user.over or not self._is_there(program):
                continue
            if last.began_with != self._id(program):  # that was deleted, and another declared since all was at rest
                continue
            if last.ended:  # what was heard since it began may be of one before it, whose transfers were on their way
                raise Violation(f"{last.holder} is the last of {program.name}, and over")


def _body(blob: bytes) -> Any:
    fields = opened(blob)
    return fields[0] if fields else blob
