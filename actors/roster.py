"""Who may join or leave a running cluster, and how far a change of its members is. Pure: from what actors report.

What counts is the leading sequencer's word: each stream has its own voters (`sequencer.md` K4), so a broker joins and
leaves stream by stream, the wiring's among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..protocol.events import CLUSTER
from .book import Plan
from .health import Actor, quorum_critical

JOIN, LEAVE = "join", "leave"
Machine = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A change of the members that is under way. Every broker keeps a copy, so that the next Supervisor finishes it.

    Attributes:
        request: who asked: a word of the asker's, so that it may ask again when an answer was lost.
        kind: JOIN or LEAVE.
        broker: who joins or leaves.
        node: Ray node id, for a join.
    """

    request: str
    kind: str
    broker: str
    node: str = ""

    def __str__(self) -> str:
        return f"broker {self.broker} {'joins' if self.kind == JOIN else 'leaves'}"


@dataclass(frozen=True)
class Stage:
    """How far a change is.

    Attributes:
        text: what it waits for, in words.
        done, total: streams that are settled, and all of them; total is 0 while that is not known.
    """

    text: str
    done: int = 0
    total: int = 0


def may_leave(plan: Plan, actors: list[Actor], broker: str) -> list[str]:
    """Why this broker may not leave now; none when it may.

    Args:
        actors: as in `Supervisor.status`.
    """
    if broker not in plan.members:
        return [f"there is no broker {broker!r} in this cluster: it has {', '.join(plan.members)}"]
    if len(plan.members) == 1:
        return [f"{broker} is the last broker: stop the cluster instead, with `mantamq down`"]
    reasons = quorum_critical(plan.left_by(broker), actors)
    return [f"without {broker}: {reason}; wait until the others are whole" for reason in reasons]


def joined(leading: Machine | None, newcomer: Machine | None, broker: str) -> tuple[bool, Stage]:
    """Whether a broker has all there is, and a vote in all of it.

    Args:
        leading: the leading sequencer's machine, None while none leads.
        newcomer: the broker's, None while it does not answer.
    """
    if leading is None:
        return False, Stage("no sequencer leads")
    if newcomer is None:
        return False, Stage("its process does not answer yet")
    cluster = leading["streams"].get(CLUSTER)
    if newcomer["blank"] or cluster is None or not _in(cluster, broker):
        return False, Stage("waiting for the wiring")
    queues = [stream for name, stream in leading["streams"].items() if name != CLUSTER]
    whole = sum(_in(stream, broker) for stream in queues)
    total = max(len(queues), newcomer["queues"])  # a sequencer that has just taken over may not know all of them
    if whole < total:
        return False, Stage("queues are brought up to date", whole, total)
    return True, Stage("it has everything", whole, total)


def left(leading: Machine | None, broker: str) -> tuple[bool, Stage]:
    """Whether a broker has no say any more in anything."""
    if leading is None:
        return False, Stage("no sequencer leads")
    streams = leading["streams"]
    cluster = streams.get(CLUSTER)
    if cluster is None or not cluster["ready"]:
        return False, Stage("a sequencer is taking over")
    # The wiring's stream comes last, so who has left that has left all.
    if broker not in cluster["voters"]:
        return True, Stage("it has left", len(streams), len(streams))
    queues = [stream for name, stream in streams.items() if name != CLUSTER]
    return False, Stage("its votes are taken over", sum(broker not in q["voters"] for q in queues), len(streams))


def _in(stream: Machine, broker: str) -> bool:
    """Whether it votes in a stream, and is linked."""
    return (
        stream["ready"]
        and broker in stream["voters"]
        and broker not in stream["blank"]
        and broker not in stream["missing"]
    )
