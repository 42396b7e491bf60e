"""Which part of a broker a frame goes to that comes from a sequencer or from one of its own replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.frame import Frame
from ..wire.log_frames import Evicted, Left, Update
from ..wire.majority_frames import ResetDone
from ..wire.queue_frames import Cancelled, Deliver, Drained, GivenUp, HeldTooLong, QueueReply, Settled
from ..wire.verdict_frames import Judged
from .lifecycle import Lifecycle
from .questions import Questions
from .receivers import Receivers
from .resets import Resets
from .transfers import Transfers


def cluster_rules(
    receivers: Receivers, transfers: Transfers, questions: Questions, lifecycle: Lifecycle, resets: Resets
) -> dict[type[Frame], Callable[[str, Any], None]]:
    return {
        Cancelled: receivers.cancelled,
        Deliver: receivers.deliver,
        Settled: receivers.settled,
        Drained: receivers.drained,
        HeldTooLong: receivers.timed_out,
        QueueReply: lambda peer, frame: questions.replied(frame),
        Judged: lambda peer, frame: transfers.verdicts.heard(frame),
        **questions.fellows.rules(),
        Evicted: lifecycle.evicted,
        Update: lifecycle.update,
        GivenUp: lambda peer, frame: lifecycle.given_up(peer),
        Left: lifecycle.has_left,
        ResetDone: lambda peer, frame: resets.done(frame),
    }
