"""Inputs of the machine of supervision (`supervision.py`), and the deeds that it wants done."""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.events import ZERO, Ballot
from .office import Commission

# ---- inputs


@dataclass(frozen=True)
class Known:
    """The address book as it is now.

    Attributes:
        incs: name -> incarnation, 0 for one that was not started yet.
        changing: the broker that joins or leaves, "" for none: others may know better whether it is a member.
    """

    incs: dict[str, int]
    brokers: list[str]
    changing: str = ""


@dataclass(frozen=True)
class Confirmed:
    """A broker's answer to the question for the supervisor in office.

    Attributes:
        asked_ms: when the question left.
        holder, settled: as in `Office`.
        linked: the peers that the broker has links to.
        ballot: of the sequencer it follows.
    """

    broker: str
    asked_ms: int
    holder: Commission
    settled: int
    linked: frozenset[str]
    ballot: Ballot = ZERO


@dataclass(frozen=True)
class Led:
    """The report of a sequencer that leads. `out`: broker -> its newest incarnation that is out; `absent`: not back."""

    asked_ms: int
    ballot: Ballot
    out: dict[str, int]
    absent: frozenset[str]
    linked: frozenset[str]


@dataclass(frozen=True)
class Answered:
    name: str


@dataclass(frozen=True)
class Silent:
    """A question had no answer in time, or could not be delivered."""

    name: str
    asked_ms: int


@dataclass(frozen=True)
class Died:
    """Ray says that the process has died. `surely`: its node lives, so Ray does not take a cut for a death."""

    name: str
    surely: bool


@dataclass(frozen=True)
class Launched:
    """This supervisor has started a new process, as the book says now: until it begins no other supervisor knows it."""

    name: str


@dataclass(frozen=True)
class Began:
    """A launched process is told to begin: from now on others may know it."""

    name: str


@dataclass(frozen=True)
class End:
    """The process is to be gone. `outside`: it is no member by the cluster's own word (it has left, or never began)."""

    name: str
    outside: bool = False


@dataclass(frozen=True)
class Ended:
    """The process says that it ends."""

    name: str


@dataclass(frozen=True)
class EndRefused:
    """The process says why it does not end: it is needed."""

    name: str
    why: str


# ---- effects


@dataclass(frozen=True)
class Ask:
    """Ask every broker for the supervisor in office, and the sequencers for their reports."""


@dataclass(frozen=True)
class Stand:
    """Ask every broker to take this candidate for the supervisor of this number."""

    number: int


@dataclass(frozen=True)
class Elected:
    """A majority takes this candidate for the supervisor."""


@dataclass(frozen=True)
class Resign:
    """Another supervisor is in office, or no majority takes this one: end this process, and do nothing more."""

    reason: str


@dataclass(frozen=True)
class Replace:
    """The process is gone: end what is left of it, and start another."""

    name: str
    why: str


@dataclass(frozen=True)
class TellEnd:
    name: str
    outside: bool


@dataclass(frozen=True)
class Kill:
    name: str


@dataclass(frozen=True)
class ProcessGone:
    name: str


@dataclass(frozen=True)
class Spared:
    """The process is not ended, and why."""

    name: str
    why: str


Deed = Ask | Stand | Elected | Resign | Replace | TellEnd | Kill | ProcessGone | Spared
