"""A user's senders and receivers on its conversation, and what it does with them."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from mantamq.client import MantaError, Message
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.sender import SenderCore
from mantamq.client.errors import Unavailable
from mantamq.protocol.wire.message import FIELDS
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE

from .model import Violation
from .selectors import WANTED, seen_by_a_user
from .stalls import Stall

if TYPE_CHECKING:
    from .users import User

TTL_S = (None, None, None, None, 0, 0.02, 0.2, 3, 600, 86_400)
PRIORITIES = (None, None, None, 0, 4, 9)
PROPERTIES = (None, None, {}, {"c": 1}, {"c": 1, "d": "x"}, {"d": "y"}, {"c": "two"})
ANSWERS = ((None, None), (None, None), ("c1", None), ("c2", "answers"), (None, "answers"))
"""correlation_id, reply_to"""
KINDS = ((None, None), (None, None), ("text/plain", None), (None, "m"), ("application/json", "m"))
"""content_type, message_id"""
HEADERS = "amq.match"
"""The exchange that routes by properties."""
BY_HEADERS = frozenset((HEADERS, "picky", "wide", "marked"))
"""It, and those that ask it where they find no queue."""
MARKED = ({"x-d": "x", "c": 1}, {"x-d": "x"}, {"x-d": "y", "c": 1}, {"x-e": 5, "d": "x"})
"""Properties that begin with x-: of what is sent to exchanges that look at those."""
KEYS = ("x", "x.y", "x.y.z", "y")

ALL_AT_ONCE = 0.05
"""The share of its turns in which an only consumer settles all it has."""


class Outbox:
    """A sender of a user.

    Attributes:
        core: its books, None until it is attached. number: of the last message put.
        closing: its user has closed it. code: why it could not be attached.
        failed: ranges of numbers that were refused.
        stall: what it is told when nothing completes.
    """

    def __init__(
        self, user: User, handle: int, exchange: str, target: str | None, capacity: int, limit_s: float | None = None,
        mandatory: bool = False,
    ) -> None:  # fmt: skip
        self.user, self.handle, self.exchange, self.target = user, handle, exchange, target
        self.capacity = capacity
        self.limit_s, self.mandatory = limit_s, mandatory
        self.stall = Stall(self, limit_s)
        self.core: SenderCore | None = None
        self.number = 0
        self.keyed = target is None
        self.headers = exchange in BY_HEADERS
        self.properties = (*MARKED, *PROPERTIES) if exchange == "marked" else PROPERTIES
        self.closing = False
        self.code = ""
        self.failed: list[tuple[list[int], str]] = []
        self.key = (user.name, handle)

    @property
    def open(self) -> bool:
        return self.core is not None and self.core.failure is None and not self.closing

    @property
    def ended(self) -> bool:
        return bool(self.code) or (self.core is not None and self.core.failure is not None)

    def act(self, rng: random.Random, batch: int) -> None:
        core = self.core
        assert core is not None
        if self.hear() and rng.random() < 0.2:
            self.give_up(rng)
            return
        chance = rng.random()
        if chance < 0.02:
            self.user.start(self.user.close_sender(self, rng.random() < 0.5))
        elif chance < 0.04:
            self.user.start(self.user.sync(self, rng.choice([None, 0, 50_000, 2_000_000])))
        elif chance < 0.08 or not self.user.conversation.online:
            core.flush()  # a sender that must wait says what has gathered
        else:
            plain = rng.random() < 0.3
            for _ in range(rng.choice([1, 2, batch])):
                if core.full():
                    core.flush()
                    break
                self._put(rng, plain)

    def hear(self) -> bool:
        """The error that a send would raise; whether it is that nothing completes."""
        core = self.core
        assert core is not None
        while core.failures:
            try:
                core.check()
            except MantaError as error:
                if isinstance(error, Unavailable):
                    return True
                if (ranges := getattr(error, "numbers", None)) is None:
                    break  # the link has ended
                self.failed.append((ranges, error.code))
        return False

    def give_up(self, rng: random.Random) -> None:
        """Nothing completes: its user goes without this sender, or without this connection."""
        self.user.ledger.count("given up")
        if rng.random() < 0.5:
            self.user.start(self.user.close_sender(self, False))
        else:
            self.user.leave()

    def _put(self, rng: random.Random, plain: bool) -> None:
        core = self.core
        assert core is not None
        number = self.number + 1
        body = f"{self.user.name}/{self.handle}:{number}".encode()
        if rng.random() < 0.1:
            body += bytes(rng.choice(self.user.ledger.padding))
        message: Message | bytes = body
        if not plain or self.keyed or self.headers:
            subject = rng.choice(KEYS) if self.keyed or rng.random() < 0.1 else None
            message = Message(
                body.decode() if rng.random() < 0.2 else body, subject, rng.choice(self.properties), rng.choice(TTL_S),
                rng.choice(PRIORITIES), *rng.choice(ANSWERS), rng.random() < 0.1, *rng.choice(KINDS),
            )  # fmt: skip
        if isinstance(message, Message):
            self.user.ledger.ids.put_on(message)
        # In the ledger first: it may leave at once.
        self.number = number
        keys = self.user.ledger.several.one() if self.keyed else []
        ledger, delay = self.user.ledger, self.user.ledger.delays.sent(self.user.world.now_us // 1000)
        ledger.put(self, number, message if isinstance(message, Message) else Message(message), keys, delay)
        if delay is not None:
            ledger.count("delayed")
            seconds = (delay[0] + 0.5) / 1000  # of which the books make whole milliseconds
            core.put_later(message, *((None, seconds) if delay[1] else (seconds, None)), keys or None)
        elif keys:
            self.user.ledger.count("by several keys")
            core.put_to(message, keys)
        else:
            core.put(message)


class Inbox:
    """A receiver of a user.

    Attributes:
        core: its books, None until it is attached.
        hands: messages fetched and not settled, in the order of fetching.
        accepted: positions accepted since all settlements were last complete.
        other: positions that were ever settled otherwise.
        positions: of a browser, all it has seen.
        single: it is its queue's only consumer.
        window: what its capacity bounds.
        selector: what it wants.
        silent: it has stopped. refused: (queue id, position) of what it gave back as undeliverable to itself.
    """

    def __init__(
        self, user: User, handle: int, queue: str, capacity: int, mode: str, accept: bool, window: str = "unfetched",
        selector: str = "",
    ) -> None:  # fmt: skip
        self.selector = selector
        self.user, self.handle, self.queue, self.capacity = user, handle, queue, capacity
        self.browse = mode == "browse"
        self.settles = accept and not self.browse
        self.window = window
        self.core: ReceiverCore | None = None
        self.closing = False
        self.code = ""
        self.calls = 0
        self.hands: list[Message] = []
        self.accepted: list[int] = []
        self.other: set[int] = set()
        self.lost = 0
        self.said: Counter[int] = Counter()
        self.positions: list[int] = []
        self._browsed = ""  # id of the queue of which these are
        self._anew = False  # its queue is another one, and nothing of that has been seen
        self.single = False
        self.refused: set[tuple[str, int]] = set()
        self.silent = False

    @property
    def open(self) -> bool:
        return self.core is not None and self.core.failure is None and not self.closing

    @property
    def ended(self) -> bool:
        return bool(self.code) or (self.core is not None and self.core.failure is not None)

    def begins(self, core: ReceiverCore) -> None:
        """It is attached, and nothing has come yet."""
        self.core, self._browsed = core, core.queue_id

    def act(self, rng: random.Random) -> None:
        core, user = self.core, self.user
        assert core is not None
        if user.ledger.stops.turn(self):
            return
        chance = rng.random()
        if self.single:
            self._act_alone(rng, chance)
            return
        if chance < 0.4:
            for _ in range(rng.choice([1, 3, 20, 100])):
                if not self.take():
                    break
        if self.calls < 3 and chance < (0.5 if not self.capacity else 0.06):
            if rng.random() < 0.5:
                user.start(user.fetch(self, rng.choice([0, 5_000, 200_000, 3_000_000])))
            else:
                user.start(user.get(self, rng.choice([1, 1, 5, 50])))
        elif chance < 0.9:
            self._settle(rng)
        elif chance < 0.95:
            core.flush()
        elif chance < 0.98:
            user.start(user.close_receiver(self))

    def _act_alone(self, rng: random.Random, chance: float) -> None:
        """Its queue's only consumer: it accepts, early or late, and often stands still with a full window."""
        if chance < ALL_AT_ONCE:  # then it has all but settled everything, and perhaps nobody hears of that
            while self.take():
                pass
            self._accept(len(self.hands))
            if rng.random() < 0.3:
                self.user.cut()
        elif chance < 0.2:
            while rng.random() < 0.9 and self.take():
                pass
        elif chance < 0.4 and self.hands:
            self._accept(rng.randrange(1, len(self.hands) + 1))

    def _accept(self, count: int) -> None:
        for message in self.hands[:count]:
            self.settle(ACCEPT, message)
        del self.hands[:count]

    def take(self) -> bool:
        """Fetch one that is here."""
        core = self.core
        assert core is not None
        message = core.fetch()
        if message is None:
            return False
        self.user.ledger.got(self, message)
        if self.selector:
            self.user.ledger.count("selected")
            if not WANTED[self.selector](seen_by_a_user(tuple(getattr(message, name) for name in FIELDS))):
                raise Violation(f"{self.user.name} wants {self.selector!r} of {self.queue} and gets {message}")
        if (core.queue_id, message.position) in self.refused and message.position not in core.lost:
            raise Violation(f"{self.user.name} gets {message.position} of {self.queue}, undeliverable here by its word")
        if self.settles:
            self.hands.append(message)
        elif self.browse:
            if core.queue_id != self._browsed:  # its queue was deleted while it was away, and one of that name is there
                self._browsed, self._anew = core.queue_id, True
            if self.positions and message.position <= self.positions[-1]:
                if not self._anew:  # what it had of the queue that has gone comes first, then that one's from its begin
                    raise Violation(
                        f"{self.user.name} browses {self.queue} and sees {message.position} after {self.positions[-1]}"
                    )
                self.positions, self._anew = [], False
            self.positions.append(message.position)
        return True

    def _settle(self, rng: random.Random) -> None:
        if not self.hands:
            return
        count = rng.randrange(1, len(self.hands) + 1)
        if rng.random() < 0.3:
            rng.shuffle(self.hands)
        kinds = rng.choice(
            [[ACCEPT], [ACCEPT], [ACCEPT], [RELEASE], [REJECT], [ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT]]
        )
        for message in self.hands[:count]:
            self.settle(rng.choice(kinds), message)
        del self.hands[:count]

    def settle(self, kind: int, message: Message) -> None:
        core = self.core
        assert core is not None
        if core.failure is not None:
            return
        self.said[message.position] += 1
        if kind == ACCEPT:
            self.accepted.append(message.position)
        else:
            self.other.add(message.position)
        model = self.user.ledger.watch.model_of(self.queue)
        said = None
        if kind == RELEASE and (delay_ms := self.user.ledger.delays.back()):
            self.user.ledger.count("released for later")
            core.modify(message, True, delay=(delay_ms + 0.5) / 1000)
            return
        if kind == RELEASE:
            said = self.user.ledger.modifies.instead(model is not None and not model.group)
        if said is None:
            core.settle(kind, message)
            return
        self.user.ledger.count("modified")
        core.modify(message, said.failed, said.undeliverable_here, said.annotations)
        if said.undeliverable_here:
            self.refused.add((core.queue_id, message.position))

    def settled(self) -> None:
        """All settlements are complete: what was accepted and is not lost is so in the log."""
        core = self.core
        assert core is not None
        accepted, self.accepted = self.accepted, []
        lost = core.lost[self.lost :]
        self.lost = len(core.lost)
        said, self.said = self.said, Counter()
        if strange := set(Counter(lost) - said):
            raise Violation(f"{self.user.name} has settled {said} of {self.queue}, and more of {strange} is lost")
        model = self.user.ledger.watch.model_of(self.queue)
        if core.failure is not None or model is None:
            return
        self.user.ledger.count("settlements complete")
        for position in dict.fromkeys(accepted):
            if accepted.count(position) > lost.count(position) and position not in self.other:
                if model.place.get(position) != "accepted":
                    raise Violation(
                        f"{self.user.name} has accepted {position} of {model.id}, it is not lost, and it is "
                        f"{model.place.get(position)}"
                    )
