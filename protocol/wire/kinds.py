"""Every frame's kind: the number in its header (`framing.py`).

Kinds are only ever added, fields only ever appended with a default, so that older and newer programs can talk
(`new-cluster-design`, live upgrades). Decoding checks every field's type; what a field *means* is checked by the
machine that receives it.
"""

from __future__ import annotations

from .capture_frames import Facts, FactsKept, FactsOffered, FactsWanted
from .client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Blocked,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Failed,
    Flow,
    FlowDrained,
    MembersChanged,
    Open,
    Opened,
    Reply,
    Transfer,
)
from .flow_frames import FlowStopped, Pressed, Resident
from .frame import Frame
from .link_frames import Challenge, Hello, Ping, Pong, Proof, Refused, Welcome
from .log_frames import (
    Ack,
    Append,
    Evicted,
    Fetch,
    Fetched,
    Gap,
    Heartbeat,
    HeartbeatReply,
    Leave,
    Left,
    LogDropped,
    LogReport,
    Nack,
    Orphaned,
    Prepare,
    Promise,
    Request,
    Results,
    Supervised,
    Suspect,
    Update,
    UpdateFront,
    UpdateHave,
    UpdatePiece,
    UpdateStart,
    UpdateTaken,
)
from .majority_frames import Reset, ResetDone, Waits
from .queue_frames import (
    Cancel,
    Cancelled,
    Consume,
    Contended,
    Credit,
    DeadLetter,
    DeadLettered,
    Deliver,
    Drained,
    Emptied,
    Forget,
    GivenUp,
    GiveUp,
    HeldTooLong,
    Host,
    Hosted,
    Interest,
    OwnerIs,
    QueueCommand,
    QueueReply,
    SenderNamed,
    Settle,
    Settled,
    Unhost,
    Void,
)
from .statistics_frames import FellowsAsked, FellowTold
from .store_frames import Ahead, Expected, Happened, Ousted, Room, Take, Taken, Write, Written
from .verdict_frames import HeldBack, Judge, Judged

KINDS: dict[int, type[Frame]] = {
    1: Hello, 2: Challenge, 3: Proof, 4: Welcome, 5: Refused, 6: Ping, 7: Pong,
    13: Waits, 14: Reset, 15: ResetDone, 16: Judged, 17: Judge,
    19: Resident, 20: SenderNamed,
    30: Emptied, 31: HeldTooLong,
    32: Request, 33: Results, 34: Happened, 35: LogReport, 36: LogDropped, 37: Append, 38: Ack, 39: Gap, 40: Nack,
    41: Prepare, 42: Promise, 43: Fetch, 44: Fetched, 45: Heartbeat, 46: HeartbeatReply, 47: Suspect,
    48: Interest, 49: OwnerIs, 50: Contended, 51: Forget, 52: Void,
    53: Supervised, 54: UpdatePiece, 55: Expected,
    56: Host, 57: Hosted, 58: Unhost, 59: Consume, 60: Credit, 61: Drained, 62: Cancel, 63: Cancelled, 64: Deliver,
    65: Settle, 66: Settled, 67: QueueCommand, 68: QueueReply, 69: DeadLetter, 70: DeadLettered,
    71: GiveUp, 72: GivenUp,
    73: Take, 74: Taken, 75: Write, 76: Written, 77: Ousted, 78: Ahead, 79: Room,
    80: Update, 81: UpdateStart, 82: UpdateFront, 83: UpdateTaken, 84: UpdateHave, 85: Pressed,
    88: Evicted, 89: Leave, 90: Left, 91: Orphaned,
    92: FactsOffered, 93: FactsWanted, 94: Facts, 95: FactsKept,
    96: Open, 97: Opened, 98: AttachSender, 99: AttachReceiver, 100: Attached, 101: Detach, 102: Detached,
    103: Transfer, 104: Completed, 105: Failed, 106: Flow, 107: FlowDrained, 108: Delivery, 109: Dispose,
    110: Disposed, 111: Command, 112: Reply, 113: MembersChanged, 114: Blocked, 115: HeldBack,
    120: FellowsAsked, 121: FellowTold, 122: FlowStopped,
}  # fmt: skip
KIND_OF: dict[type[Frame], int] = {cls: kind for kind, cls in KINDS.items()}
_BROKERS_KINDS = frozenset({120, 121})
CLIENT_KINDS = frozenset(kind for kind in KINDS if kind >= 96) - _BROKERS_KINDS | {6, 7}
"""The kinds a client may send or be sent after the connection is open (besides `Refused`)."""
PEER_KINDS = frozenset(kind for kind in KINDS if 8 <= kind < 96) | _BROKERS_KINDS | {5, 6, 7}
"""The kinds that may come over an open peer link: cluster frames, refusal, ping and pong."""
