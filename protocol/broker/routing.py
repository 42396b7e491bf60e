"""A transfer on its way through the wiring: which queues, and one enqueue for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..errors import INVALID, NOT_FOUND, UNROUTABLE, PeerError
from ..queue.moves import MOVED
from ..ranges import RangeSet, compress, pairs
from ..wire.client_frames import Transfer
from ..wire.events import Enqueue, encode_event
from ..wire.queue_frames import DeadLetter
from ..wiring.exchanges import LooksAtHeaders
from ..wiring.routing import Routing
from .cluster_state import ClusterState
from .queue_traits import NOTHING, headers_of
from .session import MOST_MS, SenderLink

Parts = list[tuple[str, bytes]]
"""(queue id, encoded enqueue)"""
Numbers = dict[str, list[int]]
"""Queue id -> a client's numbers, as ranges."""
Route = Callable[..., tuple[str, ...]]
"""Exchange, key, and headers where they are looked at -> ids of queues."""


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


def route_together(cluster: ClusterState, link: SenderLink, frame: Transfer, expiry: list[int], at_ms: int) -> Parts:
    """One route for the whole transfer: the event is encoded once, and the route kept as long as the wiring's version
    is the same. `at_ms`: when it came."""
    if link.route_version != cluster.version:
        try:
            route = cluster.wiring.route_own if link.name else cluster.wiring.route
            link.route, link.kinds, link.each = route(link.exchange, link.key or ""), (), False
        except LooksAtHeaders:
            link.route, link.kinds, link.each = (), (), True
        if link.name or any(cluster.traits.needs(queue) != NOTHING for queue in link.route):
            link.route, link.kinds = (), link.route
        link.route_version = cluster.version
    if not link.route:
        if not link.kinds:
            return []
        keys = [[link.key or ""]] * len(frame.blobs)
        return cluster.traits.enqueues(link.kinds, _whole(link, frame, expiry, at_ms), lambda: keys)
    event = encode_event(_whole(link, frame, expiry, at_ms))
    return [(queue, event) for queue in link.route]


def not_plain(
    cluster: ClusterState, link: SenderLink, frame: Transfer, expiry: list[int], at_ms: int, parts: Parts
) -> tuple[Parts, list[int], Numbers]:
    """What `route_together` has not said, where it has left the route empty: as of `route_each`."""
    if link.each:
        return route_each(cluster, link, frame, expiry, at_ms)
    if not parts:
        return [], list(range(len(frame.blobs))), {}
    numbers = [frame.first, frame.first + len(frame.blobs) - 1]
    return parts, [], {queue: numbers for queue in link.kinds if cluster.traits.judges(queue)}


def _whole(link: SenderLink, frame: Transfer, expiry: list[int], at_ms: int) -> Enqueue:
    numbers = [frame.first, frame.first + len(frame.blobs) - 1]
    whole = Enqueue(link.client, numbers, frame.blobs, expiry, at_ms=at_ms)
    return _sent_by(link, whole) if link.name else whole


def _sent_by(link: SenderLink, event: Enqueue) -> Enqueue:
    """A named sender's, which says whose it is: its client is the name."""
    return replace(event, origins=[link.origin], origin_of=[0] * len(event.blobs))


