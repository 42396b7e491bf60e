"""A machine's inputs and its effects. These two closed lists are all the contact the rules have with the world.

A shell (an actor, or the simulator) turns the world into inputs, hands each to ``machine.step(input)``, and carries out
the effects in the order given. After every batch of inputs that arrived together it steps ``Flush()`` once: machines
gather their frames per stream and send them then, so batches grow by themselves under load and no frame waits on a
timer when idle.

Peers are named: ``sequencer``, ``ownership``, ``ownership2``, a broker ``b1``, a broker's queue replica ``b1.r0``, a
client connection ``c17``. Links deliver frames in order or break; a break is `PeerDown`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .wire.frame import Frame

SEQUENCER = "sequencer"
"""The first sequencer's name; the later ones are ``sequencer2``, ``sequencer3``, ..."""
OWNERSHIP = "ownership"
OWNERSHIP2 = "ownership2"
"""The two that rotate the consume locks: one is on duty, the other stands by (`lock/duty.py`)."""
EVENTS = "events"
"""The tap, which keeps the event table."""
MANAGEMENT = "management"
"""The page."""


def is_sequencer(peer: str) -> bool:
    return peer.startswith(SEQUENCER)


def is_ownership(peer: str) -> bool:
    return peer.startswith(OWNERSHIP)


def broker_of(name: str) -> str:
    """The broker that a replica belongs to; for a broker's name, that name."""
    return name.partition(".")[0]


def store_of(broker: str) -> str:
    """The name of a broker's store."""
    return f"{broker}.store"


def is_store(peer: str) -> bool:
    return peer.endswith(".store")


def is_broker(peer: str) -> bool:
    return "." not in peer and not is_ownership(peer) and not is_sequencer(peer)


# ---- inputs


class Received(msgspec.Struct, frozen=True):
    """A whole, valid frame came from `peer`."""

    peer: str
    frame: Frame


class PeerUp(msgspec.Struct, frozen=True):
    """A link to or from `peer` is open and authenticated. `address`: a client's "host:port", where it has one."""

    peer: str
    address: str = ""


class PeerDown(msgspec.Struct, frozen=True):
    """The link to `peer` is gone; nothing more will come from it until the next `PeerUp`."""

    peer: str


class PeerGone(msgspec.Struct, frozen=True):
    """The address of `peer` refuses connections: its process is gone, or something on the way says so."""

    peer: str


class Tick(msgspec.Struct, frozen=True):
    """The time is `now_ms` (Unix, milliseconds). Comes before each batch of inputs and when a timer is due.

    `now_us` is the same time in microseconds, where it is known: for records only, no rule depends on it.
    """

    now_ms: int
    now_us: int = 0


class Flush(msgspec.Struct, frozen=True):
    """The batch of inputs is over: send what the machine has gathered."""


class Members(msgspec.Struct, frozen=True):
    """The broker ids of the cluster and the "host:port" of each one's client listener."""

    addresses: dict[str, str]


class Drain(msgspec.Struct, frozen=True):
    """To a broker: leave the cluster. It sends its clients to other members, gives its messages and locks back, and is
    taken out of the voters; the end is `Retire(left=True)`. The last broker does not leave."""


class Yield(msgspec.Struct, frozen=True):
    """To a broker with a store: the whole cluster is to stop, and still runs. It sends its clients away, lets none in,
    and gives its messages and locks back; `Yielded` follows."""


class Stop(msgspec.Struct, frozen=True):
    """To a process that keeps logs on disk, when all brokers have yielded; and last to their store. It writes down what
    it has, and takes nothing from anybody else any more; `Stopped` follows. `shutdown`: the id of this stop, the same
    in all stores of the cluster."""

    shutdown: str


class Dismiss(msgspec.Struct, frozen=True):
    """To a broker: have `broker`, which is dead for good, taken out of the voters. It has no effect while the sequencer
    does not take `broker` for dead; the supervisor repeats it until a report names `broker` in its `left`."""

    broker: str


class Supervises(msgspec.Struct, frozen=True):
    """To a broker: `name` is the supervisor, or a candidate (`supervisor/office.py`). `elected`: a majority of the
    brokers takes it for the supervisor, so its number may be ordered."""

    number: int
    id: str
    name: str
    elected: bool


