"""A transfer on its way through the wiring: which queues, and one enqueue for each of them."""

from __future__ import annotations

from ..ranges import compress, pairs
from ..wire.client_frames import Transfer
from ..wire.events import Enqueue, encode_event
from .cluster_state import ClusterState
from .session import SenderLink

Parts = list[tuple[str, bytes]]
"""(queue id, encoded enqueue)"""


def in_requests(parts: Parts, most_bytes: int) -> list[Parts]:
    """The parts of a large transfer, in order, for as many requests as carry them; a part alone may be larger."""
    requests: list[Parts] = []
    size = 0
    for part in parts:
        size += len(part[1])
        if not requests or size > most_bytes:
            requests.append([])
            size = len(part[1])
        requests[-1].append(part)
    return requests


def route_together(cluster: ClusterState, link: SenderLink, frame: Transfer, expiry: list[int]) -> Parts:
    """One route for the whole transfer: the event is encoded once, and the route kept as long as the wiring's version
    is the same."""
    if link.route_version != cluster.version:
        link.route, link.kinds = cluster.wiring.route(link.exchange, link.key or ""), ()
        if any(map(cluster.traits.of, link.route)):
            link.route, link.kinds = (), link.route
        link.route_version = cluster.version
    if not link.route:
        return cluster.traits.enqueues(link.kinds, _whole(link, frame, expiry)) if link.kinds else []
    event = encode_event(_whole(link, frame, expiry))
    return [(queue, event) for queue in link.route]


def _whole(link: SenderLink, frame: Transfer, expiry: list[int]) -> Enqueue:
    return Enqueue(link.client, [frame.first, frame.first + len(frame.blobs) - 1], frame.blobs, expiry)


def route_each(cluster: ClusterState, link: SenderLink, frame: Transfer, expiry: list[int]) -> tuple[Parts, list[int]]:
    """A route per message; each queue gets its messages in one event, in the order they were sent.

    Returns:
        The parts, and the indexes of messages that go to no queue.
    """
    groups: dict[str, list[int]] = {}
    route = cluster.wiring.route
    exchange = link.exchange
    keys = frame.keys if frame.keys is not None else [link.key or ""] * len(frame.blobs)
    if frame.headers is None:
        routes = [route(exchange, key) for key in keys]
    else:
        routes = [route(exchange, key, headers) for key, headers in zip(keys, frame.headers, strict=True)]
    for index, queues in enumerate(routes):
        for queue in queues:
            group = groups.get(queue)
            if group is None:
                groups[queue] = [index]
            else:
                group.append(index)
    blobs, first = frame.blobs, frame.first
    ttl = dict(pairs(expiry))
    parts: Parts = []
    for queue, indexes in groups.items():
        expires = [n for place, i in enumerate(indexes) if i in ttl for n in (place, ttl[i])] if ttl else []
        numbers = compress([first + i for i in indexes])
        parts += cluster.traits.enqueues((queue,), Enqueue(link.client, numbers, [blobs[i] for i in indexes], expires))
    missing = [index for index, queues in enumerate(routes) if not queues] if () in routes else []
    return parts, missing
