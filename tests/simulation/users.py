"""A simulated user: a program on the product's own client books, which finds another broker when its own is lost.

`Conversation`, `SenderCore`, `ReceiverCore` and `Search` are the product's; what its drivers do around them (dial, wait,
keep the heartbeat, fetch, get) is done here in virtual time. Raw clients, who say what no book would, are in
`clients.py`. What each may be told is watched at its line, as with any client; what its user sees, by the ledger.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

from mantamq.client.books.conversation import Conversation
from mantamq.client.books.patience import LOOK_S
from mantamq.client.books.reconnect import Search
from mantamq.client.errors import MantaError
from mantamq.client.management import _Ask
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Flow
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import encode_frame
from mantamq.protocol.wire.queue_frames import ACCEPT

from .boxes import Inbox, Outbox
from .ledger import Ledger
from .lines import Line
from .model import Violation
from .stops import nothing_comes, start
from .world import World

Task = Generator[Callable[[], bool], None, None]
"""A call that waits as a driver's calls do: it yields its condition."""
SEARCH_S = 30.0
"""How long another broker is looked for (the drivers' default)."""
GREETED_US = 10_000_000
"""A broker must take over all links in this time (the drivers' default)."""


class User:
    """One program with one conversation.

    Args:
        heartbeat_ms: 0 for none.
        reconnects: whether it looks for another broker.
        rescue: it only looks, also where there is no majority.

    Attributes:
        line: the connection it has now, None while it has none.
        over: the conversation has ended.
        errors: (command, error) of commands that failed.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        name: str,
        broker: str,
        rng: random.Random,
        heartbeat_ms: int,
        reconnects: bool,
        rescue: bool = False,
    ) -> None:
        self.world, self.ledger, self.name, self.rng = world, ledger, name, rng
        self.reconnects = reconnects
        self.outboxes: dict[int, Outbox] = {}
        self.inboxes: dict[int, Inbox] = {}
        self.errors: list[tuple[str, MantaError]] = []
        self.replaced = False
        self._tasks: list[tuple[Task, Callable[[], bool]]] = []
        self._lines = 0
        self.conversation = Conversation(
            f"{broker}:1", "", self._write, heartbeat_ms, reconnects, rescue=rescue, client=name
        )
        self._search = Search([f"{b}:1" for b in world.brokers], SEARCH_S, rng.random)
        self._seeking = False
        self._running = False
        self.line: Line | None = self._dial(broker)
        self.conversation.open()
        self._expect(self.line, lambda: self.conversation.opened is not None)

    @property
    def over(self) -> bool:
        return self.conversation.failure is not None

    @property
    def alive(self) -> bool:
        return not self.over

    @property
    def opened(self) -> bool:
        return self.conversation.opened is not None

    @property
    def idle(self) -> bool:
        """Nothing that it asked for is under way."""
        return not self._tasks

    def links(self) -> list[Outbox | Inbox]:
        return [*self.outboxes.values(), *self.inboxes.values()]

    # ---- the line

    def _dial(self, broker: str) -> Line | None:
        self._lines += 1
        line = Line(self, self.name if self._lines == 1 else f"{self.name}~{self._lines}", broker)
        return line if line.name in self.world.clients else None

    def _write(self, data: bytes) -> None:
        if self.line is not None:
            self.line.write(data)

    def heard(self, line: Line, frame: Frame) -> None:
        if line is not self.line:
            return
        conversation = self.conversation
        greetings = conversation.greetings
        conversation.feed(encode_frame(frame))
        if conversation.leave:
            self.hang_up(conversation.leave)
        elif conversation.greetings != greetings:
            self._beat(line, conversation.beat.tick_s if conversation.beat is not None else LOOK_S)
        self.poll()

    def _beat(self, line: Line, tick_s: float) -> None:
        tick_us, line_us = int(tick_s * 1e6), self.world.now_us

        def tick() -> None:
            if line is not self.line or self.over:
                return
            self._wait_no_longer(line_us, tick_s)
            if self.conversation.tick():
                self.world.after(tick_us, tick)
            else:
                self.ledger.count("silent")
                self.hang_up(self.conversation.leave)

        self.world.after(tick_us, tick)

    def _wait_no_longer(self, line_us: int, every_s: float) -> None:
        """Senders in which nothing completes say so."""
        self.conversation.look(self.world.now_us / 1e6)
        for outbox in self.outboxes.values():
            outbox.stall.looked(line_us, every_s)

    def _expect(self, line: Line | None, done: Callable[[], bool]) -> None:
        """The first broker must greet us."""
        if line is None:
            self.conversation.lost_because("nobody answers")
            return

        def late() -> None:
            if not done() and not self.over:
                self.conversation.lost_because("no answer in time")
                self.hang_up("no answer in time")

        self.world.after(GREETED_US, late)

    def hang_up(self, reason: str, late_us: int = 0) -> None:
        """This side closes the line."""
        line = self.line
        if line is not None:
            self.world.cut_client(line.name, line.broker, self.rng.random() < 0.5, late_us)
            self.gone(line, reason)

    def gone(self, line: Line, reason: str) -> None:
        """The line is closed."""
        if line is not self.line:
            return
        conversation = self.conversation
        reason = conversation.leave or reason
        self.line = None
        if self._seeking:
            conversation.interrupted()
        elif conversation.searchable:
            self.ledger.count("interrupted")
            self._seeking = True
            broker = conversation.opened.broker if conversation.opened is not None else ""
            self._search.lost(self.world.now_us / 1e6, broker, conversation.address, conversation.members)
            conversation.interrupted()
            self._seek(reason)
        else:
            conversation.lost_because(reason)
        self.poll()

    def _seek(self, reason: str) -> None:
        step = self._search.next(self.world.now_us / 1e6)
        if step is None or self.over:
            self.conversation.lost_because(reason, self._search.tried)
            return
        wait_s, address, limit_s = step
        self.world.after(
            int(wait_s * 1e6) + self.rng.randrange(10, 2_000), lambda: self._attempt(address, limit_s, reason)
        )

    def _attempt(self, address: str, limit_s: float, reason: str) -> None:
        """Try one broker."""
        if self.over:
            return
        line = self.line = self._dial(address.partition(":")[0])
        if line is None:  # refused: nobody listens there
            self._seek(reason)
            return
        self.conversation.begin(address)
        started_us = self.world.now_us

        def look() -> None:
            if self.line is not line:  # it broke meanwhile
                if not self.over:
                    self._seek(reason)
            elif self.over:
                return
            elif self.conversation.whole:
                self._seeking = False
                self.conversation.reconnects += 1
                self.ledger.count("reconnected")
                self._search.found(self.world.now_us / 1e6)
                self.poll()
            elif self.world.now_us - started_us > (
                limit_s * 1e6 if not self.conversation.online else limit_s * 1e6 + GREETED_US
            ):
                self.hang_up("no answer in time")
                self._seek(reason)
            else:
                self.world.after(1_000, look)

        self.world.after(500, look)

    def cut(self) -> None:
        """The line breaks: this end hears of it now, or (with heartbeats) not at all; the other now, later or first."""
        line, rng = self.line, self.rng
        if line is None:
            return
        if self.conversation.beat is not None and rng.random() < 0.4:
            self.world.silence_client(line.name, line.broker)
            self.world.cut_client(line.name, line.broker, True, rng.choice([0, 100_000, 3_000_000]))
        else:
            self.hang_up("the link broke", rng.choice([0, 0, 1_000, 50_000, 2_000_000]))

    def leave(self) -> None:
        """Close the connection, as the drivers do."""
        conversation, line = self.conversation, self.line
        conversation.farewell()
        if line is not None:
            self.line = None
            self.world.cut_client(line.name, line.broker)
        self.poll()

    def die(self, rng: random.Random) -> None:
        """Its process ends, and says nothing; what it had sent may arrive, and the broker hears of it sooner or later."""
        line, self.line = self.line, None
        self.conversation.lost_because("its process has died")
        if line is not None and rng.random() < 0.3:
            self.world.silence_client(line.name, line.broker)
            self.world.cut_client(line.name, line.broker, True, rng.choice([100_000, 3_000_000]))
        elif line is not None:
            self.world.cut_client(line.name, line.broker, rng.random() < 0.3, rng.choice([0, 0, 1_000, 50_000]))
        self.poll()

    # ---- what waits

    def start(self, task: Task) -> None:
        self._step(task)
        self.poll()

    def _step(self, task: Task) -> None:
        for waits in task:
            if not waits():
                self._tasks.append((task, waits))
                return

    def poll(self) -> None:
        """Go on with all that waits for what has come."""
        if self._running:
            return
        self._running = True
        try:
            again = True
            while again:
                again = False
                for item in list(self._tasks):
                    if item[1]():
                        self._tasks.remove(item)
                        self._step(item[0])
                        again = True
            self._look()
        finally:
            self._running = False

    def _look(self) -> None:
        """The books' word against the ledger's."""
        for outbox in self.outboxes.values():
            core = outbox.core
            if core is not None and core.failure is None and core.unsettled != self.ledger.unsettled(outbox.key):
                raise Violation(
                    f"{self.name}: sender {outbox.handle} counts {core.unsettled} not complete, "
                    f"{self.ledger.unsettled(outbox.key)} are"
                )
            if core is not None and core.failure is None and core.unroutable != self.ledger.unroutable(outbox.key):
                raise Violation(
                    f"{self.name}: sender {outbox.handle} counts {core.unroutable} that went to no queue, "
                    f"{self.ledger.unroutable(outbox.key)} did"
                )
        for inbox in self.inboxes.values():
            core = inbox.core
            if core is not None and (inbox.accepted or len(core.lost) > inbox.lost) and core.settled():
                inbox.settled()

    def granted(self, line: Line, frame: Flow) -> None:
        """Credit is said: with what is here it never exceeds the window."""
        core = self.inboxes[frame.handle].core
        if frame.messages:
            nothing_comes(self.inboxes[frame.handle], f"{line.name} grants {frame.messages}")
        credit = self.ledger.credit(line.name, frame.handle)
        line.bounded(frame.handle, credit)
        if core is None or not core.capacity:
            return
        if credit + core.available > core.capacity:
            raise Violation(
                f"{line.name} has {core.available} messages and {credit} of credit on {frame.handle}, whose window is "
                f"{core.capacity}"
            )

    def open_windows(self) -> None:
        """At rest, who has fetched all may be sent more."""
        for inbox in self.inboxes.values():
            core = inbox.core
            if inbox.window == "unaccepted" and len(inbox.hands) >= inbox.capacity:
                continue  # its window is full: it is sent nothing
            if self.line is not None and inbox.open and core is not None and core.capacity and not core.available:
                self.ledger.count("windows open")
                if self.ledger.credit(self.line.name, inbox.handle) < 1:
                    raise Violation(f"{self.line.name}: the window of {inbox.handle} is shut, and nothing is here")

    # ---- what a user does

    def command(self, what: str, /, **arguments: Any) -> None:
        if not self.over:
            self.start(self._command(what, arguments))

    def ask(self, ask: _Ask[Any]) -> None:
        """As the drivers' management methods."""
        self.command(ask.name, **ask.arguments)

    def asked(self, ask: _Ask[Any]) -> Generator[Callable[[], bool], None, Any]:
        """As `ask`, within another task. Returns what the broker answers, None where it refuses."""
        return self._command(ask.name, ask.arguments)

    def _command(self, what: str, arguments: dict[str, Any]) -> Generator[Callable[[], bool], None, Any]:
        conversation = self.conversation
        number = conversation.command(what, arguments)
        yield lambda: conversation.replied(number)
        try:
            return conversation.result(number)
        except MantaError as error:
            self.errors.append((what, error))
            return None
        finally:
            conversation.forget(number)

    def sender(
        self, exchange: str, target: str | None, capacity: int, limit_s: float | None = None, mandatory: bool = False
    ) -> None:
        def attach() -> Task:
            yield lambda: self.opened or self.over
            if self.over:
                return
            handle = conversation.attach(lambda handle: AttachSender(handle, exchange, target, 0, mandatory))
            outbox = self.outboxes[handle] = Outbox(self, handle, exchange, target, capacity, limit_s, mandatory)
            yield lambda: conversation.attached(handle)
            try:
                core = outbox.core = conversation.sender(handle, exchange, outbox.keyed, capacity, limit_s)
                outbox.number = core.sent
            except MantaError as error:
                outbox.code = error.code

        conversation = self.conversation
        if not self.over:
            self.start(attach())

    def receiver(
        self, queue: str, capacity: int, mode: str = "consume", accept: bool = True, single: bool = False,
        window: str = "unfetched", selector: str = "", exclusive: bool = False,
        priority: int = 0, no_local: bool = False,
    ) -> None:  # fmt: skip
        def attach() -> Task:
            yield lambda: self.opened or self.over
            if self.over:
                return
            able = conversation.abilities
            wanted, own = able.selector(selector), able.no_local(no_local)
            more = conversation.claim(exclusive), able.priority(priority)
            handle = conversation.attach(
                lambda handle: AttachReceiver(handle, queue, mode, accept, [], wanted, *more, no_local=own)
            )
            inbox = self.inboxes[handle] = Inbox(self, handle, queue, capacity, mode, accept, window, selector)
            inbox.single = single
            yield lambda: conversation.attached(handle)
            try:
                inbox.begins(conversation.receiver(handle, queue, capacity, inbox.settles, inbox.browse, window))
            except MantaError as error:
                inbox.code = error.code

        conversation = self.conversation
        if not self.over:
            self.start(attach())

    def close_sender(self, outbox: Outbox, wait: bool) -> Task:
        core = outbox.core
        assert core is not None
        outbox.closing = True
        if wait and not core.hopeless:
            yield from self.sync(outbox, None)
        else:
            core.flush()
        self.conversation.detach(outbox.handle)
        yield lambda: self.conversation.detached(outbox.handle)

    def sync(self, outbox: Outbox, timeout_us: int | None) -> Task:
        """As the drivers' `sync(timeout)`: it waits as long as something completes."""
        core, world = outbox.core, self.world
        assert core is not None
        core.flush()
        mark = core.sent
        end_us = world.now_us + timeout_us if timeout_us is not None else 1 << 62
        expired = core.patience.expired
        core.waiters += 1
        try:
            if not core.settled(mark):
                core.look(world.now_us / 1e6)
                outbox.stall.looked(world.now_us)
                expired = core.patience.expired
            while not core.settled(mark) and core.patience.expired == expired and world.now_us < end_us:
                left_s = (end_us - world.now_us) / 1e6 if timeout_us is not None else None
                again_us = world.now_us + int(core.patience.slice_s(left_s) * 1e6) + 1
                world.at(again_us, self.poll)
                yield lambda again_us=again_us: core.settled(mark) or world.now_us >= again_us
                if core.settled(mark):
                    break  # as the drivers: what is over is not looked at
                core.look(world.now_us / 1e6)
                outbox.stall.looked(world.now_us)
        finally:
            core.waiters -= 1
        if core.failure is None and core.settled(mark):
            self.ledger.count("synced")
            if missing := self.ledger.open_numbers(outbox.key, mark):
                raise Violation(
                    f"{self.name}: sender {outbox.handle} has synced {mark}, and {missing} are not complete"
                )

    def close_receiver(self, inbox: Inbox) -> Task:
        assert inbox.core is not None
        inbox.closing = True
        inbox.core.flush()
        self.conversation.detach(inbox.handle)
        yield lambda: self.conversation.detached(inbox.handle)

    def fetch(self, inbox: Inbox, timeout_us: int) -> Task:
        """As the drivers' `fetch(timeout)`."""
        core = inbox.core
        assert core is not None
        end_us = self.world.now_us + timeout_us
        self.world.after(timeout_us, self.poll)
        inbox.calls += 1
        core.ask(1)
        try:
            while not inbox.take() and core.failure is None:
                yield lambda: core.ready() or self.world.now_us >= end_us
                if core.ready():
                    continue
                if core.capacity == 0 and core.credit:
                    mark = core.drain()
                    yield lambda mark=mark: core.drained >= mark or core.failure is not None or not core.credit
                inbox.take()
                return
        finally:
            inbox.calls -= 1
            core.unask(1)

    def get(self, inbox: Inbox, count: int) -> Task:
        """As the drivers' `get_batch(count)`."""
        core = inbox.core
        assert core is not None
        inbox.calls += 1
        core.ask(count, now=False)
        left = count
        try:
            while True:
                while left and inbox.take():
                    left -= 1
                    core.unask(1)
                if not left or core.failure is not None:
                    return
                before = core.received
                mark = core.drain()
                yield lambda mark=mark: core.drained >= mark or core.failure is not None
                if not core.available and core.received == before:
                    self.ledger.count("heard empty")
                    return
        finally:
            inbox.calls -= 1
            core.unask(left)

    # ---- the end

    def state(self) -> str:
        """Where it stands, for the reader."""
        line = f"at {self.line.broker}" if self.line is not None else "nowhere"
        senders = [
            (o.handle, o.code, o.core and (o.core.unsettled, o.core.pending.keys())) for o in self.outboxes.values()
        ]
        receivers = [
            (
                i.handle,
                i.queue,
                i.code,
                i.calls,
                i.core and (i.core.credit, i.core.available, i.core.drains, i.core.drained),
            )
            for i in self.inboxes.values()
        ]
        conversation = self.conversation
        return f"{self.name} {line}, whole {conversation.whole}, waits {len(self._tasks)}: {senders} {receivers}"

    def drains(self) -> bool:
        """Whether a drain of its is not answered yet, though the caller who asked for it may wait no more."""
        cores = [inbox.core for inbox in self.inboxes.values() if inbox.open]
        return any(core is not None and core.drains > core.drained for core in cores)

    def behave(self, accept_all: bool) -> bool:
        """Say all that has gathered; with `accept_all` fetch and accept what is here. Returns whether nothing is open."""
        busy = bool(self._tasks) or not self.conversation.whole
        for outbox in self.outboxes.values():
            core = outbox.core
            if core is None:
                busy = busy or not outbox.code
            elif core.failure is None:
                core.flush()
                busy = busy or core.unsettled > 0
        for inbox in self.inboxes.values():
            core = inbox.core
            if core is None:
                busy = busy or not inbox.code
            elif core.failure is None:
                busy = busy or core.stopped
                if inbox.silent:
                    start(inbox)
                if accept_all and not inbox.closing:
                    while inbox.take():
                        pass
                    for message in inbox.hands:
                        inbox.settle(ACCEPT, message)
                    inbox.hands.clear()
                core.flush()
                busy = busy or not core.settled()
        self.poll()
        return not busy
