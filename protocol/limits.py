"""The bounds of the wire and of one broker, in one place, so that every error can name the number it enforces."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Bounds that one connection must keep.

    Attributes:
        frame_bytes: largest payload of a frame on a client's connection.
        member_frame_bytes: largest payload of a frame between members, which may hold the state of a queue or of the
            wiring: as much as may wait on a link at all.
        message_bytes: largest encoded message (body and headers together).
        depth: deepest nesting of arrays and maps in a frame.
        transfer_messages: most messages in one transfer frame.
        credit_messages: most credit one receiver may hold.
        name_chars: longest name of a queue, exchange, key or client.
        handles: most senders and receivers of one connection.
        uncommitted_bytes: most message bytes one broker may have in flight to the sequencer; beyond it the broker
            stops reading from its clients (`sequencer.md` S8).
        heartbeat_ms: shortest and longest heartbeat of a client connection.
        patience_ms: longest silence of a client that a broker can be asked to bear.
    """

    frame_bytes: int = 32 * 1024 * 1024
    member_frame_bytes: int = 256 * 1024 * 1024
    message_bytes: int = 8 * 1024 * 1024
    depth: int = 16
    transfer_messages: int = 10_000
    credit_messages: int = 1_000_000
    name_chars: int = 255
    handles: int = 10_000
    uncommitted_bytes: int = 64 * 1024 * 1024
    heartbeat_ms: tuple[int, int] = (100, 60_000)
    patience_ms: int = 600_000

    def between_members(self) -> Limits:
        """The limits of a link between two members: both have proved their identity."""
        return msgspec.structs.replace(self, frame_bytes=max(self.frame_bytes, self.member_frame_bytes))


DEFAULT = Limits()

INCARNATIONS_PER_BROKER = 1000
"""The incarnations that a broker reserves for its queues, from its own on: each replica that dies takes one. The next
process of the broker begins beyond them."""

MESSAGE_BYTES = (1024, DEFAULT.frame_bytes * 3 // 4)
"""The least and the most an operator may choose as `Limits.message_bytes`: a frame carries more than the message."""
RAISE_IT = "raise the limit with `mantamq up --max-message-size`, start_cluster(max_message_bytes=...)"


def too_large(limit: int, size: int) -> str:
    """The error text for a message of `size` bytes."""
    return f"a message has at most {limit:,} bytes encoded here, this one {size:,}: split it, or {RAISE_IT}"
