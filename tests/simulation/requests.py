"""Programs that ask and programs that answer, while members die and lines break: whoever asks gets one answer, to what it
asked, or hears in its time that it gets none; and what comes too late does not gather in its queue.

An answer's body says which question it is to, so nothing of what is judged here is read in correlation ids.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mantamq.client import LinkClosed, MantaError, Timeout
from mantamq.client.books.asking import asking
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.requests import REPLIES, ReplySender, to_reply
from mantamq.client.books.sender import SenderCore
from mantamq.client.management import _declare_queue
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Delivery
from mantamq.protocol.wire.queue_frames import ACCEPT

from .model import Violation, opened
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

STORIES = 0.12
"""The share of stories with such programs."""
RATE = 0.3
"""How often somebody asks, or a program comes or is cut off."""
QUEUE = "tasked"
TIMES_S = (0.01, 0.1, 0.5, 2.0, 5.0)
ANSWERS = (1, 1, 1, 1, 1, 0, 2)
"""How often a question is answered."""
CAUSES = frozenset({"not-found", "unroutable", "unavailable", "resource-limit-exceeded"})
"""Why there may be no answer; the queue for it may have gone as well."""


@dataclass
class Question:
    """Attributes: until_us: when it is given up. came: an answer has come to its program in time. judged: how often it
    has ended."""

    user: User
    body: bytes
    until_us: int
    came: bool = False
    judged: int = 0


class Server:
    """A program that answers what comes to the queue."""

    def __init__(self, requests: Requests, user: User) -> None:
        self.user = user
        self._requests = requests
        self._receiver: ReceiverCore | None = None
        self._sender: SenderCore | None = None
        self._failure: MantaError | None = None

    def begin(self) -> Task:
        user, conversation = self.user, self.user.conversation
        yield lambda: user.opened or user.over
        if user.over:
            return
        try:
            source = conversation.attach(lambda handle: AttachReceiver(handle, QUEUE, "consume", True, []))
            yield lambda: conversation.attached(source)
            self._receiver = conversation.receiver(source, QUEUE, 20, True)
            target = conversation.attach(lambda handle: AttachSender(handle, "", None, 0, False))
            yield lambda: conversation.attached(target)
            self._sender = conversation.sender(target, "", True, REPLIES, kind=ReplySender)
        except MantaError as error:
            self._failure = error

    @property
    def there(self) -> bool:
        cores = [core for core in (self._receiver, self._sender) if core is not None]
        return not self.user.over and self._failure is None and all(core.failure is None for core in cores)

    def work(self, rng: random.Random) -> None:
        receiver, sender = self._receiver, self._sender
        if receiver is None or sender is None or receiver.failure is not None or sender.failure is not None:
            return
        while not sender.full() and (message := receiver.fetch()) is not None:
            for _ in range(rng.choice(ANSWERS)):
                answer = self._requests.answers(message.body)
                _, key, reply = to_reply(message, answer)
                sender.put_to(reply, (key,))
            receiver.settle(ACCEPT, message)
        sender.flush()
        receiver.flush()


class Requests:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. answered, unanswered: questions that ended so. queues: those for answers.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"requests of {seed}")
        self.some = self._rng.random() < STORIES
        self.answered = self.unanswered = 0
        self._world, self._watch = world, watch
        self._servers: list[Server] = []
        self._askers: list[User] = []
        self._questions: list[Question] = []
        self.queues: set[str] = set()
        self._given: dict[bytes, bytes] = {}  # answer -> question
        if self.some:
            world.watch(arrived={Delivery: self._comes})
            watch.on_wiring.append(self._wired)

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some:
            return
        for server in self._servers:
            server.work(rng)
        if rng.random() >= RATE:
            return
        if QUEUE not in self._watch.wiring.ids:
            if not self._askers:
                self._declare(story)
            return
        what = rng.random()
        if len([one for one in self._servers if one.there]) < 2 and what < 0.5:
            self._servers.append(server := Server(self, story.user(True)))
            server.user.start(server.begin())
        elif what < 0.05:
            rng.choice(self._servers or [Server(self, self._askers[0])]).user.cut()
        elif what < 0.1:
            rng.choice(self._askers).cut()
        else:
            self._ask(story)

    def _declare(self, story: Story) -> None:
        user = story.user(True)
        self._askers.append(user)
        durable = story.declared_as(QUEUE).get("durable", False)

        def begin() -> Task:
            yield lambda: user.opened or user.over
            if not user.over:
                yield from user.asked(_declare_queue(QUEUE, durable, "", None, False))

        user.start(begin())

    def _ask(self, story: Story) -> None:
        rng = self._rng
        askers = [user for user in self._askers if user.opened and not user.over]
        if not askers or (len(askers) < 3 and rng.random() < 0.1):
            self._askers.append(story.user(True))
            return
        user = rng.choice(askers)
        for _ in range(rng.choice([1, 1, 3])):
            time_s = rng.choice(TIMES_S)
            body = f"question {len(self._questions)}".encode()
            question = Question(user, body, self._world.now_us + int(time_s * 1e6))
            self._questions.append(question)
            user.start(self._asks(question, time_s))

    def _asks(self, question: Question, time_s: float) -> Task:
        user, world = question.user, self._world
        world.after(int(time_s * 1e6), user.poll)
        steps = asking(user.conversation, lambda: False, QUEUE, question.body, time_s)
        try:
            waits = next(steps)
            while True:
                yield lambda waits=waits: waits() or world.now_us >= question.until_us
                waits = steps.send(waits())
        except StopIteration as end:
            self._ends(question, end.value.body, None)
        except MantaError as error:
            self._ends(question, None, error)

    def answers(self, question: Any) -> bytes:
        answer = f"answer {len(self._given)} to {question.decode()}".encode()
        self._given[answer] = question
        return answer

    # ---- what comes of it

    def _wired(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.DeclareQueue) and event.client in {user.name for user in self._askers}:
            self.queues.add(event.name)

    def _comes(self, source: str, target: str, frame: Delivery) -> None:
        """What comes to a line of a program, and is an answer to a question of its."""
        for blob in frame.blobs:
            fields = opened(blob)
            body = self._given.get(fields[0] if fields else b"")
            for question in self._questions:
                if question.body == body and question.user.line is not None and question.user.line.name == target:
                    question.came = question.came or self._world.now_us < question.until_us

    def _ends(self, question: Question, answer: Any, error: MantaError | None) -> None:
        question.judged += 1
        name, now_us = question.user.name, self._world.now_us
        if answer is not None:
            self.answered += 1
            if self._given.get(answer) != question.body:
                raise Violation(f"{name} asks {question.body} and gets {answer}")
            return
        self.unanswered += 1
        if not isinstance(error, LinkClosed) and (error is None or error.code not in CAUSES):
            raise Violation(f"{name} asks {question.body}, which is refused by {error!r}")
        if isinstance(error, Timeout) and now_us < question.until_us:
            raise Violation(f"{name} is told that {question.body} has no answer in time, before that is over")
        if isinstance(error, Timeout) and question.came:
            raise Violation(f"{name} is told that {question.body} has no answer, and one has come")

    # ---- the end

    def over(self) -> bool:
        """At rest every question has ended, once, and no answer is left in a queue from which whoever asked receives."""
        for server in self._servers:
            server.work(self._rng)
        # One of which a broker has said too early that it is gone, since it had not heard of it yet, is nobody's.
        used = {core.queue for user in self._askers if (core := user.conversation.requests.receiver) is not None}
        models = [self._watch.model_of(name) for name in used & self.queues]
        left = [model.id for model in models if model is not None and model.live]
        return all(question.judged == 1 for question in self._questions) and not left

    def leave(self) -> None:
        for user in [*self._askers, *(server.user for server in self._servers)]:
            if user.alive:
                user.leave()
