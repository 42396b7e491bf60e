"""Every frame, as a value. A frame is its kind (in the header, see `framing.py`) and a msgpack array of its fields.

Kinds are only ever added, fields only ever appended with a default, so that older and newer programs can talk
(`new-cluster-design`, live upgrades). Decoding checks every field's type; what a field *means* is checked by the
machine that receives it.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .events import ZERO, Ballot
from .order_frames import (
    Ack,
    Append,
    Beat,
    Beating,
    Busy,
    Evicted,
    Fetch,
    Fetched,
    Frame,
    Gap,
    Leave,
    Left,
    Nack,
    Orphaned,
    Prepare,
    Promised,
    Request,
    Results,
    Subscribe,
    Supervised,
    Suspect,
    Unsubscribe,
    Update,
    UpdateFront,
    UpdateStart,
    UpdateTaken,
)
from .order_frames import (
    Numbers as Numbers,
)
from .tap_frames import Offer, Seen, Tell, Told
from .waiting_frames import Reset, ResetDone, Waits

# ---- links: 1 to 7 (spoken by the links themselves, never seen by a machine); 8 to 95: members among themselves


class Hello(Frame):
    """First frame of a dialled peer link: who calls.

    Attributes:
        minor: of the protocol (`version.py`); the major is in every frame's header.
        inc: incarnation of the process.
    """

    cluster: str
    name: str
    nonce: bytes
    minor: int = 0
    inc: int = 0


class Challenge(Frame):
    """Attributes:
    proof: HMAC-SHA256 under the cluster's secret of role, cluster, both names, both nonces, and both sides' versions
        and incarnations: the callee knows it too, and a proof cannot be reflected.
    minor, inc: the callee's, as in `Hello`.
    """

    nonce: bytes
    proof: bytes
    minor: int = 0
    inc: int = 0


class Proof(Frame):
    proof: bytes


class Accepted(Frame):
    name: str


class Refused(Frame):
    """The link or connection is about to close, and why."""

    code: str
    text: str


class Ping(Frame):
    pass


class Pong(Frame):
    pass


# ---- the consume lock: 48 to 55 (`design.md` section 5)


class Interest(Frame):
    """Broker `broker` has (or no longer has) a consumer with credit on queue id `queue`."""

    queue: str
    broker: str
    interested: bool


class Held(Frame):
    """An `own` event took effect: `broker` ("" for nobody) now holds `grant`."""

    queue: str
    broker: str
    grant: int


class Void(Frame):
    """The `own` event that would have given `grant` to `broker` was void: it is out, and has not come back."""

    queue: str
    broker: str
    grant: int


class Contended(Frame):
    """To the holder of `grant`: when your slice has run and you have used it, hand over to `next` ("": keep it).

    Attributes:
        ballot, turn: by which the sender is on duty (`duty.py`): of an older day it has no effect. (0, 0) is said by an
            Ownership older than that.
    """

    queue: str
    grant: int
    next: str
    slice_ms: int
    ballot: Ballot = ZERO
    turn: int = 0


class Forget(Frame):
    """The queue is gone."""

    queue: str


# ---- a broker and its queue replicas: 56 to 79


class Host(Frame):
    """Host queue id `queue`; `alternate` is its alternate exchange, "" for none.

    Attributes:
        inc: incarnation under which the replica keeps it: higher than any under which this broker kept it before.
        voters: the voters of the cluster stream when it was declared: those of the queue's, when it begins.
        ballot: what the broker has promised; the replica promises the same.
        blank: this broker may have kept the queue before and lost it: come back through an update (K4).
    """

    queue: str
    alternate: str
    arguments: dict[str, Any]
    ballot: Ballot = (0, 0)
    blank: bool = False
    inc: int = 0
    voters: list[str] = []


class Yield(Frame):
    """To a replica: its broker leaves the cluster. Say `Yielded` when it holds no lock and no message any more."""


class Yielded(Frame):
    pass


class Hosted(Frame):
    queue: str


class Unhost(Frame):
    queue: str


class Consume(Frame):
    """Start subscription `sub` (a number unique within the broker's incarnation).

    Attributes:
        mode: "consume" (acquires), "browse", or "rescue": browse, and see what is acquired or rejected as well.
        accept: False: acquired is accepted (no settling).
        before: brokers that this consumer comes from, as (broker, acquisition, runs): it held these runs there, and may
            have been given more under later acquisitions than that (-1: no more than goes back together with the runs).
            It gets nothing until that is back in its place (`resuming.py`).
    """

    queue: str
    sub: int
    mode: str
    accept: bool
    before: list[tuple[str, int, list[int]]] = []


class Credit(Frame):
    """More credit (-1 bytes: unlimited). `drain`: use it now, report `Drained`, forget the rest.

    Attributes:
        sure: a drain's answer holds all that was complete when it was asked; False: all that is known here.
    """

    queue: str
    sub: int
    messages: int
    bytes: int = -1
    drain: bool = False
    sure: bool = True


class Drained(Frame):
    queue: str
    sub: int


class Cancel(Frame):
    """End a subscription. `requeue`: release whatever it still holds, flagged redelivered."""

    queue: str
    sub: int
    requeue: bool


class Cancelled(Frame):
    queue: str
    sub: int


class Deliver(Frame):
    """Messages for a subscription.

    Attributes:
        acquisition: to be quoted when settling; 0 for browsers.
        ranges: their positions.
        blobs: as many encoded messages as there are positions.
        redelivered: flat ``[index, delivery count, ...]`` for those delivered before.
    """

    queue: str
    sub: int
    acquisition: int
    ranges: list[int]
    blobs: list[bytes]
    redelivered: list[int] = []


ACCEPT, RELEASE, REJECT = 1, 2, 3


class Settle(Frame):
    """Accept, release or reject what was delivered; `number` rises by one per frame of a subscription.

    Attributes:
        kind: ACCEPT, RELEASE or REJECT.
        runs: flat ``[acquisition, first, last, ...]``.
    """

    queue: str
    sub: int
    number: int
    kind: int
    runs: list[int]


class Settled(Frame):
    """The settle is committed and applied. `lost`: runs that were not this subscription's to settle (stale)."""

    queue: str
    sub: int
    number: int
    lost: list[int]


class QueueCommand(Frame):
    """An order or question to one queue: name "stat" or "purge"."""

    queue: str
    number: int
    name: str
    argument: int = 0


class QueueReply(Frame):
    queue: str
    number: int
    value: dict[str, Any]


class Bury(Frame):
    """Rejected messages to route through the alternate exchange; the answer is `Interred`.

    Attributes:
        id: index of the event that rejected them: with "queue@id" as client the re-enqueue applies once, whichever
            replicas ask for it.
    """

    queue: str
    id: int
    exchange: str
    blobs: list[bytes]


class Interred(Frame):
    queue: str
    id: int


# ---- clients: 96 to 127. The session machine's vocabulary: a listener for another protocol translates to these.


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
    """A management command; see `broker.py` for the names and arguments."""

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


KINDS: dict[int, type[Frame]] = {
    1: Hello, 2: Challenge, 3: Proof, 4: Accepted, 5: Refused, 6: Ping, 7: Pong,
    13: Waits, 14: Reset, 15: ResetDone,
    32: Request, 33: Results, 34: Busy, 35: Subscribe, 36: Unsubscribe, 37: Append, 38: Ack, 39: Gap, 40: Nack,
    41: Prepare, 42: Promised, 43: Fetch, 44: Fetched, 45: Beat, 46: Beating, 47: Suspect,
    48: Interest, 49: Held, 50: Contended, 51: Forget, 52: Void,
    53: Supervised,
    56: Host, 57: Hosted, 58: Unhost, 59: Consume, 60: Credit, 61: Drained, 62: Cancel, 63: Cancelled, 64: Deliver,
    65: Settle, 66: Settled, 67: QueueCommand, 68: QueueReply, 69: Bury, 70: Interred, 71: Yield, 72: Yielded,
    80: Update, 81: UpdateStart, 82: UpdateFront, 83: UpdateTaken, 88: Evicted, 89: Leave, 90: Left, 91: Orphaned,
    92: Offer, 93: Tell, 94: Told, 95: Seen,
    96: Open, 97: Opened, 98: AttachSender, 99: AttachReceiver, 100: Attached, 101: Detach, 102: Detached,
    103: Transfer, 104: Completed, 105: Failed, 106: Flow, 107: FlowDrained, 108: Delivery, 109: Dispose,
    110: Disposed, 111: Command, 112: Reply, 113: MembersChanged,
}  # fmt: skip
KIND_OF: dict[type[Frame], int] = {cls: kind for kind, cls in KINDS.items()}
CLIENT_KINDS = frozenset(kind for kind in KINDS if kind >= 96) | {6, 7}
"""What a client may send or be sent after the connection is open (besides `Refused`)."""
