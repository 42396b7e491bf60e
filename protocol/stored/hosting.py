"""The queues of which a broker may have kept a log, as it tells a sequencer that prepares (`durable.md` S13).

What is not named counts as an empty log that cannot have voted, so naming too few would count a forgotten vote as none.
A broker that comes back may have known more as committed than its disk says: it names the queues of the applied wiring,
those declared by entries behind it, and all of which its store has records. Some of those turn out never to have been,
or to be deleted: of these it says so as soon as it knows, else they would be waited for by every sequencer for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..broker.cluster_state import ClusterState
from ..wire.events import DeclareQueue, Entry, decode_event


def declared_at(queue: str) -> int:
    """The index of the entry of the cluster stream that has declared the queue of this id."""
    return int(queue.rpartition("#")[2])


def declarations(entries: Sequence[Entry], first: int) -> list[str]:
    """Ids of the queues that these entries declare, of which the first has index `first`."""
    found = []
    for index, entry in enumerate(entries, first):
        event = decode_event(entry.event) if entry.origin else None
        if type(event) is DeclareQueue:
            found.append(f"{event.name}#{index}")
    return found


class Hosting:
    """Args:
        gone: called with the id of a queue that was named, and is not there; whether the store has records of it.

    Attributes:
        stored: queues of which the store has records, and which the wiring does not know yet.
    """

    def __init__(self, cluster: ClusterState, gone: Callable[[str, bool], object]) -> None:
        self.stored: set[str] = set()
        self._cluster = cluster
        self._gone = gone
        self._named: set[str] = set()  # of queues that the wiring does not know

    def begin(self, stored: Iterable[str]) -> None:
        """The store's records were found."""
        self.stored = set(stored)

    def hosted(self, committed: Sequence[Entry]) -> None:
        """These entries are about to be applied. What the wiring knows, or learns by them, a replica takes from the
        store, and drops there when it is deleted: nobody else may take it then."""
        cluster = self._cluster
        first = cluster.keeper.commit - len(committed) + 1
        self.stored.difference_update([queue.id for queue in cluster.wiring.all_kept()])
        self.stored.difference_update(declarations(committed, first))

    def queues(self) -> list[str]:
        """Ids of all that may be kept here."""
        wiring = self._cluster.wiring
        known = [queue.id for queue in wiring.all_kept()]
        more = sorted({*self._behind(), *self.stored}.difference(known))
        self._named.update(more)
        return known + more

    def _behind(self) -> list[str]:
        """Declared by an entry that is not known as committed."""
        keeper = self._cluster.keeper
        return declarations(keeper.entries(keeper.commit + 1, keeper.end), keeper.commit + 1)

    def applied(self) -> None:
        """More of the cluster stream is applied."""
        cluster = self._cluster
        for queue in sorted(id for id in self._named | self.stored if declared_at(id) <= cluster.keeper.commit):
            self._named.discard(queue)
            stored = queue in self.stored
            self.stored.discard(queue)
            if cluster.wiring.kept(queue) is None:
                self._gone(queue, stored)
