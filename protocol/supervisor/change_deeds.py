"""Inputs of the machine of member changes (`changes.py`), and the deeds that it wants done."""

from __future__ import annotations

from dataclasses import dataclass

from ..status.machines import BrokerStatus, SequencerStatus

JOIN, LEAVE = "join", "leave"


@dataclass(frozen=True)
class Change:
    """A change of the members that is under way. Every broker keeps a copy, so that the next Supervisor finishes it.

    Attributes:
        request: a word of the asker's, so that it may ask again when an answer was lost.
        kind: JOIN or LEAVE.
        broker: the broker that joins or leaves.
        node: Ray node id, for a join.
    """

    request: str
    kind: str
    broker: str
    node: str = ""

    def __str__(self) -> str:
        return f"broker {self.broker} {'joins' if self.kind == JOIN else 'leaves'}"


@dataclass(frozen=True)
class Stage:
    """The progress of a change.

    Attributes:
        text: what the change waits for, in words.
        done, total: number of streams that are settled, and of all; total is 0 while that is not known.
    """

    text: str
    done: int = 0
    total: int = 0


# ---- inputs


@dataclass(frozen=True)
class Begin:
    """This change is asked for, and nothing else speaks against it. `begun`: by the book the broker has begun."""

    change: Change
    begun: bool = False


@dataclass(frozen=True)
class Resumed:
    """The state that another supervisor left: the change that was under way, and those that are over."""

    change: Change | None
    ended: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Told:
    """The answer to Tell. `enough`: a majority of the brokers knows the change."""

    enough: bool


@dataclass(frozen=True)
class Started:
    """The answer to StartBroker. `why`: the reason it failed; "": the newcomer's processes wait to begin."""

    why: str = ""


@dataclass(frozen=True)
class Undone:
    """The answer to Undo: nothing of the newcomer is left."""


@dataclass(frozen=True)
class Looked:
    """The present state of the broker of the change.

    Attributes:
        leading: the leading sequencer's report, None while none leads.
        newcomer: the broker's report, None while it does not answer.
        known: the broker is in the book.
        begun: the broker has begun, by the book.
        serving: clients are told of the broker.
        inc: incarnation of its process, 0 for none.
    """

    leading: SequencerStatus | None
    newcomer: BrokerStatus | None
    known: bool
    begun: bool
    serving: bool
    inc: int


@dataclass(frozen=True)
class BrokerDrained:
    """The process of this incarnation has been told to leave."""

    inc: int


@dataclass(frozen=True)
class Dismissed:
    """The answer to DismissBroker. `out`: one of the others says that the broker is out."""

    out: bool


@dataclass(frozen=True)
class Forgotten:
    """The answer to ForgetBroker: nothing of the broker is left."""


@dataclass(frozen=True)
class Fell:
    """The leaving broker has died. `spared`: the others are a majority of everything without it."""

    leading: SequencerStatus
    spared: bool


# ---- deeds


@dataclass(frozen=True)
class Refuse:
    why: str


@dataclass(frozen=True)
class Tell:
    """Tell every broker the present state, the change included."""


@dataclass(frozen=True)
class StartBroker:
    """Start processes for the newcomer, that wait to begin."""

    broker: str
    node: str


@dataclass(frozen=True)
class Undo:
    """End the processes of a newcomer that has not begun, and forget it."""

    broker: str


@dataclass(frozen=True)
class Introduce:
    """Let the newcomer begin."""

    broker: str


@dataclass(frozen=True)
class Hide:
    """Tell clients to go to other brokers."""

    broker: str


@dataclass(frozen=True)
class DrainBroker:
    """Tell the broker to leave."""

    broker: str


@dataclass(frozen=True)
class DismissBroker:
    """Ask the others to take the broker out if it is dead, and whether it is out."""

    broker: str


@dataclass(frozen=True)
class ForgetBroker:
    """End the processes of the broker for good."""

    broker: str


@dataclass(frozen=True)
class Return:
    """Start the broker again, so that it can leave."""

    broker: str


Deed = Refuse | Tell | StartBroker | Undo | Introduce | Hide | DrainBroker | DismissBroker | ForgetBroker | Return
