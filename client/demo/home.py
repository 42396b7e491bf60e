"""The demo's cluster: three brokers, each with a store. It can lose its power, and comes back at the same addresses."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..cli.page import page_of

BROKERS = 3
RECONNECT_S = 180.0
"""How long clients wait for a cluster that is gone."""
_TRIES = 100


class Home:
    """A cluster in this program's own Ray, its directories below a folder that goes with it.

    Args:
        events: whether the events are kept.
        progress: called with a line of text whenever a start gets on.

    Attributes:
        addresses: of the brokers. token: what clients present.
    """

    def __init__(self, events: bool, progress: Callable[[str], None]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mantamq-demo-")
        self._events = events
        self._progress = progress
        self._port = _free_ports(BROKERS)
        self._cluster: Any = None
        self.addresses: list[str] = []
        self.token = ""

    def start(self) -> None:
        """Start it, with what its stores have.

        Raises:
            LocalError: it did not start.
        """
        from ...actors.cluster import start_cluster

        self._cluster = start_cluster(
            brokers=BROKERS, address="local", client_port=self._port, data=f"{self._folder.name}/data",
            events=f"{self._folder.name}/events" if self._events else None, progress=self._progress, management="auto",
        )  # fmt: skip
        self.addresses, self.token = list(self._cluster.addresses.values()), self._cluster.token

    def page(self) -> str:
        """Where its page is, "" where that does not come."""
        return page_of(self._cluster)

    def lose_power(self) -> None:
        """SIGKILL to every process of the cluster, and to Ray's, all at once; then start it again.

        Raises:
            LocalError: it did not start.
        """
        from ...actors.ray_control.local_ray import kill_ray

        kill_ray()
        self._events = False  # what there is to be seen of them has been seen
        self.start()

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        self._folder.cleanup()


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that are free now."""
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first: int = probe.getsockname()[1]
        if first + count <= 65_536 and all(map(_is_free, range(first, first + count))):
            return first
    raise RuntimeError(f"no {count} ports in a row are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
