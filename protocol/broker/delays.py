"""Messages that their sender delays, and where none can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..errors import NOT_ALLOWED, PeerError
from ..log.outbox import FollowerOutbox
from ..ranges import RangeSet, compress, subtract
from ..wire.client_frames import Failed, Transfer
from ..wire.transfer_parts import part
from ..wire.version import KNOWS_DELAYS, spoken
from .cluster_state import ClusterState
from .routing import Numbers, Parts, route_each
from .session import SenderLink, Session

GoOn = Callable[[Session, SenderLink, Transfer, Parts, list[int], Numbers], None]
"""What is done with what `route_each` has said of a transfer."""


def undelayable(cluster: ClusterState, queues: Iterable[str] = ()) -> PeerError | None:
    """Why nothing can be delayed in this cluster, or what goes to one of these queues, by their ids; None: it can."""
    if cluster.versions.least < KNOWS_DELAYS:
        return PeerError(
            NOT_ALLOWED,
            f"a member of the cluster speaks protocol {spoken(cluster.versions.least)} and knows no delays: send "
            "without one, or bring all members up to date",
        )
    if any(cluster.traits.needs(queue).addressed for queue in queues):
        return PeerError(
            NOT_ALLOWED,
            "an exchange with sequence or initial sends on what comes in the order in which it comes, and delays "
            "nothing: send to a queue behind it, or without a delay",
        )
    return None


def route_delayed(
    cluster: ClusterState, outbox: FollowerOutbox, session: Session, link: SenderLink, frame: Transfer, go_on: GoOn
) -> None:
    """Route a transfer of which some messages are delayed. Where they cannot be they fail, and the rest goes on."""
    now_ms = outbox.now_ms
    parts, missing, judged = route_each(cluster, link, frame, session.expiry(frame, now_ms), now_ms)
    no = undelayable(cluster, [queue for queue, _ in parts])
    if no is None:
        go_on(session, link, frame, parts, missing, judged)
        return
    late = compress(sorted({frame.first + index for index, _, _ in frame.delays}))
    outbox.send(session.peer, Failed(frame.handle, late, no.code, no.text))
    for rest in without_delayed(frame):
        go_on(session, link, rest, *route_each(cluster, link, rest, session.expiry(rest, now_ms), now_ms))


def without_delayed(frame: Transfer) -> Iterator[Transfer]:
    """The other messages of a transfer, with their numbers: a transfer of each run of them."""
    first, last = frame.first, frame.first + len(frame.blobs) - 1
    late = RangeSet()
    for index, _, _ in frame.delays:
        late.add(first + index, first + index)
    for a, b in subtract(first, last, list(late)):
        yield part(frame, a - first, b - first + 1)
