"""Which queue of a replica a frame is for: rules of one queue, as rules of the process that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .consumers import QueueConsumers
from .hosted_queue import HostedQueue

Rule = Callable[[Any, str, Any], object]
"""What a `ReplicaMachine` does, told the peer and the frame."""


def rule_of_consumers(rule: Callable[[QueueConsumers, Any], object]) -> Rule:
    """A rule of a queue's consumers; a frame for a queue that is not here is for nobody, or waits for that."""

    def routed(machine: Any, peer: str, frame: Any) -> None:
        queue = machine.queues.get(frame.queue)
        if queue is not None:
            rule(queue.consumers, frame)
        else:
            machine.absent(peer, frame)

    return routed


def rule_of_queue(rule: Callable[[HostedQueue, Any], object]) -> Rule:
    """A rule of a queue that its broker or an Ownership speaks of."""

    def routed(machine: Any, peer: str, frame: Any) -> None:
        queue = machine.queues.get(frame.queue)
        if queue is not None:
            rule(queue, frame)
        else:
            machine.absent(peer, frame)

    return routed


def rule_of_stream(rule: Callable[[HostedQueue, str, Any], object]) -> Rule:
    """A rule of a queue whose stream another keeper speaks of."""

    def routed(machine: Any, peer: str, frame: Any) -> None:
        queue = machine.queues.get(frame.stream)
        if queue is not None:
            rule(queue, peer, frame)

    return routed
