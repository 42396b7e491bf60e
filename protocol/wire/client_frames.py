"""The frames between clients and brokers; a listener for another protocol translates to these. Kinds 96 to 127."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .frame import Frame
from .queue_frames import Modification


class Open(Frame):
    """First frame of a client connection.

    Attributes:
        client: id of one logical connection, for its whole life and at all brokers it uses: queues drop repeated
            transfers by it. So only one connection may use it at a time. A broker enforces that among its own: the
            newer connection wins, the older is closed with `in-use` (the same client has come back before its old link
            was seen to break). Brokers do not ask each other: two programs that use the same id at two brokers lose
            messages to each other. "": the broker makes an id up, and nothing may be sent again elsewhere.
        minor: minor version of the protocol that the client speaks (`version.py`).
        heartbeat_ms: proposed heartbeat: each side sends at least this often; 0 for no heartbeats.
        patience_ms: how long the broker is asked to bear the client's silence; 0 for two heartbeats.
        rescue: the client only browses and asks, and is served without a majority as well; its answers may be old.
        life: which of the client's connections this is, from 1: what it had in line at the one before is its own.
        cluster, wired: up to where the client knows the wiring of that cluster (`Opened.cluster`): the broker lets it
            in when it knows as much itself, so that what the client has declared, or used, is there for it.
    """

    client: str
    token: str = ""
    minor: int = 0
    heartbeat_ms: int = 0
    patience_ms: int = 0
    rescue: bool = False
    life: int = 0
    cluster: str = ""
    wired: int = 0


class Opened(Frame):
    broker: str
    members: dict[str, str]
    """Broker id to "host:port" of its client listener."""
    message_bytes: int
    transfer_messages: int
    credit_messages: int
    heartbeat_ms: int = 0
    """The agreed heartbeat: each side sends at least this often, and leaves a side that was silent for two of them (the
    broker leaves a client after the patience it was asked for)."""
    minor: int = 0
    """Minor version of the protocol that the broker speaks (`version.py`)."""
    blocked: bool = False
    """The client may send no transfers until it hears `Blocked(False)`."""
    cluster: str = ""
    """Id of the broker's cluster, another one when it is started anew with nothing left; "": the broker does not say. A
    client that has lost its broker goes on in the same cluster only: in another one its queues are others, and what it
    sends again would be new."""
    wired: int = 0
    """Up to where the broker knows the wiring; 0: it does not say. So in other frames."""


class Blocked(Frame):
    """From a broker: the client may send no transfers from now on (`on`), or may again. All else goes on: it settles,
    attaches, asks. What was on its way is taken all the same, but a client that sends on and on is not read any more.
    Only a client of minor 4 or above is told."""

    on: bool


class AttachSender(Frame):
    """`exchange` "" is the default exchange (key = queue name). `key` None: each message brings its own key.

    Attributes:
        next: least number the sender will use; 0 leaves it to the broker. Numbers of a client's handle never go back,
            on any connection: a queue takes a number that is not above the last for a repeat, and drops it. The broker
            knows the numbers this connection has used, and answers with the next; the client must state the others'.
        name: of a sender to one queue, which keeps its numbers under that name (`queue/named_senders.py`): with `next`
            0 it begins, and `Attached.next` is where it goes on; else its client has come back. A broker before minor
            12 does not know that.
        mandatory: a message that goes to no queue fails (`unroutable`); else it completes, and `Completed` says so.
        queue: the id of a named sender's queue, as `Attached` has said it before: its numbers are that queue's, and
            where that has gone it ends, also if there is another one of the name. "": it was attached nowhere yet.
    """

    handle: int
    exchange: str
    key: str | None
    next: int = 0
    mandatory: bool = False
    name: str = ""
    queue: str = ""


class AttachReceiver(Frame):
    """mode: "consume" or "browse"; accept False: no settling; before, selector: see `Consume`. A broker before minor 7
    knows no selectors, and would deliver all: a client must not attach a receiver that has one there. Nor, before
    minor 8, an exclusive one, or one with a priority.

    Attributes:
        exclusive: 0; or it is to have the queue alone, and this is the client's connection of that number, from 1: a
            claim that an earlier connection of the client holds for this handle passes to it.
        priority: see `Consume`; of receivers that consume.
        undeliverable: as of `Consume`, of the queue of id `undeliverable_in`; of another queue of that name nothing is
            meant.
        no_local: nothing that this client has sent itself, by any connection of this id. A broker before minor 9 does
            not know that either.
        back: an earlier connection of the client has had it: where its queue is gone it ends, and no other is made.
    """

    handle: int
    queue: str
    mode: str = "consume"
    accept: bool = True
    before: list[tuple[str, int, list[int]]] = []
    selector: str = ""
    exclusive: int = 0
    priority: int = 0
    undeliverable: list[int] = []
    undeliverable_in: str = ""
    no_local: bool = False
    back: bool = False


class Attached(Frame):
    """`headers`: the exchange routes by properties, so transfers must carry them in `headers`. `next`: the least number
    a sender's next transfer may have. `queue`: the id of a receiver's queue, or a named sender's, which differs from
    that of an earlier queue of the same name; "": the broker does not say."""

    handle: int
    headers: bool = False
    next: int = 1
    queue: str = ""
    wired: int = 0


class Detach(Frame):
    """End a sender or receiver; messages that a receiver still holds are released."""

    handle: int


class Detached(Frame):
    """The sender or receiver has ended: answer to `Detach` (code "") or the broker's doing."""

    handle: int
    code: str = ""
    text: str = ""


