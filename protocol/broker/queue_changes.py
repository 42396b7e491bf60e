"""What follows at a broker when a queue is declared, deleted or lost, or when the replica that keeps it dies.

Transfers, senders, receivers, questions and placements hang on a queue. Each has its own rule for that queue's end;
here is the order in which they are told.
"""

from __future__ import annotations

from ..errors import DELETED, LOST, NOT_FOUND, UNAVAILABLE
from ..limits import DEFAULT, Limits
from ..log.outbox import FollowerOutbox
from ..machine import WantSpare
from ..wire.deletion_events import Dissolved
from ..wire.events import AnyEvent, DeleteExchange, DeleteQueue, Evict, Lost, encode_event
from ..wiring.definitions import QueueDefinition
from ..wiring.wiring import Outcome
from .auto_deletion import why_gone
from .cluster_state import ClusterState
from .dissolutions import Dissolutions
from .gone_queues import lost_text
from .lifecycle import Lifecycle
from .questions import Questions
from .queue_placement import INCARNATIONS_PER_BROKER, QueuePlacement
from .rearrangements import Rearrangements
from .receivers import Receivers
from .requests import Requests
from .senders import Senders
from .transfers import Transfers
from .verdicts import OVER


class QueueChanges:
    """The parts of one broker that hang on its queues."""

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        lifecycle: Lifecycle,
        placement: QueuePlacement,
        questions: Questions,
        transfers: Transfers,
        senders: Senders,
        receivers: Receivers,
        dissolutions: Dissolutions,
        limits: Limits = DEFAULT,
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._lifecycle = lifecycle
        self._placement = placement
        self._questions = questions
        self._transfers = transfers
        self._senders = senders
        self._receivers = receivers
        self._dissolutions = dissolutions
        self._rearrangements = Rearrangements(cluster, requests, limits)

    def restored(self) -> None:
        """The wiring is another broker's, or an earlier life's."""
        self._rearrangements.restored()

    def rewired(self, event: AnyEvent, outcome: Outcome, index: int) -> None:
        """The event at `index` of the cluster stream has changed the wiring."""
        for name in outcome.gone:
            why = "" if type(event) is DeleteExchange and event.name == name else ", as nothing is bound to it any more"
            text = f"exchange {name!r} was deleted{why}: declare it and open another sender"
            self._senders.end_all(name, None, NOT_FOUND, text)
        self._rearrangements.tell(queue for queue in outcome.otherwise if queue.changed == index)
        definition = outcome.queue
        if definition is None:
            return
        if type(event) is DeleteQueue:
            why = why_gone(definition) if event.vacant else OVER if event.id else "was deleted"
            stays = definition.id in self._cluster.wiring.dissolving
            if not stays:
                self._transfers.deleted(definition.id)
            self._unknown(definition, DELETED, f"queue {definition.name!r} {why}")
            if stays:
                self._dissolutions.begun(definition)
            else:
                self._placement.forget(definition.id)
        elif type(event) is Dissolved:  # until now it has said what becomes of what was sent to it before
            self._transfers.deleted(definition.id)
            self._placement.forget(definition.id)
        elif type(event) is Lost:
            self._transfers.lost.add(definition.id)
            self._transfers.verdicts.gone(definition.id)
            self._questions.undeclared(definition.id, LOST, lost_text(definition.name))
            self._unknown(definition, LOST, lost_text(definition.name))
            self._placement.forget(definition.id)
        else:
            self._placement.declared(definition, index, self._lifecycle.may_have_kept(definition, index))

    def _unknown(self, definition: QueueDefinition, code: str, text: str) -> None:
        """Nobody finds the queue any more."""
        self._receivers.undeclared(definition.id, code, text)
        self._senders.end_all("", definition.name, code, text)

    def replica_lost(self, replica: str) -> None:
        """A replica has died: what its consumers held goes back, and others keep its queues from now on."""
        self._questions.lost(replica)
        lost = self._placement.lost(replica)
        if self._placement.exhausted:
            self._lifecycle.retire(f"{INCARNATIONS_PER_BROKER} replicas have died under it: it begins anew")
        text = "the broker's replica of this queue has stopped: attach again, or use another broker"
        for id, _ in lost:
            self._receivers.detach_all(id, UNAVAILABLE, text)
        if lost:
            parts = [(id, encode_event(Evict(self._cluster.broker, inc))) for id, inc in lost]
            self._requests.request(parts, lambda: None)
        for id, _ in lost:
            definition = self._cluster.wiring.kept(id)
            if definition is not None:
                self._placement.move(definition)
        self._outbox.effects.append(WantSpare())