def route_each(
    cluster: ClusterState,
    link: SenderLink,
    frame: Transfer,
    expiry: list[int],
    at_ms: int,
    dead: DeadLetter | None = None,
    shunned: Sequence[frozenset[str]] = (),
) -> tuple[Parts, list[int], Numbers]:
    """A route per message; each queue gets its messages in one event, in the order they were sent.

    Args:
        dead: they are dead letters, or come from an exchange's own queue, and it says who sent them.
        shunned: of each message the names of queues that it does not come to; empty: there are none.

    Returns:
        The parts; the indexes of messages that go to no queue; and which numbers go to each queue that has a say in it.
    """
    groups: dict[str, list[int]] = {}
    onward = named = False
    exchange = link.exchange
    wiring: Routing = cluster.wiring
    route: Route = wiring.route_own if link.name else wiring.route
    if dead is not None:
        onward, named = dead.first > 0, dead.cause == MOVED and not dead.exchange
        wiring, route = _way_of(wiring, exchange, dead)
    keys = frame.keys if frame.keys is not None else [link.key or ""] * len(frame.blobs)
    if frame.headers is None:
        try:
            routes = [route(exchange, key) for key in keys]
        except LooksAtHeaders:  # its client does not know: they have become of interest behind its back
            routes = [route(exchange, key, headers_of(blob)) for key, blob in zip(keys, frame.blobs, strict=True)]
    else:
        routes = [route(exchange, key, headers) for key, headers in zip(keys, frame.headers, strict=True)]
    for index, several in frame.several:
        routes[index] = _by_any(wiring, exchange, several, frame, index, onward)
    if shunned:
        routes = [_but_for(names, queues) for names, queues in zip(shunned, routes, strict=True)]
    for index, queues in enumerate(routes):
        for queue in queues:
            group = groups.get(queue)
            if group is None:
                groups[queue] = [index]
            else:
                group.append(index)
    blobs, first = frame.blobs, frame.first
    ttl, later = dict(pairs(expiry)), dues(frame, at_ms) if frame.delays else {}
    parts: Parts = []
    judged: Numbers = {}
    judges = cluster.traits.judges
    for queue, indexes in groups.items():
        expires = [n for place, i in enumerate(indexes) if i in ttl for n in (place, ttl[i])] if ttl else []
        numbers = compress([first + i for i in indexes])
        event = Enqueue(link.client, numbers, [blobs[i] for i in indexes], expires, at_ms=at_ms)
        if later:
            delays = [n for place, i in enumerate(indexes) if i in later for n in (place, later[i])]
            event = replace(event, delays=delays)
        if dead is not None and dead.origin_of:
            event = replace(event, origins=dead.origins, origin_of=[dead.origin_of[i] for i in indexes])
        elif link.name:
            event = _sent_by(link, event)
        parts += cluster.traits.enqueues((queue,), event, lambda its=indexes: _all_keys(keys, frame, its), named)
        if judges(queue):
            judged[queue] = numbers
    missing = [index for index, queues in enumerate(routes) if not queues] if () in routes else []
    return parts, missing, judged


def _way_of(wiring: Routing, exchange: str, dead: DeadLetter) -> tuple[Routing, Route]:
    """How what comes from a queue finds its own."""
    if dead.first > 0:
        wiring = wiring.as_of(exchange, dead.wired)
        return wiring, wiring.route_onward
    if dead.cause == MOVED and not dead.exchange and dead.key:
        return wiring, wiring.route_own  # chosen when the move began: what is sent again goes there, too
    return wiring, wiring.route


def dues(frame: Transfer, now_ms: int) -> dict[int, int]:
    """Index -> when it is due, of the messages of a transfer that are delayed, `now_ms` being now.

    Raises:
        PeerError: fatal, an index or a time is out of range.
    """
    found: dict[int, int] = {}
    for index, ms, since_epoch in frame.delays:
        if not 0 <= index < len(frame.blobs) or not 0 <= ms < MOST_MS:
            raise PeerError(INVALID, "a delay needs an index into the transfer and a time of 0 to 2^48 milliseconds")
        due_ms = ms if since_epoch else now_ms + ms
        if due_ms > now_ms:
            found[index] = due_ms
    return found


def _but_for(names: frozenset[str], queues: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(queue for queue in queues if queue.rpartition("#")[0] not in names)


def _by_any(
    wiring: Routing, exchange: str, keys: list[str], frame: Transfer, index: int, onward: bool
) -> tuple[str, ...]:
    """The route of a message with several keys: each queue once."""
    headers = frame.headers[index] if frame.headers is not None else None
    try:
        return wiring.route_by_any(exchange, keys, headers, onward)
    except LooksAtHeaders:
        return wiring.route_by_any(exchange, keys, headers_of(frame.blobs[index]), onward)


def _all_keys(keys: list[str], frame: Transfer, indexes: list[int]) -> list[list[str]]:
    several = dict(frame.several)
    return [several.get(index) or [keys[index]] for index in indexes]


def why_nowhere(link: SenderLink, frame: Transfer, numbers: list[int]) -> tuple[str, str]:
    """Code and text of the failure of those numbers of a transfer, as ranges, which go to no queue, and must."""
    if link.exchange == "":
        keys = list(frame.keys or [link.key or ""] * len(frame.blobs))
        for index, several in frame.several:
            keys[index] = several[0]
        named = {keys[number - frame.first] for first, last in pairs(numbers) for number in range(first, last + 1)}
        names = ", ".join(repr(name) for name in sorted(named)[:3])
        return NOT_FOUND, f"there is no queue {names}: declare it first"
    address = link.exchange if link.key is None else f"{link.exchange}/{link.key}"
    return UNROUTABLE, f"no queue is bound to {address!r} for these: bind one, or send without mandatory"


def without(numbers: list[int], gone: RangeSet) -> list[int]:
    """Ranges of numbers but for some."""
    rest = RangeSet(numbers)
    for first, last in gone:
        rest.remove(first, last)
    return rest.flat()
