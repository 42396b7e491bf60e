"""The cluster stream as one broker keeps it: the log, the wiring that its committed entries make, and who votes.

The keeper hands out a batch of committed entries and knows at once who votes behind all of them. An entry is applied
under the voters of its own place in the stream, so `voters` follows entry by entry while a batch is applied: all
brokers must give a new queue's stream the same first voters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..log.history import StreamHistory
from ..log.keeper import Keeper
from ..log.quorum import change
from ..wire.events import CLUSTER, AnyEvent, Entry, Member, decode_event
from ..wire.log_frames import Append, Gap, Nack, UpdateStart
from ..wiring.snapshot import ClusterOutline
from ..wiring.wiring import Outcome, Wiring
from .queue_traits import QueueTraits
from .versions import Versions


class ClusterState:
    """Args: as those of `BrokerMachine`.

    Attributes:
        broker, inc: this broker, and its incarnation.
        keeper: its log of the stream.
        wiring: what the applied entries have made; another object after an update.
        recovered: up to where the log goes that an earlier life has kept; 0 for none.
        queue_voters: queue id -> the voters when it was declared, of the queues that an earlier life knew.
        version: rises with each change of the wiring, for what was looked up in it.
        versions: which minor versions the members speak.
        traits: what queues must know of messages.
        no_room: this broker's disk has no room.
        declared, deleted: how many queues, since this process began.
        crowded: why its processes should have no more memory, "" while they may.
        again: what was applied anew from an earlier life's log, and that observers of this life have not heard: index,
            entry, event, outcome.
    """

    def __init__(self, broker: str, inc: int, blank: bool, voters: Sequence[str]) -> None:
        self.broker = broker
        self.inc = inc
        self.keeper = Keeper(CLUSTER, broker, inc, blank, voters=voters)
        self.wiring = Wiring()
        self.recovered = self.keeper.end
        self.queue_voters: dict[str, list[str]] = {}
        self.version = self.declared = self.deleted = 0
        self.versions = Versions()
        self.no_room, self.crowded = False, ""
        self.traits = QueueTraits(lambda id: self.wiring.by_id(id), broker)
        self.again: list[tuple[int, Entry, AnyEvent, Outcome]] = []
        self._early: list[tuple[int, Callable[[], None]]] = []
        self._voters: list[str] | None = None  # while a batch is applied, those at the place of the applied entry

    @property
    def voters(self) -> list[str]:
        """The voters of the stream, by the entries applied."""
        return self.keeper.voters if self._voters is None else self._voters

    @property
    def rank(self) -> int:
        """How many voters see to something before this broker does, where one is enough."""
        before = sorted(self.voters)
        return before.index(self.broker) if self.broker in before else len(before)

    @property
    def wired(self) -> int:
        """Up to where the stream is applied, or will be when its batch is."""
        return self.keeper.commit

    def append(self, frame: Append) -> tuple[list[Entry], Gap | Nack | None]:
        """Take an `Append`, as `Keeper.append` does. `applied` must follow when each committed entry has been."""
        keeper = self.keeper
        keeper.begin(frame)
        voters = list(keeper.voters)
        committed, refusal = keeper.append(frame)
        if committed:
            self._voters = voters
        return committed, refusal

    def apply(self, event: AnyEvent, index: int) -> Outcome:
        """Apply the next committed entry."""
        if type(event) is Member and self._voters is not None:
            change(self._voters, event)
        before = self.wiring.queue_count
        outcome = self.wiring.apply(event, index, self.voters)
        more = self.wiring.queue_count - before
        self.declared += max(more, 0)
        self.deleted += max(-more, 0)
        if outcome.changed:
            self.version += 1
        if outcome.otherwise:
            self.traits.forget()
        return outcome

    def wrote(self) -> list[Entry]:
        """More of the log is on disk: the entries committed by that, as in `append`."""
        voters = list(self.keeper.voters)
        committed = self.keeper.wrote()
        if committed:
            self._voters = voters
        return committed

    def applied(self) -> None:
        """The batch has been applied."""
        self._voters = None
        if self._early:
            waiting, self._early = self._early, []
            for index, then in waiting:
                self.once_applied(index, then)

    def once_applied(self, index: int, then: Callable[[], None]) -> None:
        """Call it now, if the stream is applied here up to that index, or when it is."""
        if index <= self.keeper.commit:
            then()
        else:
            self._early.append((index, then))

    def in_step(self, then: Callable[[], None]) -> None:
        """Call it now, or when all is applied here that this broker knows to be committed: what of it is not on its
        disk yet waits for that (K5)."""
        found = self.keeper.durability
        self.once_applied(found.known if found is not None else 0, then)

    def never_mind(self, then: Callable[[], None]) -> None:
        """It is not to be called any more."""
        self._early = [waiting for waiting in self._early if waiting[1] is not then]

    def resume(
        self, keeper: Keeper, outline: ClusterOutline | None, history: StreamHistory, committed: Sequence[Entry]
    ) -> None:
        """Go on with the log of an earlier life, which `keeper` has taken up: the wiring of its last checkpoint, and
        the entries behind that which were known committed."""
        self.keeper, self.recovered = keeper, keeper.end
        self.wiring = Wiring.restore(outline.wiring) if outline is not None else Wiring()
        self.traits.forget()
        self.queue_voters = dict(outline.queue_voters) if outline is not None else {}
        self._voters = list(history.voters)
        for index, entry in enumerate(committed, history.base + 1):
            event = decode_event(entry.event)
            if event is None:
                continue
            outcome = self.apply(event, index)
            self.again.append((index, entry, event, outcome))
            if outcome.queue is not None:
                self.queue_voters.setdefault(outcome.queue.id, list(self._voters))
        self.applied()
        self.version += 1

    def restore(self, frame: UpdateStart) -> None:
        """Begin at the sync point of an update: the wiring is another broker's."""
        self.keeper.restore(frame)
        self.wiring = Wiring.restore(frame.state)
        self.traits.forget()
        self.version += 1
        self.applied()
