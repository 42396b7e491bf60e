"""A cluster is stopped from outside: by its supervisor, which closes stores clean; by the next one, when that one dies
in the middle; and where none can be reached, whatever is left of it is ended, as a power cut ends it.

That nothing goes on running is known only when Ray has no actor of the cluster any more: else it is said that it may.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

from ...protocol.errors import LocalError
from ...protocol.machine import broker_of, is_store
from ..config import ClusterBook
from ..ray_control.ray_handles import ActorDied, Handle
from .address_book import is_broker
from .clean_stop import STOP_CLEAN_S
from .record import STARTING
from .supervisor import STOP_S

log = logging.getLogger(__name__)

NEXT_S = 20.0
"""How long brokers have to start the next supervisor."""
GONE_S = 15.0
"""How long Ray may take to end what is left, and to hear of a node that has died."""
LOOK_S = 0.2


class Names(Protocol):
    """What is asked of Ray: as `Placement`."""

    def supervisor(self) -> Handle | None: ...
    def names(self) -> list[str]: ...
    def find(self, name: str) -> Handle | None: ...


class Shutdown:
    """The end of one cluster.

    Args:
        placement: where its actors are named.
        supervisor: the one that is known.
        brokers: with a store, as far as is known: they are not closed clean unless the supervisor says so.
        next_s, gone_s: how long the next supervisor, and the end of what is left, are waited for.

    Attributes:
        pids: of the processes that were to be ended, by name, as far as is known.
    """

    def __init__(
        self, placement: Names, supervisor: Handle, brokers: Collection[str] = (), next_s: float = NEXT_S,
        gone_s: float = GONE_S,
    ) -> None:  # fmt: skip
        self._placement = placement
        self._supervisor = supervisor
        self._stored = set(brokers)
        self._next_s = next_s
        self._gone_s = gone_s
        self._told = ""
        self.pids: dict[str, int] = {}

    def run(self, now: bool = False) -> list[str]:
        """End all actors; returns the brokers whose stores were not closed clean.

        Args:
            now: as a power cut would.

        Raises:
            LocalError: some of them may go on running, and why.
        """
        until = time.monotonic() + (0.0 if now else self._next_s)
        one, tried, dead = self._supervisor, set[str](), set[str]()
        while True:
            if one.id not in dead and (one.id not in tried or time.monotonic() < until):
                tried.add(one.id)
                try:
                    unclean, ended = self._by(one, now)
                except ActorDied as error:
                    dead.add(one.id)
                    self._tell(one, error)
                except LocalError as error:  # it may have been slow, and no more: it is asked again
                    self._tell(one, error)
                else:
                    return sorted({*unclean, *self._end_what_is_left(ended)})
            found: Handle | None = self._asked(self._placement.supervisor)
            one = found if found is not None else one
            if one.id in tried:
                if time.monotonic() >= until or not any(map(is_broker, self._asked(self._placement.names))):
                    return sorted(self._stored.union(self._end_what_is_left()))
                time.sleep(LOOK_S)

    def _tell(self, supervisor: Handle, error: LocalError) -> None:
        if (text := f"{supervisor.name}: {error}") != self._told:
            self._told = text
            log.warning(
                "%(member)s has not stopped the cluster: %(reason)s", {"member": supervisor.name, "reason": error}
            )

    def _by(self, supervisor: Handle, now: bool) -> tuple[list[str], Collection[str]]:
        """Have a supervisor stop it, then end that; returns who has no clean store, and whom it knew."""
        book: ClusterBook = supervisor.call_now("book_now", timeout_s=STOP_S)
        if book.stage == STARTING:
            raise LocalError("it has not taken over yet: it does not know what there is to stop")
        self.pids |= book.pids
        supervisor.call_now("stop", *([now] if now else []), timeout_s=5 * STOP_S + STOP_CLEAN_S)
        unclean = self._unclean_by(supervisor, book)
        supervisor.end_now()
        return unclean, book.pids

    def _unclean_by(self, supervisor: Handle, book: ClusterBook) -> list[str]:
        """It has stopped the cluster: that it does not say which stores are clean changes nothing of that."""
        try:
            return supervisor.call_now("unclean", timeout_s=STOP_S)
        except Exception as error:  # of an older version Ray's handle knows no such method
            log.warning(
                "%(member)s does not say which stores are clean: %(reason)r",
                {"member": supervisor.name, "reason": error},
            )
            return sorted(self._stored.union(broker_of(name) for name in book.pids if is_store(name)))

    def _end_what_is_left(self, known: Collection[str] = ()) -> set[str]:
        """No supervisor can be reached, or the one that stopped the cluster knew of some only. Supervisors go first:
        they would replace what ends.

        Args:
            known: those that a supervisor has ended: what is to be said of their stores, it has said.

        Returns:
            The brokers of the others with a store.
        """
        until = time.monotonic() + self._gone_s
        ended: set[str] = set()
        while names := sorted(self._asked(self._placement.names), key=lambda name: "supervisor" not in name):
            if time.monotonic() > until:
                raise LocalError(
                    f"the cluster may go on running: no supervisor of it can be reached, and Ray has not ended "
                    f"{', '.join(names)} within {self._gone_s:g} s; see `mantamq status`, and stop it again"
                )
            for name in names:
                handle = self._asked(lambda name=name: self._placement.find(name))
                if handle is not None:
                    handle.kill()
            ended.update(names)
            time.sleep(LOOK_S)
        if ended := ended.difference(known):
            log.warning("no supervisor has ended %(members)s: that is done", {"members": ", ".join(sorted(ended))})
        return {broker_of(name) for name in ended if is_store(name)}

    def _asked(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:
            raise LocalError(
                f"the cluster may go on running: neither its supervisor nor Ray can be asked ({error}); see "
                "`mantamq status`, and stop it again when Ray is back"
            ) from error
