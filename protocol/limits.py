"""The bounds of the wire, of one process, and of what it sends at once: one frozen value, handed to every machine.

All in one place, so that every error can name the number it enforces. `BOUNDS` says which must not exceed which others.
"""

from __future__ import annotations

import msgspec

from .errors import LocalError


class Limits(msgspec.Struct, frozen=True):
    """Bounds that one connection, one process, or one frame must keep.

    Raises:
        LocalError: it breaks one of `BOUNDS`.
    """

    # ---- a connection of a client

    frame_bytes: int = 32 * 1024 * 1024
    """Largest payload of a frame on a client's connection."""
    member_frame_bytes: int = 256 * 1024 * 1024
    """Largest payload of a frame between members, which may hold the state of a queue or of the wiring: as much as may
    wait on a link at all."""
    message_bytes: int = 8 * 1024 * 1024
    """Largest encoded message (body and headers together)."""
    depth: int = 16
    """Deepest nesting of arrays and maps in a frame."""
    transfer_messages: int = 10_000
    """Most messages in one transfer frame."""
    credit_messages: int = 1_000_000
    """Most credit one receiver may hold."""
    name_chars: int = 255
    """Longest name of a queue, exchange, key or client."""
    handles: int = 10_000
    """Most senders and receivers of one connection."""
    uncommitted_bytes: int = 64 * 1024 * 1024
    """Most message bytes one broker may have in flight to the sequencer; beyond it the broker lets its clients send no
    more (`sequencer.md` S8)."""
    blocked_bytes: int = 16 * 1024 * 1024
    """Most bytes of transfers that are taken from one client after it was told to send none (one transfer may be
    larger): what was on its way. Beyond, it is not read."""
    blocked_total_bytes: int = 64 * 1024 * 1024
    """Most bytes of transfers that one broker takes from all clients together after they were told to send none.
    Beyond, whoever brings one is not read: less than what a disk keeps in reserve (`durable.md` 6)."""
    heartbeat_ms: tuple[int, int] = (100, 60_000)
    """Shortest and longest heartbeat of a client connection."""
    patience_ms: int = 600_000
    """Longest silence of a client that a broker can be asked to bear."""

    # ---- the log

    request_bytes: int = 8 * 1024 * 1024
    """Most bytes of events in one request of a broker (one event may be larger)."""
    append_bytes: int = 4 * 1024 * 1024
    """Most bytes of events in one `Append` (one event may be larger)."""
    keeper_window_bytes: int = 64 * 1024 * 1024
    """Most bytes of events that a keeper may have unacknowledged before it is sent no more (S8)."""
    fetch_bytes: int = 4 * 1024 * 1024
    """Most bytes of a log that a new sequencer fetches at a time (one entry may be larger)."""
    backlog_bytes: int = 64 * 1024 * 1024
    """A member's backlog, in bytes of events over all streams, of which the shares below are taken."""
    backlog_entries: int = 100_000
    """A member's backlog in entries: one costs some hundred bytes, however small its event is."""
    flow_stop: float = 0.8
    """Flow control goes on above this share of either: Qpid's."""
    flow_resume: float = 0.7
    """Flow control goes off below this share of both: Qpid's."""
    flow_give_up: float = 4
    """A member behind by more than this many times either is waited for no longer: flow control did not hold it."""
    retained_bytes: int = 64 * 1024 * 1024
    """Most bytes of events, over all streams, that a sequencer keeps for durable voters that are away; no flow control
    for them (`durable.md` 4)."""
    memory_bytes: int = 0
    """Flow control goes on when a broker's processes have more memory than that, all together; 0: by the share."""
    memory_share: float = 0.4
    """The share of a machine's memory that all brokers on it have instead, each of them a least part
    (`broker/memory.py`); 0: flow control does not go by memory."""
    memory_resume: float = 0.9
    """It goes off below this share of either."""
    retained_entries: int = 100_000
    """Most entries that it keeps for them, as `backlog_entries`."""

    # ---- queues

    queue_bytes: int = 0
    """The limit by size of a queue that names no limit, with what its declaration says of overflow; 0: it has none."""
    apply_entries: int = 1000
    """Most committed entries that a queue applies at once, before its process hears others and is heard: a log that is
    read back may have a hundred thousand."""
    run_messages: int = 1000
    """Most messages delivered in one run of a queue, before it yields to other queues."""
    run_looks: int = 5_000
    """Most messages looked at for consumers with selectors in one run of a queue."""
    expire_messages: int = 200
    """Most messages that a queue lets expire at once, before it serves others."""
    deliver_bytes: int = 1024 * 1024
    """Most bytes of messages in one delivery (one message may be larger)."""
    dead_letter_bytes: int = 8 * 1024 * 1024
    """Most bytes of messages in one piece of a batch that goes to an alternate exchange (one message may be larger)."""
    move_messages: int = 5_000
    """Most messages that one event of a move sets aside."""
    move_bytes: int = 4 * 1024 * 1024
    """Most bytes of messages in it (one message may be larger)."""
    move_looks: int = 20_000
    """Most messages that are looked at for it."""
    move_batches: int = 1
    """Most batches of one move that are on their way. More would come out of order where their broker dies: what
    another finishes for it comes behind what was chosen later."""
    move_answered: int = 50_000
    """When so many have gone a move is answered, and asked for again."""
    update_piece_bytes: int = 1024 * 1024
    """Most bytes of an update's sync point in one frame: a larger one goes in pieces."""
    update_chunk_bytes: int = 128 * 1024
    """Most bytes of messages in one chunk of an update (one message may be larger)."""
    update_chunk_messages: int = 2048
    """Most messages that are looked at for one chunk of an update."""
    update_chunks: int = 2
    """Most chunks of one update that may wait to be taken."""
    update_queue_bytes_s: int = 16 * 1024 * 1024
    """How fast one queue is updated."""
    update_process_bytes_s: int = 32 * 1024 * 1024
    """How fast all queues of one process are updated together."""

    # ---- capture

    facts_kept: int = 50_000
    """Most facts that a process keeps for the tap; beyond, the oldest go."""
    facts_window: int = 8192
    """Most facts of one stream that may be on their way to the tap."""
    facts_gathered: int = 256
    """Facts leave for the tap when this many have gathered, or `Timing.facts_gather_ms` is over."""

    def __post_init__(self) -> None:
        if not self.flow_resume <= self.flow_stop < self.flow_give_up:
            raise LocalError(
                f"Limits need flow_resume <= flow_stop < flow_give_up, and have {self.flow_resume}, {self.flow_stop} "
                f"and {self.flow_give_up}: flow control goes off below where it goes on, and comes before giving up"
            )
        if not (0 <= self.memory_share <= 1 and 0 < self.memory_resume <= 1 and self.memory_bytes >= 0):
            raise LocalError(
                f"Limits need memory_share of 0 to 1, memory_resume above 0 and to 1, and memory_bytes of at least 0, "
                f"and have {self.memory_share}, {self.memory_resume} and {self.memory_bytes}"
            )
        if not self.heartbeat_ms[0] <= self.heartbeat_ms[1] <= self.patience_ms:
            raise LocalError(
                f"Limits need heartbeat_ms[0] <= heartbeat_ms[1] <= patience_ms, and have {self.heartbeat_ms} and "
                f"{self.patience_ms}: a silence is borne for longer than a heartbeat"
            )
        for less, more, why in BOUNDS:
            if getattr(self, less) > getattr(self, more):
                numbers = f"{getattr(self, less)} and {getattr(self, more)}"
                raise LocalError(f"Limits need {less} <= {more}, and have {numbers}: {why}")

    def between_members(self) -> Limits:
        """The limits of a link between two members: both have proved their identity."""
        return msgspec.structs.replace(self, frame_bytes=max(self.frame_bytes, self.member_frame_bytes))


