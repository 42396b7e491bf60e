"""A line of the log for what a sequencer decides of its own accord: who leads, who is out, who is back, flow control.

Only the one that leads decides, so each has one line in the cluster. It is written when the event has its place in the
cluster stream: a sequencer that is deposed before a majority has it may have said what the next one decides anew.
"""

from __future__ import annotations

import logging

from ...protocol.sequencer.observers import SequencerObserver
from ...protocol.wire.events import CLUSTER, Evict, FlowControl, Lost, Rejoin, Return, Start, decode_event

log = logging.getLogger(__name__)


class SequencerLog(SequencerObserver):
    """Of the sequencer of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ordered(self, stream: str, event: bytes) -> None:
        if stream != CLUSTER:
            if log.isEnabledFor(logging.DEBUG):
                _of_queue(stream.rpartition("#")[0], event)
            return
        match decode_event(event):
            case Start() as start:
                log.info("%(member)s leads, in term %(term)d", {"member": self._name, "term": start.ballot[0]})
            case Evict() as evict:
                log.warning(
                    "broker %(broker)s is out: it was silent for too long, or its link is gone",
                    {"broker": evict.broker, "inc": evict.inc},
                )
            case Rejoin() as rejoin:
                log.info(
                    "broker %(broker)s is up to date, and votes again", {"broker": rejoin.voter, "inc": rejoin.inc}
                )
            case Return() as back:
                log.info("broker %(broker)s is back with its log", {"broker": back.voter, "life": back.life})
            case FlowControl(on=True) as flow:
                log.warning("flow control is on: %(reason)s", {"reason": flow.reason, "broker": flow.member})
            case FlowControl() as flow:
                log.info("flow control is off for %(broker)s", {"broker": flow.member})
            case Lost() as lost:
                log.error(
                    "queue %(queue)s is lost: too few brokers have it",
                    {"queue": lost.queue.rpartition("#")[0], "id": lost.queue, "ordered_by_operator": lost.asked},
                )
            case _:
                pass

    def duty_passed(self, before: str, now: str, silent_ms: int) -> None:
        log.warning(
            "%(now)s passes consume locks on: %(before)s is silent",
            {"now": now, "before": before, "silent_ms": silent_ms},
        )


def _of_queue(queue: str, event: bytes) -> None:
    match decode_event(event):
        case Start() as start:
            log.debug("queue %(queue)s goes on in term %(term)d", {"queue": queue, "term": start.ballot[0]})
        case Rejoin() as rejoin:
            log.debug("queue %(queue)s is up to date at broker %(broker)s", {"queue": queue, "broker": rejoin.voter})
        case _:
            pass
