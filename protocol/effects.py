"""What a machine is told, and what it may ask for. These two lists are all the contact the rules have with the world.

A shell (an actor, or the simulator) turns the world into inputs, hands each to ``machine.step(input)``, and carries out
the effects in the order given. After every batch of inputs that arrived together it steps ``Flush()`` once: machines
gather what they have to say per stream and say it then, so batches grow by themselves under load and nobody waits on
a timer when idle.

Peers are named: ``sequencer``, ``ownership``, a broker ``b1``, a broker's queue replica ``b1.r0``, a client connection
``c17``. Links deliver frames in order or break; a break is `PeerDown`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .frames import Frame

SEQUENCER = "sequencer"
OWNERSHIP = "ownership"


# ---- inputs


@dataclass(frozen=True, slots=True)
class Received:
    """A whole, valid frame came from `peer`."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class PeerUp:
    """A link to or from `peer` is open and authenticated."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerDown:
    """The link to `peer` is gone; nothing more will come from it until the next `PeerUp`."""

    peer: str


@dataclass(frozen=True, slots=True)
class Tick:
    """The time is `now_ms` (Unix, milliseconds). Comes before each batch of inputs and when a timer is due."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Flush:
    """The batch of inputs is over: say what has gathered."""


@dataclass(frozen=True, slots=True)
class Members:
    """The broker ids of the cluster and the "host:port" of each one's client listener."""

    addresses: dict[str, str]


Input = Members | Received | PeerUp | PeerDown | Tick | Flush


# ---- effects


@dataclass(frozen=True, slots=True)
class Send:
    """Send `frame` to `peer`; dropped when there is no such link."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class Multicast:
    """Send the same `frame` to each of `peers`, encoded once."""

    peers: list[str]
    frame: Frame


@dataclass(frozen=True, slots=True)
class Close:
    """Close the link to `peer` after telling it why."""

    peer: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Step a `Tick` at `at_ms` at the latest. One timer per machine: a new one replaces the old."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Again:
    """There is more to do, but other work first: step `Flush` again soon (the bounded dispatch run)."""


@dataclass(frozen=True, slots=True)
class WantSpare:
    """The broker has used up its warm spare queue actors: start another if the limit allows."""


@dataclass(frozen=True, slots=True)
class PauseClients:
    """Stop (`paused`) or resume reading from client links: too much is in flight (`sequencer.md` S8)."""

    paused: bool


Effect = Send | Multicast | Close | SetTimer | Again | WantSpare | PauseClients
