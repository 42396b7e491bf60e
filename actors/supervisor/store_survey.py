"""Where stores are: each node is asked what its directory holds, before any process is started for a store.

A look reads `store.json` of each folder and no more, so nothing is locked and nothing changed. Nodes that see the same
file system (several nodes of one machine, a volume that all mount) see the same stores: each is found once, by what the
file system says of its file.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import msgspec

from ...protocol.errors import LocalError, StoreError
from ...protocol.supervisor.layout import Node
from ...store.identity import FILE, StoreIdentity, stores_in, try_directory
from ...store.shadow_files import system_files
from ..ray_control.placement import Placement, alive_nodes, broker_nodes
from .record import ClusterRecord

ASK_S = 15.0
"""A node that has no process to spare starts one first, and a disk may stand still for seconds."""
BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class FoundStore:
    """A broker's folder on a node.

    Attributes:
        node: the node where its process would run.
        identity: what it says of itself; None where it cannot be read.
        code, text: of the `StoreError` for which it cannot be read, "" for none.
    """

    node: Node
    broker: str
    identity: StoreIdentity | None
    code: str = ""
    text: str = ""


@dataclass(frozen=True)
class Surveyed:
    """What all nodes have said.

    Attributes:
        stores: each store once.
        founding: those of `stores`' kind in which nothing is yet: they count as empty.
        free: nodes whose directory has no store, one for each file system.
        nodes: the nodes that have answered.
        unusable: node -> why its directory cannot be read: code and text.
    """

    stores: tuple[FoundStore, ...]
    free: tuple[Node, ...]
    nodes: tuple[Node, ...]
    unusable: tuple[tuple[Node, str, str], ...] = ()
    founding: tuple[FoundStore, ...] = ()

    def of(self, broker: str) -> list[FoundStore]:
        """A broker's stores, the one that was used last first."""
        mine = [one for one in self.stores if one.broker == broker]
        return sorted(mine, key=lambda one: -(one.identity.life if one.identity is not None else 0))


class StoreSurvey:
    """
    Args:
        placement: asks nodes.
    """

    def __init__(self, record: ClusterRecord, placement: Placement) -> None:
        self._record = record
        self._placement = placement

    async def found(self) -> Surveyed:
        """Ask every node that may carry brokers. One that does not answer in time is left out."""
        nodes, directory = broker_nodes(await asyncio.to_thread(alive_nodes)), self._record.config.store.data
        said = await asyncio.to_thread(
            self._placement.ask_nodes, [node.id for node in nodes], look_into, directory, timeout_s=ASK_S
        )
        return sorted_out([(node, said[node.id]) for node in nodes if node.id in said])


def check_here(data: str, events: str) -> None:
    """Whether this machine can write where stores and events are to be kept, "" for nowhere.

    Raises:
        LocalError: it cannot, and what to do.
    """
    if data:
        try_directory(data)
    if events and "://" not in events:
        try:
            try_directory(events)
        except StoreError as error:
            raise LocalError(f"events cannot be kept: {error.text} (`mantamq up --events`; off: none)") from None


def look_into(directory: str) -> dict[str, Any]:
    """What a node says of its directory, as plain values: it runs there, in a process of its own.

    Returns:
        "system": the file system; "error": code and text, if the directory cannot be read; "stores": broker ->
        "identity" or "error", and "file", which tells it from any other store's of this machine.
    """
    files = system_files()
    try:
        found = stores_in(files, directory)
    except StoreError as error:
        return {"system": _file(directory), "error": (error.code, error.text), "stores": {}}
    stores: dict[str, Any] = {}
    for broker, one in found.items():
        if isinstance(one, StoreError):
            stores[broker] = {"error": (one.code, one.text), "file": _file(f"{directory}/{broker}")}
        elif one.life:  # else it is empty
            said = msgspec.to_builtins(one)
            stores[broker] = {"identity": said, "file": _file(f"{directory}/{broker}/{FILE}")}
    return {"system": _file(directory), "error": None, "stores": stores}


def sorted_out(said: list[tuple[Node, dict[str, Any]]]) -> Surveyed:
    """What nodes have said, each store once: best on the node where it was last."""
    stores: dict[tuple[str, str], FoundStore] = {}
    systems: dict[str, list[Node]] = {}
    full: set[str] = set()
    unusable: list[tuple[Node, str, str]] = []
    for node, answer in said:
        systems.setdefault(answer["system"], []).append(node)
        if answer["error"] is not None:
            unusable.append((node, *answer["error"]))
            full.add(answer["system"])
        for broker, one in answer["stores"].items():
            full.add(answer["system"])
            code, text = one.get("error") or ("", "")
            identity = msgspec.convert(one["identity"], StoreIdentity) if "identity" in one else None
            found = FoundStore(node, broker, identity, code, text)
            key = (broker, one["file"])
            if key not in stores or (identity is not None and identity.node == node.host):
                stores[key] = found
    free = tuple(nodes[0] for system, nodes in systems.items() if system not in full)
    founding = {key: one for key, one in stores.items() if one.identity is not None and one.identity.counts_as_empty}
    real = tuple(one for key, one in stores.items() if key not in founding)
    return Surveyed(real, free, tuple(node for node, _ in said), tuple(unusable), tuple(founding.values()))


def _file(path: str) -> str:
    """What tells a file from all others of this machine; of one that is not there, its nearest folder."""
    while True:
        try:
            found = os.stat(path)
            break
        except OSError:
            path = os.path.dirname(path)
    try:
        with open(BOOT) as file:
            boot = file.read().strip()
    except OSError:
        boot = os.uname().nodename
    return f"{boot} {found.st_dev} {found.st_ino}"
