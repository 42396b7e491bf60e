"""A supervisor takes over from one that has died or is out of reach. A majority of the brokers keeps what that one
knew, so a majority is asked, and the newest copy counts (`supervisor_state.py`)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ...protocol.errors import LocalError
from ...protocol.supervisor.supervision import Supervision
from ..ray_control.placement import Placement, is_supervisor
from .record import ClusterRecord
from .supervision_shell import SupervisionShell
from .supervisor_state import SupervisorState

log = logging.getLogger(__name__)

RECALL_S = 2.0
NAMES_S = 10.0
"""Killed actors keep their names for a moment."""


class Takeover:
    def __init__(
        self,
        record: ClusterRecord,
        placement: Placement,
        supervision: Supervision,
        shell: SupervisionShell,
        resign: Callable[[str], None],
    ) -> None:
        self._record = record
        self._placement = placement
        self._supervision = supervision
        self._shell = shell
        self._resign = resign

    async def run(self, packed: bytes) -> SupervisorState:
        """Wait until a majority of the brokers takes this one for the supervisor, learn what the last one knew, and end
        the actors it did not know; returns what it knew.

        Raises:
            LocalError: another one supervises; this process ends.
        """
        record = self._record
        state = SupervisorState.unpacked(packed)
        record.cluster, record.plan, record.book = state.cluster, state.plan, state.handles(self._placement)
        record.inherited = state.change
        timing = self._supervision.timing = record.config.timing
        await self._shell.elected(timing.elected_ms / 1000)
        state = await self._newest(state)
        record.cluster, record.secret, record.version = state.cluster, state.secret, state.version
        record.plan, record.began = state.plan, state.began
        record.book = state.handles(self._placement)
        record.numbers.update(state.numbers)
        record.store_failures.inherit(state.down)
        await self._end_unknown()
        for name in record.book.half_started():
            self._shell.dead(name)
        return state

    async def _newest(self, state: SupervisorState) -> SupervisorState:
        """The broker that started this supervisor may have missed the last word: a broker that has left would then be
        healed back, and one that joins would not be known. A majority was told of a change, so a majority is asked.

        Raises:
            LocalError: too few answer.
        """
        record = self._record
        until = time.monotonic() + self._supervision.timing.elected_ms / 1000
        while time.monotonic() < until:
            book = record.book
            brokers = book.of("BrokerNode")
            calls = (book[broker].handle.call("recall", timeout_s=RECALL_S) for broker in brokers)
            found = await asyncio.gather(*calls, return_exceptions=True)
            others = [SupervisorState.unpacked(packed) for packed in found if isinstance(packed, bytes)]
            newest = max([state, *others], key=lambda one: one.age)
            if newest.age > state.age:
                state, record.book = newest, newest.handles(self._placement)  # its brokers are those that count
                record.inherited = state.change
            elif self._supervision.enough(
                b for b, said in zip(brokers, found, strict=True) if not isinstance(said, BaseException)
            ):
                return state
            try:
                await self._shell.confirmed()
            except LocalError as error:
                log.warning("what the last supervisor knew is not known yet: %(reason)s", {"reason": error})
        reason = "too few brokers say what the last supervisor knew: another one is to try"
        self._resign(reason)
        raise LocalError(reason)

    async def _end_unknown(self) -> None:
        """End the actors that were started after the state was kept: known to Ray by name, not to the supervisor."""
        book, placement = self._record.book, self._placement
        ended: set[str] = set()
        for name in placement.names():
            if is_supervisor(name) or (handle := placement.find(name)) is None:
                continue
            if name not in book or handle.id != book[name].handle.id:
                handle.kill()
                ended.add(name)
        until = time.monotonic() + NAMES_S
        while ended & set(placement.names()) and time.monotonic() < until:
            await asyncio.sleep(0.05)
