"""The clients of queues that are of a kind: who takes from them, pushes into one that has a limit, and looks at them."""

from __future__ import annotations

import time
from contextlib import suppress

from mantamq.client import Connection, MantaError
from mantamq.client.errors import InUse

from . import history_counts, kinds
from .journal import Journal
from .load import ANSWER_S, CHOICES, PATIENCE_S, Client, GivenUp, Receiving, Sending, SendingLink
from .receiving import Hand

LOOK_S = 0.1
RESTS_S, ROUND_S = 3.0, 10.0
"""For so long of every round all takers leave alone the queues that hold producers back: they fill, and do so for a while,
however slow the machine is."""
ONE_MORE_S = 0.2
"""After so long without completion, and held back, a pusher sends another."""
LEFT_DEAD = 5
"""So many dead letters are not redriven: what they say of themselves is seen when their queue is drained."""
IN_VAIN = (0.25, "release"), (0.3, "reject"), (0.34, ""), (0.5, "modify")
OFTEN = (0.06, "release"), (0.07, "reject"), (0.09, ""), (0.15, "modify")
CLOSES, CLOSES_ALONE, AGAIN = 0.006, 0.05, 0.2
"""How likely a receiver ends after a turn, and another begins instead of a turn: somebody else may be quicker."""


def look(connection: Connection, journal: Journal, queue: str, tally: bool = False) -> None:
    """Ask what a queue has, and log it. Args: tally: all of it that is counted, since it is drained."""
    began = time.monotonic()
    told = connection.queue(queue)
    journal.write(
        "look", queue=queue, began=round(began, 6), messages=told["messages"],
        stopped=told.get("flowStopped", False), stops=told.get("flowStoppedCount", 0),
    )  # fmt: skip
    if tally:
        journal.write("tally", queue=queue, counts={name: told[name] for name in history_counts.NAMES if name in told})


class Taking(Receiving):
    """Takes from queues of all kinds, from each as quickly as its kind says, and with every option of a receiver.

    Told to drain, it leaves those that one is to drain in their order: what comes then nobody has seen before.
    """

    def work(self, connection: Connection) -> None:
        hands: dict[str, Hand | None] = {}
        broken = True
        try:
            for queue in self.task.queues:
                hands[queue] = self._claimed(connection, queue)
            until = time.monotonic() + self.random.expovariate(1 / 25)
            while not self.stopping.is_set() and time.monotonic() < until:
                waits = self.random.choice(self.task.queues)
                for queue, hand in hands.items():
                    hands[queue] = self._look_after(connection, queue, hand, 0.1 if queue == waits else 0.0)
            for hand in hands.values():
                if hand is not None:
                    hand.settle("accept", list(hand.held))
                    hand.close()
            broken = False
        finally:
            for hand in hands.values() if broken else ():
                if hand is not None:
                    hand.lost()

    def _look_after(self, connection: Connection, queue: str, hand: Hand | None, timeout_s: float) -> Hand | None:
        """Take, and now and then end the receiver, or begin another; returns it."""
        kind, leaves = kinds.KINDS[kinds.name(queue)], False
        if self.draining.is_set() and kind.left:
            leaves = True
        elif hand is None:
            return self._claimed(connection, queue) if self.random.random() < AGAIN else None
        else:
            self._turn(hand, timeout_s)
            leaves = self.random.random() < (CLOSES_ALONE if kind.alone else CLOSES)
        if leaves and hand is not None:
            hand.close()
        return None if leaves else hand

    def _claimed(self, connection: Connection, queue: str) -> Hand | None:
        """A receiver; None where another has the queue alone, or it is left to who drains."""
        if self.draining.is_set() and kinds.KINDS[kinds.name(queue)].left:
            return None
        with suppress(InUse):
            return self._hand(connection, queue)
        return None

    def _hand(self, connection: Connection, queue: str) -> Hand:
        kind, chance = kinds.KINDS[kinds.name(queue)], self.random
        capacity = chance.choice((0, 1, 5, 20, 100))
        bounds = capacity > 0 and chance.random() < 0.3
        wants: list[str] = []
        if kind.selected and chance.random() < 0.7:
            wants = kinds.some_keys(kind, chance)
        return Hand(
            self.journal, self.name_link, self._ids, connection, queue, capacity, bounds=bounds, wants=wants,
            exclusive=kind.alone, priority=chance.choice((0, 0, 0, 5)),
        )  # fmt: skip

    def _turn(self, hand: Hand, timeout_s: float) -> None:
        kind, chance = kinds.KINDS[kinds.name(hand.queue)], self.random.random
        if hand.stopped:
            hand.fetch(0.02)  # it shows that nothing comes
            if chance() < 0.3:
                hand.start()
        elif chance() < kind.taken and not self._rests(kind):
            if not hand.capacity:
                timeout_s = 0.05
            for _ in range(self.random.choice((1, 5, 50))):
                if not hand.fetch(timeout_s):
                    break
                timeout_s = 0.0 if hand.capacity else 0.05
            draw = chance()
            if draw < 0.01:
                hand.stop()
            elif draw < 0.02:
                hand.receiver.flush()
        if chance() < 0.9:
            self._settle(hand)
        if chance() < 0.5:
            hand.sync(PATIENCE_S, ANSWER_S, GivenUp)

    def _rests(self, kind: kinds.Kind) -> bool:
        """Whether all takers leave queues of the kind alone now, by the clock that they share."""
        return kind.stop > 0 and not self.draining.is_set() and time.monotonic() % ROUND_S < RESTS_S

    def _choices(self, hand: Hand) -> tuple[tuple[float, str], ...]:
        kind = kinds.KINDS[kinds.name(hand.queue)]
        return IN_VAIN if kind.attempts else OFTEN if kind.later else CHOICES

    def _later(self, hand: Hand) -> float:
        late = kinds.KINDS[kinds.name(hand.queue)].later and self.random.random() < 0.7
        return self.random.choice((0.1, 0.5, 2.0)) if late else 0.0

    def _elsewhere(self, hand: Hand) -> bool:
        return kinds.KINDS[kinds.name(hand.queue)].modified and self.random.random() < 0.4


