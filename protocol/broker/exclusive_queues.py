"""A broker's part in queues that one client has for itself: whether the client's connection is here is ordered in the
cluster stream (`wiring/exclusives.py`), and nobody else does with the queue what is its client's alone.

What the stream says and what is so are compared when a connection comes or goes, and when the stream says something
new; where they differ, what is so is ordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.events import AnyEvent, DeclareQueue, Exclusive
from ..wiring.definitions import QueueDefinition
from ..wiring.exclusives import check_owner
from ..wiring.uses import ended_by
from ..wiring.wiring import Outcome
from .cluster_state import ClusterState
from .requests import Requests
from .session import Session

COMMANDS = {
    "declare_queue": "name", "delete_queue": "name", "purge": "name", "move": "name", "bind": "queue",
    "unbind": "queue", "redirect_queue": "name",
}  # fmt: skip
"""Commands that are a queue's client's alone -> which argument is the queue's name."""


class ExclusiveQueues:
    """Args: connected: client id -> its session here, None where it has none."""

    def __init__(self, cluster: ClusterState, requests: Requests, connected: Callable[[str], Session | None]) -> None:
        self._cluster = cluster
        self._requests = requests
        self._connected = connected
        self._asked: dict[str, list[bool]] = {}  # queue id -> what is ordered and not answered yet: here, or not
        self._closed: set[str] = set()  # ids of those whose client has closed its connection here

    # ---- what is its client's alone
    #
    # A deletion or a binding is by name, and may come to a broker that does not know the queue yet: it is checked again
    # where it applies.

    def check(self, session: Session, command: str, arguments: Any) -> None:
        """Raises PeerError: `in-use`, the command is of a queue that another client has for itself."""
        if command in COMMANDS:
            self.permit(session, self._cluster.wiring.queue(getattr(arguments, COMMANDS[command])))

    def permit(self, session: Session, queue: QueueDefinition | None) -> None:
        """Raises PeerError: `in-use`, another client has the queue for itself."""
        check_owner(queue, session.client)

    # ---- whether that client is here

    def opened(self, session: Session) -> None:
        self._look(session.client)

    def ended(self, session: Session) -> None:
        if session.leaving:
            self._closed.update(self._cluster.wiring.exclusives.of.get(session.client, ()))
        self._look(session.client)

    def applied(self, event: AnyEvent, outcome: Outcome) -> None:
        """An event of the cluster stream has applied."""
        if type(event) is Exclusive:
            self._compare(self._cluster.wiring.by_id(event.queue))
        elif type(event) is DeclareQueue and event.client:
            self._compare(outcome.queue)
        elif ended_by(event) is not None:
            self.restored()

    def restored(self) -> None:
        """The wiring is another broker's, or brokers are out."""
        for client in list(self._cluster.wiring.exclusives.of):
            self._look(client)

    def _look(self, client: str) -> None:
        for id in list(self._cluster.wiring.exclusives.of.get(client, ())):
            self._compare(self._cluster.wiring.by_id(id))

    def _compare(self, queue: QueueDefinition | None) -> None:
        if queue is None:
            return
        broker, inc = self._cluster.broker, self._cluster.inc
        exclusives, session = self._cluster.wiring.exclusives, self._connected(queue.client)
        said = exclusives.present.get(queue.id)
        here = said is not None and (said.broker, said.inc) == (broker, inc)
        if asked := self._asked.get(queue.id):
            here = asked[-1]
        if session is not None and not here and exclusives.may_come(queue.id, session.life):
            self._closed.discard(queue.id)
            self._order(queue, Exclusive(queue.id, broker, inc, True, session.life))
        elif session is None and here:
            self._order(queue, Exclusive(queue.id, broker, inc, False, closed=queue.id in self._closed))

    def _order(self, queue: QueueDefinition, event: Exclusive) -> None:
        asked = self._asked.setdefault(queue.id, [])
        asked.append(event.on)

        def ordered(outcome: Outcome) -> None:
            asked.pop(0)
            if not asked:
                self._asked.pop(queue.id, None)
                self._closed.discard(queue.id)
                self._compare(self._cluster.wiring.by_id(queue.id))

        self._requests.order(event, ordered)