class Transfer(Frame):
    """Messages from a sender, numbered `first`, `first` + 1, ... above all earlier ones on this connection (a sender
    that is attached again leaves out the completed ones).

    Attributes:
        blobs: encoded messages.
        keys: a routing key per message, or None when the sender's key is fixed.
        ttl: flat ``[index, ttl_ms, ...]`` of the messages that expire.
        headers: properties per message, for a headers exchange only, else None.
        several: (index, routing keys) of the messages that have more than one: in place of the one in `keys`.
        delays: (index, ms, whether that is since the epoch and not from now) of the messages that are delayed.
    """

    handle: int
    first: int
    blobs: list[bytes]
    keys: list[str] | None = None
    ttl: list[int] = []
    headers: list[dict[str, Any]] | None = None
    several: list[tuple[int, list[str]]] = []
    delays: list[tuple[int, int, bool]] = []


class Completed(Frame):
    """Transfers (as ranges of the sender's numbers) are complete: committed in every queue they were routed to.
    `unroutable`: those among them that went to no queue, since none was bound."""

    handle: int
    ranges: list[int]
    unroutable: list[int] = []


class Failed(Frame):
    """Transfers (as ranges) were refused; nothing else on the link is disturbed."""

    handle: int
    ranges: list[int]
    code: str
    text: str


class Flow(Frame):
    """More credit for a receiver: see `Credit`."""

    handle: int
    messages: int
    bytes: int = -1
    drain: bool = False
    sure: bool = True


class FlowDrained(Frame):
    """See `Drained`; -1: the broker does not say."""

    handle: int
    available: int = -1


class Delivery(Frame):
    """Messages for a receiver: see `Deliver`."""

    handle: int
    acquisition: int
    ranges: list[int]
    blobs: list[bytes]
    redelivered: list[int] = []
    times: list[int] = []


class Dispose(Frame):
    """Settle deliveries of a receiver: see `Settle`. `number` rises by one per frame of the handle, from 1."""

    handle: int
    number: int
    kind: int
    runs: list[int]
    modification: Modification | None = None


class Disposed(Frame):
    handle: int
    number: int
    lost: list[int]


class Command(Frame):
    """A management command; see `broker/management.py` for the names and arguments."""

    number: int
    name: str
    arguments: dict[str, Any]


class Reply(Frame):
    """Answer to a command: `code` "" and a value, or what went wrong."""

    number: int
    value: Any = None
    code: str = ""
    text: str = ""
    wired: int = 0


class MembersChanged(Frame):
    """The cluster's members or their addresses have changed: see `Opened.members`."""

    members: dict[str, str]
