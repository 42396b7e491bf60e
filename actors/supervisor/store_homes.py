"""Where a broker with a store is started again: where its directory is. A host that has gone may come back, with all
that the broker has said to others on its disk, so it is waited for; then the broker begins elsewhere, blank.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...protocol.errors import LocalError
from ...protocol.supervisor.layout import Node
from ...store.identity import StoreState
from .nodes import Nodes
from .record import ClusterRecord
from .store_survey import StoreSurvey

log = logging.getLogger(__name__)


class NotYet(LocalError):
    """A broker is not started again yet: its disk may come back."""


class StoreHomes:
    """
    Args:
        now: the time, in seconds.
        survey: looks for its directory on other nodes.

    Attributes:
        awaited: broker -> why it is not started yet, in words.
    """

    def __init__(
        self, record: ClusterRecord, nodes: Nodes, now: Callable[[], float] = time.monotonic,
        survey: StoreSurvey | None = None,
    ) -> None:  # fmt: skip
        self.awaited: dict[str, str] = {}
        self._record = record
        self._nodes = nodes
        self._survey = survey
        self._now = now
        self._missed_s: dict[str, float] = {}

    async def of(self, broker: str) -> Node:
        """The node to start it on.

        Raises:
            NotYet: the node with its directory does not answer, and has been away for too short a time.
        """
        entry, wait_s = self._record.book[broker], self._record.config.store.node_wait_s
        answering = await self._nodes.answering()
        # Ray's node ids are new after a node was started again; a host's nodes have the same file system.
        for same in ([n for n in answering if n.id == entry.node], [n for n in answering if n.host == entry.host]):
            if same:
                self._found(broker)
                return same[0]
        for one in (await self._survey.found()).of(broker) if self._survey is not None else ():
            own = one.identity
            if own is not None and own.cluster == self._record.cluster and own.status is not StoreState.LEFT:
                self._found(broker)
                return one.node
        now_s = self._now()
        missed_s = self._missed_s.setdefault(broker, now_s)
        where = f"the host of broker {broker}'s store ({entry.host or 'not known'}) does not answer"
        if now_s == missed_s:
            log.warning(
                "%(where)s: it is waited for, for %(wait_s)g s in all",
                {"where": where, "broker": broker, "wait_s": wait_s},
            )
        if now_s - missed_s < wait_s:
            self.awaited[broker] = f"{where}: it is waited for ({wait_s:g} s in all), then {broker} begins elsewhere"
            raise NotYet(self.awaited[broker])
        node = await self._nodes.for_broker("")
        log.warning(
            "%(where)s for %(waited_s)g s: %(broker)s begins on %(new_host)s, without what it had",
            {"where": where, "waited_s": wait_s, "broker": broker, "new_host": node.host},
        )
        self._found(broker)
        return node

    def _found(self, broker: str) -> None:
        self._missed_s.pop(broker, None)
        self.awaited.pop(broker, None)
