"""What clients and brokers say to each other; a listener for another protocol translates to these. Kinds 96 to 127."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .frame import Frame


class Open(Frame):
    """First frame of a client connection.

    Attributes:
        client: names one logical connection, for as long as it lives and through whatever brokers it goes: queues drop
            repeated transfers by it. So only one connection may use it at a time. A broker enforces that among its own:
            the newer connection wins, the older is closed with `in-use` (the same client has come back before its old
            link was seen to break). Brokers do not ask each other: two programs that name the same id at two brokers
            lose messages to each other. "": the broker makes one up, and nothing may be sent again elsewhere.
        minor: of the protocol the client speaks (`version.py`).
        heartbeat_ms: how often each side speaks at least, proposed; 0 for no heartbeats.
        patience_ms: how long the broker is asked to bear the client's silence; 0 for two heartbeats.
        rescue: it only looks (browses, asks), and is served without a majority as well; what it sees may be old.
    """

    client: str
    token: str = ""
    minor: int = 0
    heartbeat_ms: int = 0
    patience_ms: int = 0
    rescue: bool = False


class Opened(Frame):
    broker: str
    members: dict[str, str]
    """Broker id to "host:port" of its client listener."""
    message_bytes: int
    transfer_messages: int
    credit_messages: int
    heartbeat_ms: int = 0
    """What is agreed: each side speaks at least so often, and leaves a side that was silent for two of them (the broker
    leaves a client after the patience it was asked for)."""
    minor: int = 0
    """Of the protocol the broker speaks (`version.py`)."""


class AttachSender(Frame):
    """`exchange` "" is the default exchange (key = queue name). `key` None: each message brings its own key.

    Attributes:
        next: least number that will be used; 0 leaves it to the broker. Numbers of a client's handle never go back, on
            whatever connection: a queue takes a number that is not above the last for a repeat, and drops it. What this
            connection has used the broker knows, and answers with the next; what others have used the client must say.
        mandatory: what goes to no queue fails (`unroutable`); otherwise it completes, and `Completed` tells.
    """

    handle: int
    exchange: str
    key: str | None
    next: int = 0
    mandatory: bool = False


class AttachReceiver(Frame):
    """mode: "consume" or "browse"; accept False: no settling; before: see `Consume`."""

    handle: int
    queue: str
    mode: str = "consume"
    accept: bool = True
    before: list[tuple[str, int, list[int]]] = []


class Attached(Frame):
    """`headers`: the exchange routes by properties, so transfers must carry them in `headers`. `next`: the least number
    a sender's next transfer may have. `queue`: the id of a receiver's queue, by which one that was declared anew under
    the same name is told from the last; "": the broker does not say."""

    handle: int
    headers: bool = False
    next: int = 1
    queue: str = ""


class Detach(Frame):
    """End a sender or receiver; of a receiver, whatever it still holds is released."""

    handle: int


class Detached(Frame):
    """The link has ended: answer to `Detach` (code "") or the broker's doing."""

    handle: int
    code: str = ""
    text: str = ""


class Transfer(Frame):
    """Messages from a sender, numbered `first`, `first` + 1, ... above all before it on this connection (a sender that
    is attached again leaves out what was complete).

    Attributes:
        blobs: encoded messages.
        keys: a routing key per message, or None when the sender's key is fixed.
        ttl: flat ``[index, ttl_ms, ...]`` of the messages that expire.
        headers: properties per message, for a headers exchange only, else None.
    """

    handle: int
    first: int
    blobs: list[bytes]
    keys: list[str] | None = None
    ttl: list[int] = []
    headers: list[dict[str, Any]] | None = None


class Completed(Frame):
    """Transfers (as ranges of the sender's numbers) are complete: committed wherever they were routed. `unroutable`:
    those among them that went to no queue, since none was bound."""

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
    handle: int


class Delivery(Frame):
    """Messages for a receiver: see `Deliver`."""

    handle: int
    acquisition: int
    ranges: list[int]
    blobs: list[bytes]
    redelivered: list[int] = []


class Dispose(Frame):
    """Settle deliveries of a receiver: see `Settle`. `number` rises by one per frame of the handle, from 1."""

    handle: int
    number: int
    kind: int
    runs: list[int]


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


class MembersChanged(Frame):
    """The members are others now, or elsewhere: see `Opened.members`."""

    members: dict[str, str]