_FITS = "it goes in one frame between members"
BOUNDS = (
    ("request_bytes", "member_frame_bytes", _FITS),
    ("append_bytes", "member_frame_bytes", _FITS),
    ("fetch_bytes", "member_frame_bytes", _FITS),
    ("deliver_bytes", "member_frame_bytes", _FITS),
    ("dead_letter_bytes", "member_frame_bytes", _FITS),
    ("update_piece_bytes", "member_frame_bytes", _FITS),
    ("update_chunk_bytes", "member_frame_bytes", _FITS),
    ("message_bytes", "member_frame_bytes", _FITS),
    ("blocked_bytes", "blocked_total_bytes", "what one client brings is part of what all bring"),
    ("update_queue_bytes_s", "update_process_bytes_s", "one queue is updated by one process"),
)
"""(a field, one that it must not exceed, why)"""

DEFAULT = Limits()

INCARNATIONS_PER_BROKER = 1000
"""The incarnations that a broker reserves for its queues, from its own on: each replica that dies takes one. The next
process of the broker begins beyond them."""

ANNOTATIONS_BYTES = 8 * 1024
"""Most bytes of what consumers note on one message, encoded: the same everywhere, since every replica judges by it."""
ROUTING_KEYS = 64
"""Most routing keys of one message."""
MESSAGE_BYTES = (1024, DEFAULT.frame_bytes * 3 // 4)
"""The least and the most an operator may choose as `Limits.message_bytes`: a frame carries more than the message."""
RAISE_IT = "raise the limit with `mantamq up --max-message-size`, start_cluster(max_message_bytes=...)"


def too_large(limit: int, size: int) -> str:
    """The error text for a message of `size` bytes."""
    return f"a message has at most {limit:,} bytes encoded here, this one {size:,}: split it, or {RAISE_IT}"
