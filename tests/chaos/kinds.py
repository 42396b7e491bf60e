"""The queues that are not plain: what each is declared with, and what of a message's number its kind goes by.

A queue's name ends in its kind (`chaos-3-groups`): so clients know what to send and how to take, and the checker what
to ask, and neither asks the other. What a message has in the header `HEADER` follows from its number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

HEADER, STAMP = "key", "number in the queue"
DEAD, AWAY = ".dead", ".away"
ALL, EACH, NONE = "all", "each", ""
BY_NAME, BY_ID = "name", "id"
"""Of the whole queue; of what has one key, by itself; not at all."""


@dataclass(frozen=True)
class Kind:
    """A kind of queue.

    Attributes:
        declared: keywords of `declare_queue`.
        values: how many keys its messages have; 0: none.
        levels: the key is the priority. share: so many of a level go, then a lower one has its turn; 0: all that wait.
        ordered: what is handed out for the first time in the queue's order, whoever gets it.
        held_by_one: what only one receiver holds at a time.
        most: messages there can be; 0: no limit.
        refuses: what comes at the limit; else the oldest goes.
        newest: of each key only the newest stays.
        stop: with more messages than that producers are held back, until there are fewer than `resume`.
        alone: receivers ask to have it alone.
        selected: some receivers want some of its keys only.
        taken: how likely a receiver takes from it when it could.
        left: at the end of a round nobody takes from it any more, and one drains what is left, in its order.
        modified: its messages may be given back as undeliverable to who had them.
        stamps: its messages come with their number in the queue in the header `STAMP`.
        fleeting: messages that nobody counts are sent as well.
        program: only programs send to it, which are killed and begin anew (`programs.py`): each by a name of its own, or
            all the same numbers, each as its message id.
        later: some of its messages are sent for later, and some of what is given back is; retries: seconds that what comes
            back waits, after the first delivery, the second, and from then on.
        roams: its messages go on to other queues and come back, as an operator will have it; what is said of them is in
            `history_roaming.py`. away: there is another queue, to which they are moved; else its dead letters are redriven.
        attempts: what comes back more often than that is a dead letter. ttl: of some of its messages, in seconds.
    """

    declared: dict[str, Any] = field(default_factory=dict[str, Any])
    values: int = 0
    levels: bool = False
    share: int = 0
    ordered: str = ALL
    held_by_one: str = NONE
    most: int = 0
    refuses: bool = False
    newest: bool = False
    stop: int = 0
    resume: int = 0
    alone: bool = False
    selected: bool = False
    taken: float = 0.6
    left: bool = False
    modified: bool = True
    stamps: bool = False
    fleeting: bool = True
    program: str = ""
    later: bool = False
    retries: tuple[float, ...] = ()
    roams: bool = False
    away: bool = False
    attempts: int = 0
    ttl: float = 0.0

    @property
    def loses(self) -> bool:
        """Whether messages go that nobody has accepted."""
        return self.newest or (self.most > 0 and not self.refuses)

    def key(self, number: int) -> str:
        """The key of a message; "" where there are none."""
        return f"k{self.level(number)}" if self.values else ""

    def level(self, number: int) -> int:
        """The key as a number: 0 and up. Neighbours have one at times, so that a burst has several of a key."""
        return (number // 2 + number // 7) % self.values if self.values else 0

    def order(self, number: int) -> str:
        """What the message is in order with: those that this is the same of."""
        return str(number) if self.later else self.key(number) if self.ordered == EACH else ""

    def delay(self, number: int) -> float:
        """For so many seconds from its being sent nobody gets the message; 0: for none."""
        return DELAYS_S[number % len(DELAYS_S)] if self.later else 0.0

    def lives(self, number: int) -> float:
        """Of the message, in seconds; 0: for ever."""
        return self.ttl if number % 4 == 0 else 0.0

    def retry(self, count: int) -> float:
        """For so many seconds nobody gets what is back from a delivery that counts. Args: count: of those before."""
        return self.retries[min(count, len(self.retries) - 1)] if self.retries else 0.0


DELAYS_S = 0.0, 0.3, 0.0, 1.0, 3.0, 0.0, 0.05
RETRIES_S = 0.2, 1.2
FLOW = {"flow_stop_count": 160, "flow_resume_count": 140, "max_size": 1 << 30, "flow_stop_size": 1 << 29,
        "flow_resume_size": 1 << 28}  # fmt: skip
"""Thresholds by count, those of a limit of 200; and by size, so many bytes that they change nothing."""

KINDS: dict[str, Kind] = {
    "groups": Kind({"group_key": HEADER}, 7, ordered=EACH, held_by_one=EACH, modified=False),
    "ring": Kind({"max_count": 80, "overflow": "ring"}, most=80, taken=0.03, left=True, fleeting=False),
    "limit": Kind({"max_count": 200, **FLOW}, most=200, refuses=True, stop=160, resume=140, taken=0.35, fleeting=False),
    "levels": Kind({"priorities": 10}, 10, levels=True, ordered=EACH, taken=0.06, left=True),
    "shares": Kind({"priorities": 3, "fairshare": 4}, 3, levels=True, ordered=EACH, share=4, taken=0.06, left=True),
    "last": Kind({"last_value_key": HEADER}, 40, newest=True, taken=0.2, left=True),
    "fair": Kind({"fair_key": HEADER}, 5, ordered=EACH, taken=0.06, left=True),
    "single": Kind({"single_active": True}, held_by_one=ALL, modified=False),
    "exclusive": Kind(held_by_one=ALL, alone=True),
    "stamped": Kind({"sequence_key": STAMP}, stamps=True),
    "selected": Kind(values=4, ordered=NONE, selected=True),
    "named": Kind(program=BY_NAME, fleeting=False),
    "later": Kind({"retry_delay_s": RETRIES_S}, ordered=NONE, later=True, retries=RETRIES_S, taken=0.8),
    "dying": Kind(
        {"delivery_limit": 2, "dead_letters": "all"},
        ordered=NONE,
        taken=0.3,
        fleeting=False,
        roams=True,
        attempts=2,
        ttl=0.4,
    ),
    "moved": Kind(ordered=NONE, taken=0.3, fleeting=False, roams=True, away=True),
    "once": Kind({"dedupe_window_s": 3600}, program=BY_ID, fleeting=False),
}
SHORT = ("groups", "ring", "limit")
"""Those of the short form, that is run for every change."""


def name(queue: str) -> str:
    """The name of its kind, if it has one."""
    return queue.removesuffix(AWAY).rpartition("-")[2]


def family(queue: str) -> str:
    """The queue to which is sent what can come to this one."""
    return queue.removesuffix(DEAD).removesuffix(AWAY)


def roams(queue: str) -> bool:
    """Whether what is in it has come from elsewhere, perhaps, and may go on."""
    kind = of(family(queue))
    return kind is not None and kind.roams


def others(queue: str) -> list[str]:
    """The queues beside it to which its messages go: where they are moved to, and as dead letters."""
    kind = of(queue)
    return [queue + AWAY, queue + DEAD] if kind is not None and kind.away else [queue + DEAD]


def of(queue: str) -> Kind | None:
    """The kind of a queue; None: it is a plain one, or one for dead letters."""
    return KINDS.get(name(queue))


def names(prefix: str, kinds: Sequence[str]) -> list[str]:
    """The queues of these kinds."""
    return [f"{prefix}-{kind}" for kind in kinds]


def some_keys(kind: Kind, chance: Random) -> list[str]:
    """Keys for a selector."""
    return sorted(chance.sample([f"k{level}" for level in range(kind.values)], chance.choice((1, 2))))


def selector(wants: Sequence[str]) -> str:
    """What lets these keys through."""
    return f"{HEADER} IN ({', '.join(map(repr, wants))})"


def options(queue: str, number: int) -> dict[str, Any]:
    """What a message carries since its queue is of a kind, or the queue that it was rejected in was."""
    kind = of(queue.removesuffix(DEAD))
    if kind is not None and kind.program == BY_ID:
        return {"message_id": f"id {number}"}
    if kind is not None and (ttl := kind.lives(number)):
        return {"ttl": ttl}
    if kind is None or not kind.values:
        return {}
    if kind.levels:
        lowest = 5 - (kind.values + 1) // 2  # AMQP's: those below have its level as well
        return {"priority": lowest + kind.level(number)}
    return {"properties": {HEADER: kind.key(number)}}
