"""The memory watermark: above it the processes of a broker, all its queues together, should have no more.

Then the sequencer is told (`Pressed.memory`), and flow control holds all producers back until consumers have made room:
nobody meets the memory killer of the system first. What consumers say is never held back. Each process is told by its
shell what it has, some times a second, and more often while that rises; it tells its broker when that has changed
(`resident.py`), which judges by each such word: its own measurements may be rare while its replicas grow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..limits import Limits
from ..log.outbox import FollowerOutbox
from ..machine import Measured, store_of
from ..wire.flow_frames import Pressed, Resident
from .cluster_state import ClusterState

MIB = 1024 * 1024
LEAST_BYTES = 512 * MIB
"""No share is less: a broker's processes have most of that when they hold nothing, and on a small machine an empty
cluster would hold its producers back for good."""


class MemoryWatch:
    """
    Args:
        replicas: the broker's connected replicas, by peer.
        addresses: broker -> "host:port", of those that take clients: the brokers of one host share its memory.

    Attributes:
        bytes: what all processes of the broker have.
        most_bytes: what they may have; 0: any.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, limits: Limits, replicas: Collection[str],
        addresses: Callable[[], Mapping[str, str]],
    ) -> None:  # fmt: skip
        self.bytes = self.most_bytes = 0
        self._outbox = outbox
        self._cluster = cluster
        self._limits = limits
        self._replicas = replicas
        self._addresses = addresses
        self._own: Measured | None = None
        self._resident: dict[str, int] = {}
        self._said: str | None = None  # to the sequencer; None: nothing yet, in this life

    def heard(self, peer: str, frame: Resident) -> None:
        self._resident[peer] = frame.bytes
        self._judge()

    def measured(self, input: Measured) -> None:
        """What this process has."""
        self._own = input
        self._judge()

    def _judge(self) -> None:
        """By what all have together."""
        own, cluster, limits = self._own, self._cluster, self._limits
        if own is None:
            return
        there = {*self._replicas, store_of(cluster.broker)}
        self._resident = {peer: count for peer, count in self._resident.items() if peer in there}
        self.bytes = own.resident_bytes + sum(self._resident.values())
        self.most_bytes = limits.memory_bytes or self._part(int(limits.memory_share * own.machine_bytes))
        if not cluster.crowded and 0 < self.most_bytes < self.bytes:
            cluster.crowded = (
                f"the processes of {cluster.broker} have {self.bytes // MIB:,} MiB of memory, above the watermark of "
                f"{self.most_bytes // MIB:,} MiB, until consumers make room"
            )
        elif cluster.crowded and (not self.most_bytes or self.bytes < limits.memory_resume * self.most_bytes):
            cluster.crowded = ""
        if cluster.crowded != self._said:
            self._say()

    def attached(self) -> None:
        """Another sequencer leads, or the link to it is a new one. It may have the word of an earlier life."""
        if self._said is not None:
            self._say()

    def _say(self) -> None:
        cluster = self._cluster
        self._said = cluster.crowded
        self._outbox.lead(Pressed(cluster.broker, cluster.no_room, cluster.crowded))

    def _part(self, all_bytes: int) -> int:
        """This broker's part of what all on its host may have; 0: any."""
        return max(all_bytes // self._brokers_here(), LEAST_BYTES) if all_bytes else 0

    def _brokers_here(self) -> int:
        addresses = self._addresses()
        host = addresses.get(self._cluster.broker, "").rpartition(":")[0]
        return max(1, sum(at.rpartition(":")[0] == host for at in addresses.values()))
