"""The initial status exchange, carried out: stores are looked for and opened, and nothing serves before it is decided
what they are (`durable.md` 4; decided in `../../protocol/supervisor/stores.py`).

    every node says what its directory holds -> a process for each store reads it, and says what it has
    -> begin, go on, wait and look again, or refuse

A store that is refused by its `store.json` alone is not read. Nothing is locked or written before it is decided, so a
start that is refused leaves every directory as it was.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter

from msgspec.structs import replace

from ...protocol.errors import LocalError
from ...protocol.machine import store_of
from ...protocol.supervisor.layout import Layout, Node
from ...protocol.supervisor.store_words import LEFT, StartWish, StoreWord
from ...protocol.supervisor.stores import AwaitStores, BeginCluster, RefuseStart, ResumeCluster, decide
from .launcher import BROKER, VERIFY_S, Launcher
from .plan import number_of
from .record import ClusterRecord
from .store_survey import FoundStore, StoreSurvey, Surveyed

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks, while stores are waited for."""
NEEDED_S = 300.0
"""Stores without which nothing can start are waited for so long, as RabbitMQ waits for its peers."""


class StoreStart:
    """
    Args:
        look_s: between two looks.

    Attributes:
        nodes: broker -> the node of its store, once it is decided.
    """

    def __init__(self, record: ClusterRecord, launcher: Launcher, survey: StoreSurvey, look_s: float = LOOK_S) -> None:
        self.nodes: dict[str, Node] = {}
        self._record = record
        self._launcher = launcher
        self._survey = survey
        self._look_s = look_s
        self._opened: dict[str, tuple[Node, StoreWord]] = {}  # by the processes that have read them
        self._places: dict[tuple[str, str], Node] = {}  # where a word is from -> the node

    @property
    def _data(self) -> str:
        return self._record.config.store.data

    async def run(self, births: Layout, needed_s: float = NEEDED_S) -> ResumeCluster | None:
        """Decide, wait if there is something to wait for, and have a process for each store that takes part.

        Args:
            births: where brokers go if a cluster begins.
            needed_s: how long stores are waited for that are needed.

        Returns:
            What to go on with; None: a cluster begins.

        Raises:
            LocalError: nothing can start: why, and what to do.
        """
        try:
            return await self._decided(births, needed_s)
        except BaseException:
            for broker in list(self._opened):
                self._let_go(broker)
            raise

    async def _decided(self, births: Layout, needed_s: float) -> ResumeCluster | None:
        chosen, began = self._record.config.store, time.monotonic()
        told = ""
        while True:
            survey = await self._survey.found()
            waited_s = time.monotonic() - began
            wish = StartWish(
                brokers=self._record.plan.asked, restart=chosen.restart, wait_for=chosen.wait_for,
                waited=waited_s >= chosen.wait_s,
            )  # fmt: skip
            verdict = decide(await self._words(survey, births), wish)
            deed = verdict.deed
            if isinstance(deed, RefuseStart):
                raise LocalError(deed.text)
            if not isinstance(deed, AwaitStores):
                break
            if waited_s >= max(needed_s, chosen.wait_s):
                raise LocalError(
                    f"{deed.text}; they did not come within {waited_s:.0f} s: start their nodes, or put their disks "
                    "back, and start again"
                )
            if deed.text != told:
                told = self._record.stage = deed.text
                log.warning("stores are waited for: %(reason)s", {"reason": told})
            await asyncio.sleep(self._look_s)
        self._record.notes += [one.text for one in verdict.refused]
        self._note_numbers(survey)
        if isinstance(deed, BeginCluster):
            self._record.notes.append(deed.warning)
            self.nodes = {broker: node for broker, (node, _) in self._opened.items()}
            return None
        await self._take_part(deed)
        return deed

    async def _take_part(self, deed: ResumeCluster) -> None:
        """Exactly the stores of the verdict have a process."""
        record = self._record
        for broker in [broker for broker in self._opened if broker not in deed.stores]:
            self._let_go(broker)
        for broker, word in deed.stores.items():
            self.nodes[broker] = self._places[word.node, word.directory]
            if broker not in self._opened:
                self._launcher.new_store(broker, self.nodes[broker])
        record.cluster = deed.cluster
        record.plan = replace(record.plan, members=deed.members)
        record.config.check_ports(len(deed.members))
        log.info("the cluster %(id)s goes on with %(brokers)s", {"id": deed.cluster, "brokers": ", ".join(deed.stores)})

    def _note_numbers(self, survey: Surveyed) -> None:
        """No name is given twice: neither that of a broker that has left and whose directory is still there."""
        numbers = [number_of(one.broker) for one in survey.stores]
        known = [broker for _, word in self._opened.values() for broker in word.last_nodes]
        self._record.numbers[BROKER] = max(
            [self._record.numbers.get(BROKER, 0), *numbers, *(number_of(broker) for broker in known)]
        )

    # ---- what is said

    async def _words(self, survey: Surveyed, births: Layout) -> list[StoreWord]:
        """A word for each store, and for each directory without any."""
        there = {node.id for node in survey.nodes}
        for broker in [broker for broker, (node, _) in self._opened.items() if node.id not in there]:
            self._let_go(broker)
        words = [self._word(node.host, self._data, "", code, text) for node, code, text in survey.unusable]
        if not survey.stores:
            if words:
                return words
            if not all(node.id in there for node in births.brokers.values()):
                return []  # what is there is not known
            return list(await asyncio.gather(*(self._look(*birth) for birth in births.brokers.items())))
        first, others = _to_open(survey)
        words += [self._unopened(one) for one in (*others, *survey.founding)]
        words += await asyncio.gather(*(self._look(one.broker, one.node) for one in first))
        for node in survey.free:
            words.append(StoreWord(node=node.host, directory=self._data))
            self._places[node.host, self._data] = node
        return words + self._lost(survey, words)

    def _lost(self, survey: Surveyed, words: list[StoreWord]) -> list[StoreWord]:
        """Members whose directory is gone from the node where it was, which has answered."""
        hosts = {node.host: node for node in reversed(survey.nodes)}
        lasts: dict[str, str] = {}
        for word in sorted(words, key=lambda word: word.voters[0].index if word.voters else -1):
            lasts |= word.last_nodes
        found: list[StoreWord] = []
        for broker, host in lasts.items():
            if host in hosts and not survey.of(broker):
                directory = f"{self._data}/{broker}"
                found.append(StoreWord(node=host, directory=directory, broker=broker))
                self._places[host, directory] = hosts[host]
        return found

    def _word(self, host: str, directory: str, broker: str, code: str, text: str) -> StoreWord:
        return StoreWord(node=host, directory=directory, broker=broker, status="dirty", code=code, text=text)

    def _unopened(self, one: FoundStore) -> StoreWord:
        """What a store's `store.json` says."""
        host, directory, own = one.node.host, f"{self._data}/{one.broker}", one.identity
        if own is None:
            return self._word(host, directory, one.broker, one.code, one.text)
        self._places[host, directory] = one.node
        if own.counts_as_empty:
            return StoreWord(node=host, directory=directory, broker=one.broker, founding=own.cluster, life=own.life)
        return StoreWord(
            node=host, directory=directory, broker=one.broker, store=own.store, cluster=own.cluster,
            status=own.status.value, shutdown=own.shutdown, format=own.format, minor=own.minor, life=own.life,
        )  # fmt: skip

    async def _look(self, broker: str, node: Node) -> StoreWord:
        """Have a process read a store, and say what it has; one that is refused has none."""
        known = self._opened.get(broker)
        if known is not None and known[0] == node:
            return known[1]
        if known is not None:
            self._let_go(broker)
        name = store_of(broker)
        self._launcher.new_store(broker, node)
        try:
            await self._launcher.verify(name, VERIFY_S)
            word = await self._launcher.look(broker)
        except LocalError as error:
            self._launcher.drop(name)
            text = f"the process of the store of {broker} does not start on {node.host}: {error}"
            return self._word(node.host, f"{self._data}/{broker}", broker, "store-unusable", text)
        if word.code:
            self._launcher.drop(name)
        else:
            self._opened[broker] = node, word
            self._places[word.node, word.directory] = node
        return word

    def _let_go(self, broker: str) -> None:
        del self._opened[broker]
        self._launcher.drop(store_of(broker))


def _to_open(survey: Surveyed) -> tuple[list[FoundStore], list[FoundStore]]:
    """The stores to open, at most one of a broker, and those that are judged by what their `store.json` says."""
    clusters = Counter(one.identity.cluster for one in survey.stores if one.identity is not None)
    most = max(clusters.values(), default=0)
    ours = {cluster for cluster, count in clusters.items() if count == most}
    first: list[FoundStore] = []
    for broker in {one.broker: None for one in survey.stores}:
        mine = [
            one for one in survey.of(broker)
            if one.identity is not None and one.identity.cluster in ours and one.identity.status.value != LEFT
        ]  # fmt: skip
        lives = [one.identity.life for one in mine if one.identity is not None]
        if mine and lives.count(lives[0]) == 1:  # of two that were used last at once neither counts
            first.append(mine[0])
    return first, [one for one in survey.stores if one not in first]
