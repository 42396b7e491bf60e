"""What a broker must know for what a connection asks of it, and which broker may take a connection over.

A broker that is too old for something is not asked for it, and one that takes over is left if it is too old for what
the connection has already; `protocol/wire/version.py` says from which minor version on what is known. And it must be of
the cluster that the connection began in: in another one, or in one that was started anew with nothing left, the queues
are others, and what is sent again would be new there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...protocol.wire.client_frames import AttachReceiver, AttachSender, Opened
from ...protocol.wire.version import (
    KNOWS_DELAYS,
    KNOWS_EXCLUSIVE,
    KNOWS_MADE_NAMES,
    KNOWS_MODIFY,
    KNOWS_MOVES,
    KNOWS_NAMED_SENDERS,
    KNOWS_NO_LOCAL,
    KNOWS_PATTERNS,
    KNOWS_POLICIES,
    KNOWS_RANKS,
    KNOWS_REDIRECTS,
    KNOWS_SELECTORS,
    KNOWS_SEVERAL_KEYS,
    spoken,
)
from ..errors import Invalid, NotAllowed

SENDER_NAME_CHARS = 255
MANDATORY_MINOR = 2
"""From this minor version on a broker tells what goes to no queue."""


@dataclass(frozen=True)
class Ability:
    """`minor`: the first version that has it; `lacking`: what an older one does; `need`: what needs it."""

    minor: int
    lacking: str
    need: str = "they need {}"


MANDATORY = Ability(MANDATORY_MINOR, "knows no mandatory senders")
NAMED = Ability(KNOWS_NAMED_SENDERS, "knows no named senders")
SELECTORS = Ability(KNOWS_SELECTORS, "knows no selectors")
EXCLUSIVE = Ability(KNOWS_EXCLUSIVE, "knows no exclusive receivers")
PRIORITIES = Ability(KNOWS_RANKS, "knows no priorities of receivers")
NO_LOCAL = Ability(KNOWS_NO_LOCAL, "knows no no_local receivers")
SEVERAL_KEYS = Ability(KNOWS_SEVERAL_KEYS, "routes by one key", "several need {}")
MADE_NAMES = Ability(KNOWS_MADE_NAMES, "makes no names of queues", "that needs {}; give the queue a name")
POLICIES = Ability(KNOWS_POLICIES, "knows no policies")
PATTERNS = Ability(KNOWS_PATTERNS, "makes no queues by patterns")
REDIRECTS = Ability(KNOWS_REDIRECTS, "redirects no queues")
DELAYS = Ability(KNOWS_DELAYS, "gives delayed messages at once", "that needs {}")
MOVES = Ability(KNOWS_MOVES, "moves no messages", "that needs {}")
MODIFY = Ability(KNOWS_MODIFY, "cannot modify messages", "that needs {}; release or reject them")

_OF_SENDERS: list[tuple[Ability, Callable[[AttachSender], bool]]] = [
    (MANDATORY, lambda frame: frame.mandatory),
    (NAMED, lambda frame: frame.name != ""),
]
_OF_RECEIVERS: list[tuple[Ability, Callable[[AttachReceiver], bool]]] = [
    (SELECTORS, lambda frame: frame.selector != ""),
    (EXCLUSIVE, lambda frame: frame.exclusive > 0),
    (PRIORITIES, lambda frame: frame.priority != 0),
    (NO_LOCAL, lambda frame: frame.no_local),
]


def _needed(links: Iterable[AttachSender | AttachReceiver]) -> Iterable[Ability]:
    """What these links need of any broker, each as often as it is needed."""
    for link in links:
        if isinstance(link, AttachSender):
            yield from (ability for ability, needed in _OF_SENDERS if needed(link))
        else:
            yield from (ability for ability, needed in _OF_RECEIVERS if needed(link))


def too_old(
    minor: int, links: Iterable[AttachSender | AttachReceiver], by_several_keys: bool, delayed: bool = False
) -> str:
    """Why a broker of this minor version must be left, "" if it need not.

    Args:
        links: what attached the links it would take over.
        by_several_keys: whether any of them sends by several keys. delayed: whether any has sent what is delayed.
    """
    needed = [*_needed(links), *([SEVERAL_KEYS] if by_several_keys else []), *([DELAYS] if delayed else [])]
    lacking = next((one.lacking for one in needed if minor < one.minor), "")
    return lacking and f"it speaks protocol {spoken(minor)} and {lacking}"


def of_another_cluster(before: Opened | None, found: Opened) -> str:
    """Why the broker that greets with `found` may not go on for the one that greeted with `before`; "" if it may."""
    if before is None or not before.cluster or not found.cluster or before.cluster == found.cluster:
        return ""
    return "it is of another cluster, or of this one started anew with nothing left"


class Abilities:
    """What the broker that greeted with `opened`, None while none did, can be asked for; `address`, for the errors."""

    def __init__(self, opened: Opened | None, address: str) -> None:
        self._opened = opened
        self._address = address

    def require(self, ability: Ability) -> None:
        """Raises NotAllowed: this broker is too old for it."""
        if self._opened is not None and self._opened.minor < ability.minor:
            raise NotAllowed(
                f"the broker at {self._address} speaks protocol {spoken(self._opened.minor)} and {ability.lacking}: "
                + ability.need.format(spoken(ability.minor))
            )

    def name(self, name: str | None, keyed: bool) -> str:
        """A sender's name as it is sent; "" for none. Args: keyed: each of its messages has its own key.

        Raises:
            Invalid: it is no name, or the sender is to more than one queue. NotAllowed: this broker is too old.
        """
        if name is None:
            return ""
        if not isinstance(name, str) or not 0 < len(name) <= SENDER_NAME_CHARS:
            raise Invalid(f"a sender's name is a text of 1 to {SENDER_NAME_CHARS} characters, not {name!r:.300}")
        if keyed:
            raise Invalid("a named sender sends to one queue, which keeps its numbers: give the queue's name")
        self.require(NAMED)
        return name

    def selector(self, selector: str | None) -> str:
        """A receiver's selector as it is sent; "" for none.

        Raises:
            Invalid: it is no text. NotAllowed: this broker is too old to know any.
        """
        if selector is None or selector == "":
            return ""
        if not isinstance(selector, str):
            raise Invalid(f"a selector is a text such as \"colour = 'red'\", not {selector!r}")
        self.require(SELECTORS)
        return selector

    def exclusive(self, exclusive: bool, mode: str = "consume") -> bool:
        """Whether a receiver is to have its queue alone.

        Raises:
            Invalid: it does not consume. NotAllowed: this broker is too old to keep others away.
        """
        if exclusive and mode != "consume":
            raise Invalid(f"only a receiver that consumes can be exclusive, not one of mode {mode!r}: leave one away")
        if exclusive:
            self.require(EXCLUSIVE)
        return bool(exclusive)

    def priority(self, priority: int, mode: str = "consume") -> int:
        """A receiver's priority as it is sent.

        Raises:
            Invalid: it is no number; or the receiver does not consume. NotAllowed: this broker is too old to know any.
        """
        if type(priority) is not int or not -(1 << 31) <= priority < 1 << 31:
            raise Invalid(f"a receiver's priority is a whole number of 32 bits, higher ones first, not {priority!r}")
        if priority and mode != "consume":
            raise Invalid(f"only a receiver that consumes has a priority, not one of mode {mode!r}: leave one away")
        if priority:
            self.require(PRIORITIES)
        return priority

    def no_local(self, no_local: bool) -> bool:
        """Whether a receiver gets nothing of its own connection's.

        Raises:
            NotAllowed: this broker is too old to know that.
        """
        if no_local:
            self.require(NO_LOCAL)
        return bool(no_local)
