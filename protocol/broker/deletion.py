"""A broker's part in deleting queues on a condition: that nobody uses them (`if_unused`), that they are empty.

First the queue is condemned (`wiring/uses.py`): that decides in the order of the cluster stream whether it is used, and
is complete when every broker that serves knows it. From there on no transfer to the queue completes at any broker, so a
look behind it, in the order of the queue's own stream, finds all that is complete. Then the queue is deleted, or it
stays, and the clients that were kept waiting hear which.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from ..errors import BUSY, IN_USE, NOT_EMPTY, NOT_FOUND, UNAVAILABLE, PeerError
from ..log.outbox import FollowerOutbox
from ..status.machines import CondemnedStatus
from ..wire.events import CLUSTER, AnyEvent, Condemn, DeleteQueue, Lift, Recount, encode_event
from ..wiring.definitions import QueueDefinition
from ..wiring.wiring import Outcome
from .cluster_state import ClusterState
from .consumers import Consumers
from .dissolutions import Dissolutions
from .requests import Requests
from .transfers import Transfers

Answer = Callable[..., Any]
Asked = Callable[[dict[str, Any]], None]
Look = Callable[[QueueDefinition, Asked], None]
"""Ask the queue's replica for its report, in the order of its stream; an "error" is in its place when the replica does
not answer in time. Raises PeerError: no replica keeps the queue here."""
WAY_OUT = "the queue stays: ask again, or delete it without if_unused and if_empty"


class Condition(NamedTuple):
    """On which a queue is deleted.

    Attributes: vacant: nobody has used it since the event at that index of the cluster stream; 0: whoever has.
    """

    if_unused: bool
    if_empty: bool
    vacant: int = 0


class Deletions:
    """The deletions on a condition that one broker's clients have asked for.

    Args:
        transfers, consumers: held while a queue is condemned, and told when that is decided.
        look: asks a queue how much is in it.
        dissolutions: know how many messages of a deleted queue go to its alternate.

    Attributes:
        since_ms: id of a queue that any broker has condemned -> when this broker heard of it.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        transfers: Transfers,
        consumers: Consumers,
        look: Look,
        dissolutions: Dissolutions,
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._transfers = transfers
        self._consumers = consumers
        self._look = look
        self._dissolutions = dissolutions
        self._numbers = count(1)
        self._later: dict[str, list[Callable[[], None]]] = {}  # queue id -> deletions that wait for another one
        self.since_ms: dict[str, int] = {}

    def ask(self, queue: QueueDefinition, condition: Condition, answer: Answer) -> None:
        cluster, requests = self._cluster, self._requests
        number = next(self._numbers)
        if cluster.versions.older:
            answer(None, UNAVAILABLE, self._upgrade(queue))
            return
        if not cluster.wiring.uses.whole:
            self._recount(answer, lambda: self.ask(queue, condition, answer))
            return

        def condemned(outcome: Outcome) -> None:
            if outcome.code == BUSY:
                self._again(queue, lambda: self.ask(queue, condition, answer))
            elif outcome.code == NOT_FOUND:
                answer(None, outcome.code, outcome.text)
            elif outcome.code:
                keep(outcome.code, outcome.text)
            elif not condition.if_empty:
                delete()
            else:
                try:
                    self._look(queue, looked)
                except PeerError as error:
                    looked({"error": error.text, "code": error.code})

        def looked(report: dict[str, Any]) -> None:
            if cluster.wiring.by_id(queue.id) is None:
                answer(None, NOT_FOUND, f"queue {queue.name!r} was deleted by another")
            elif why := _why_not(queue, report):
                keep(*why)
            else:
                delete()

        def delete() -> None:
            if cluster.versions.older:  # such a member has come since
                keep(UNAVAILABLE, self._upgrade(queue))
                return
            requests.order(self._deletion(queue, number, condition), deleted)

        def deleted(outcome: Outcome) -> None:
            """The order is by name: where another has deleted the queue and one of that name is declared anew since, it
            finds that one, which nobody has condemned."""
            if outcome.code == BUSY and cluster.wiring.by_id(queue.id) is None:
                answer(None, NOT_FOUND, f"queue {queue.name!r} was deleted by another")
            elif condition.vacant and not outcome.changed:
                keep(IN_USE, f"somebody has come to queue {queue.name!r} meanwhile")
            else:
                self.deleted(outcome, answer)

        def keep(code: str, text: str) -> None:
            """The queue stays. Lift it also where it is not condemned: another program may see that otherwise."""
            lift = Lift(queue.id, cluster.broker, cluster.inc, number)
            requests.request([(CLUSTER, encode_event(lift))], lambda: answer(None, code, text))

        unless = condition.if_unused, condition.if_empty
        requests.order(Condemn(queue.id, cluster.broker, cluster.inc, number, *unless), condemned)

    def _deletion(self, queue: QueueDefinition, number: int, condition: Condition) -> DeleteQueue:
        """What is found empty has nothing for its alternate: what comes behind the look does not count."""
        cluster, vacant = self._cluster, condition.vacant
        aside = cluster.versions.sets_aside and not condition.if_empty
        id = queue.id if vacant else ""
        return DeleteQueue(queue.name, cluster.broker, cluster.inc, number, id, vacant, aside=aside)

    def deleted(self, outcome: Outcome, answer: Answer) -> None:
        """A deletion has been ordered: answer it, with how many messages go to the queue's alternate."""
        if outcome.code or outcome.queue is None:
            answer({"changed": outcome.changed}, outcome.code, outcome.text)
        else:
            self._dissolutions.count(outcome.queue.id, lambda n: answer({"changed": True, "dead_letters": n}))

    def _recount(self, answer: Answer, then: Callable[[], None]) -> None:
        """Which brokers use which queue is not known wholly: have it told again first."""

        def told(outcome: Outcome) -> None:
            if outcome.code:
                answer(None, outcome.code, outcome.text)
            else:
                then()

        self._requests.order(Recount(), told)

    def _upgrade(self, queue: QueueDefinition) -> str:
        return (
            f"{', '.join(self._cluster.versions.older)} must be upgraded first: it does not know of conditions that "
            f"hold at every member; queue {queue.name!r} stays, delete it without if_unused and if_empty"
        )

    # ---- what waits

    def _again(self, queue: QueueDefinition, ask: Callable[[], None]) -> None:
        self._later.setdefault(queue.id, []).append(ask)
        self._go_on()  # perhaps the other deletion has been decided meanwhile

    def condemned(self) -> None:
        """A queue is condemned."""
        self._note()
        self._transfers.hold()

    def restored(self) -> None:
        """The wiring is another broker's, in which other queues may be condemned."""
        self.condemned()
        self.resolved()
        self._dissolutions.restored()

    def applied(self, event: AnyEvent, outcome: Outcome) -> None:
        """An event of the cluster stream has applied."""
        self._dissolutions.applied(event, outcome)
        if type(event) is Condemn and not outcome.code:
            self.condemned()
        elif self.since_ms and type(event) is not Recount:
            self.resolved()

    def resolved(self) -> None:
        """A queue may not be condemned any more: the transfers, consumers and deletions that waited go on."""
        self._note()
        self._transfers.resolved()
        self._consumers.resumed()
        self._go_on()

    def _note(self) -> None:
        ids, now_ms = self._cluster.wiring.uses.condemned, self._outbox.now_ms
        self.since_ms = {id: self.since_ms.get(id, now_ms) for id in ids}

    def _go_on(self) -> None:
        for id in [id for id in self._later if id not in self._cluster.wiring.uses.condemned]:
            for ask in self._later.pop(id):
                ask()

    def report(self) -> list[CondemnedStatus]:
        """The queues whose deletion is undecided."""
        now_ms = self._outbox.now_ms
        return [
            CondemnedStatus(
                queue=id.rpartition("#")[0],
                by=stands.broker,
                if_unused=stands.if_unused,
                if_empty=stands.if_empty,
                for_ms=now_ms - self.since_ms.get(id, now_ms),
            )
            for id, stands in self._cluster.wiring.uses.condemned.items()
        ]


def _why_not(queue: QueueDefinition, report: dict[str, Any]) -> tuple[str, str] | None:
    """Code and text of why a queue that was looked at is not deleted; None: it is empty."""
    if "error" in report:
        return report.get("code", UNAVAILABLE), f"{report['error']}; {WAY_OUT}"
    if "messages" not in report:
        return UNAVAILABLE, f"queue {queue.name!r} has no replica at this broker any more; {WAY_OUT}"
    if report["messages"] or report["dead_lettering"]:
        return NOT_EMPTY, f"queue {queue.name!r} has messages: purge it or delete without if_empty"
    return None