class Kept(msgspec.Struct, frozen=True):
    """To the tap's machine: its rows were taken. `written`: stream -> index up to which its rows are safe on disk."""

    written: dict[str, int]


class Loaded(msgspec.Struct, frozen=True):
    """The records of a stream that `Load` asked for, each with its LSN, its kind and its payload: the checkpoint, then
    those that it names, then those behind it, by their LSNs. `hurt`: one of them cannot be read, and none is here.
    `before`: those before the checkpoint, by their LSNs, as far as they are there and were asked for. `outline`: a
    queue as its checkpoint has it, where the shell has read that beside its loop (`stored/read_back.py`); `bodies`: the
    messages of one that does not vote any more (`BodyCache`); `history`: what the records say of the stream
    (`StreamHistory`)."""

    stream: str
    records: list[tuple[int, int, bytes]]
    hurt: bool = False
    before: list[tuple[int, int, bytes]] = []
    outline: Any = None
    bodies: Any = None
    history: Any = None


class Measured(msgspec.Struct, frozen=True):
    """The memory that this process has now, and that there is on its machine, or for its container if that is less."""

    resident_bytes: int
    machine_bytes: int


Input = (
    Dismiss | Drain | Members | Received | PeerUp | PeerDown | PeerGone | Supervises | Tick | Flush | Kept | Loaded
    | Yield | Stop | Measured
)  # fmt: skip


# ---- effects


class Send(msgspec.Struct, frozen=True):
    """Send `frame` to `peer`; dropped when there is no such link."""

    peer: str
    frame: Frame


class Multicast(msgspec.Struct, frozen=True):
    """Send the same `frame` to each of `peers`, encoded once."""

    peers: list[str]
    frame: Frame


class Close(msgspec.Struct, frozen=True):
    """Close the link to `peer` after telling it why."""

    peer: str
    code: str
    text: str


class SetTimer(msgspec.Struct, frozen=True):
    """Step a `Tick` at `at_ms` at the latest. One timer per machine: a new one replaces the old."""

    at_ms: int


class Again(msgspec.Struct, frozen=True):
    """The machine has more to do, but other work comes first: step `Flush` again soon (the bounded dispatch run)."""


class WantSpare(msgspec.Struct, frozen=True):
    """The broker has used up its warm spare queue actors: start another if the limit allows."""


class PauseClient(msgspec.Struct, frozen=True):
    """Stop (`paused`) or resume reading from client `peer`: it may not send now (`sequencer.md` S8), and cannot be
    told, or sends on (`broker/throttle.py`)."""

    peer: str
    paused: bool


class Retire(msgspec.Struct, frozen=True):
    """This process's part is over for good (it is deposed or evicted): end it; the supervisor starts another, unless
    it has `left` the cluster."""

    reason: str
    left: bool = False


class KeepAlive(msgspec.Struct, frozen=True):
    """Keep a heartbeat of `interval_ms` on the link to `peer`; `patience_ms` of silence (0: two heartbeats) ends it."""

    peer: str
    interval_ms: int
    patience_ms: int


class Yielded(msgspec.Struct, frozen=True):
    """After `Yield`: this broker holds no message and no lock any more, as far as its replicas that are here know."""


class Stopped(msgspec.Struct, frozen=True):
    """After `Stop`: all that this process had to write is on disk, and it says nothing more. It may end."""


class Load(msgspec.Struct, frozen=True):
    """Read a stream's records from the store's log, then step `Loaded`: from the one at LSN `last` by their undo
    pointers back to that at `checkpoint`, or to the first (0), and those that the checkpoint names; and from the
    checkpoint on back through `before_bytes` more, if they can be read."""

    stream: str
    checkpoint: int
    last: int
    before_bytes: int = 0


class Warn(msgspec.Struct, frozen=True):
    """Write `text`, of this queue, into this process's log as a warning: who operates the cluster is to know it."""

    text: str
    queue: str = ""


Effect = (
    Send | Multicast | Close | SetTimer | Again | WantSpare | PauseClient | KeepAlive | Retire | Load
    | Yielded | Stopped | Warn
)  # fmt: skip
