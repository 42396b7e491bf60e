"""Replaces what dies: each actor in its turn, and all at once that share no fate (`Turns`).

`supervision_shell.py` knows which actors are dead; `replacer.py` starts others in their place.
"""

from __future__ import annotations

import asyncio
import logging
import time

from ...protocol.machine import EVENTS, MANAGEMENT, broker_of, is_ownership, is_sequencer, is_store
from ...protocol.supervisor.supervision import Supervision
from ...protocol.supervisor.turns import Turns
from .announcer import Announcer
from .joiner import Joiner
from .launcher import Launcher
from .management_life import PageDown
from .reasons import WHOLE, Reason
from .record import ClusterRecord
from .replacer import Replacer
from .store_homes import NotYet, StoreHomes
from .supervision_shell import LeftAlone, SupervisionShell
from .tasks import Tasks

log = logging.getLogger(__name__)


class Healer:
    """
    Args:
        turns: the actors that are to be replaced.
        joiner: knows whether an actor that dies while its broker leaves is to come back.
        homes: whose store is waited for.
    """

    def __init__(
        self,
        record: ClusterRecord,
        supervision: Supervision,
        shell: SupervisionShell,
        turns: Turns,
        launcher: Launcher,
        replacer: Replacer,
        joiner: Joiner,
        announcer: Announcer,
        homes: StoreHomes,
    ) -> None:
        self._record = record
        self._supervision = supervision
        self._shell = shell
        self._turns = turns
        self._launcher = launcher
        self._replacer = replacer
        self._joiner = joiner
        self._announcer = announcer
        self._homes = homes
        self._tasks = Tasks()

    def begin(self) -> None:
        book = self._record.book
        for name in book:
            self._shell.mind(name)
        for broker in book.of("BrokerNode"):
            if not book[broker].serving:
                self._announcer.serve_when_joined(broker)
        if self._record.config.management.port >= 0 and MANAGEMENT not in book:
            self._turns.add(MANAGEMENT)  # it begins when everything else is there, as if it had died
        self._tasks.spawn(self._heal_all())
        self._shell.begin()

    def close(self) -> None:
        self._tasks.close()

    def under_way(self) -> list[Reason]:
        """The actors that are being replaced, and why none is."""
        names = [name for name in self._turns.names() if name not in (EVENTS, MANAGEMENT)]
        names = [name for name in names if not self._record.leaves(name)]
        awaited, failures = self._homes.awaited, self._record.store_failures
        found = [
            Reason.of("broker-awaited", name, awaited[name])
            if name in awaited
            else Reason.of("member-died", name, f"{name} has died and is being replaced")
            for name in names
            if not failures.down(broker_of(name))
        ]
        found += [Reason.of("broker-left-down", broker, why) for broker, why in failures.complaints().items()]
        if self._record.stage == "running" and not self._supervision.in_office(_now_ms()):
            text = "no majority of the brokers confirms the supervisor: nothing is replaced until one does"
            found.append(Reason.of("supervisor-unconfirmed", WHOLE, text))
        return found

    async def _heal_all(self) -> None:
        """Replace the actors that wait, all at once whose turn it is. One that failed is tried again in the next round;
        between rounds the lock is free for other starts."""
        while True:
            if not self._turns.due(self._held()):
                await asyncio.sleep(0.05)
                continue
            async with self._launcher.starting:
                tried: set[str] = set()
                under_way: set[asyncio.Task[None]] = set()
                while (names := self._turns.take(tried | self._held())) or under_way:
                    tried.update(names)
                    under_way.update(self._tasks.spawn(self._replace(name)) for name in names)
                    _, under_way = await asyncio.wait(under_way, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)

    def _held(self) -> set[str]:
        """Whose turn has not come: a page that could not start is not tried again at once, since others wait for it."""
        if MANAGEMENT not in self._turns.waiting:
            return set()
        starts, now_ms = self._record.page_starts, _now_ms()
        starts.ended(now_ms)
        return {MANAGEMENT} if starts.wait_ms(now_ms) else set()

    async def _replace(self, name: str) -> None:
        again = broker_of(name) if is_store(name) else name
        began_s = time.monotonic()
        try:
            await self._shell.confirmed()
            if await self._heal(name):
                took_ms = int((time.monotonic() - began_s) * 1000)
                log.info("%(member)s is replaced", {"member": name, "took_ms": took_ms})
            self._shell.unready.discard(name)
        except PageDown as error:
            wait_s = self._record.page_starts.wait_ms(_now_ms()) / 1000
            log.warning(
                "the page could not start, and is tried again in %(wait_s).0f s: %(reason)s",
                {"wait_s": wait_s, "reason": error},
            )
            self._turns.add(again)
        except NotYet:
            await asyncio.sleep(self._supervision.timing.replace_again_ms / 1000)
            self._turns.add(again)
        except LeftAlone as error:
            self._shell.unready.discard(name)
            log.warning("%(reason)s: it is looked at again", {"member": name, "reason": error})
            await asyncio.sleep(self._supervision.timing.replace_again_ms / 1000)
            if self._supervision.gone(name):
                self._turns.add(again)
            elif name in self._record.book.of("BrokerNode"):
                self._announcer.serve_when_joined(name)
        except Exception:
            log.exception("%(member)s could not be replaced yet", {"member": name})
            await asyncio.sleep(self._supervision.timing.replace_again_ms / 1000)
            self._turns.add(again)
        finally:
            self._turns.done(name)

    async def _heal(self, name: str) -> bool:
        """Whether there is another in its place now."""
        replacer = self._replacer
        if self._record.leaves(name) and not await self._joiner.must_return(name):
            return False
        if is_sequencer(name):
            await replacer.sequencer(name)
        elif is_ownership(name):
            await replacer.ownership(name)
        elif name == EVENTS:
            await replacer.events()
        elif name == MANAGEMENT:
            await replacer.management()
            return False  # it says by itself where it is, also when it begins
        elif name not in self._record.book:
            return False
        elif "." not in name:
            return await replacer.broker(name)
        elif is_store(name):
            return await replacer.broker(broker_of(name))
        else:
            return await replacer.replica(name)
        return True


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