class Pushing(Sending):
    """Sends more than is taken, so that its queue holds it back; at times more at once than there is room for."""

    time_outs = (None, 60.0)  # it may be held back for longer than 2 s

    def _capacity(self) -> int:
        return self.random.choice((5, 5, 10, 10, 15, 15, 30, 1000))

    def _complete(self, link: SendingLink) -> None:
        """Wait for completions. Held back, it sends on, one at a time, as far as its capacity goes: that is what shows
        whether completions are withheld."""
        room = link.capacity - sum(b.last - b.first + 1 for b in self._open if b.link is link)
        while room > 0 and not self._completed(link):
            self._send(link, 1)
            room -= 1
        super()._complete(link)

    def _completed(self, link: SendingLink) -> bool:
        """Wait a little; whether it is no use to send on, since all has completed, or something else is the matter."""
        try:
            link.sender.sync(timeout=ONE_MORE_S)
        except MantaError as error:
            self._note(link, error)
            return not link.sender.blocked
        return True


class Operating(Client):
    """Now and then has messages go on to another queue, or back to where they died: all of them, or some."""

    def work(self, connection: Connection) -> None:
        until = time.monotonic() + self.random.expovariate(1 / 15)
        while not self.stopping.is_set() and time.monotonic() < until:
            for queue in self.task.queues:
                self._send_on(connection, queue)
            self.stopping.wait(self.random.uniform(0.3, 1.5))

    def _send_on(self, connection: Connection, queue: str) -> None:
        began, count = time.monotonic(), self.random.choice((0, 0, 1, 5, 50))
        if kinds.KINDS[kinds.name(queue)].away:
            source, to = self.random.sample((queue, queue + kinds.AWAY), 2)
            done = connection.move(source, to, count)
        else:
            source, to = queue + kinds.DEAD, ""
            most = connection.queue(source)["messages"] - LEFT_DEAD
            if most <= 0:
                return
            done = connection.redrive(source, count=min(count or most, most))
        self.journal.write("roam", queue=source, to=to, began=round(began, 6), moved=done.moved, left=done.left)


class Observing(Client):
    """Asks how full queues are, again and again, whatever broker it is at."""

    def work(self, connection: Connection) -> None:
        until = time.monotonic() + self.random.expovariate(1 / 10)
        while not self.stopping.is_set() and time.monotonic() < until:
            for queue in self.task.queues:
                look(connection, self.journal, queue)
            self.stopping.wait(LOOK_S)
