"""Ray nodes that can be killed, paused and cut off: three raylets for brokers, and a head that carries none.

Where the machine allows it (root, and `ip` is there) every node lives in a network namespace of its own, and then a cut
is a real one: the node's cable is pulled, and nobody is told. Else all nodes share this machine's address and can be
killed and paused only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import psutil
import ray

os.environ.setdefault("RAY_worker_niceness", "0")
STORE_BYTES = 100 * 1024 * 1024
BRIDGE = "mantach0"
NETWORK = "10.77.0"
CLONE_NEWNET = 0x40000000
DEAD_S = 60.0


def can_cut() -> bool:
    """Whether network namespaces can be made here."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    return _ip("netns add mantach-try", check=False) == 0 and _ip("netns del mantach-try", check=False) == 0


class Nodes:
    """A Ray cluster of a head and `count` nodes that carry brokers, joined by this process.

    Attributes:
        cuttable: whether each node has a network of its own.
    """

    def __init__(self, count: int, cuttable: bool) -> None:
        from ray.cluster_utils import Cluster

        self.cuttable = cuttable
        self._names: dict[int, Any] = {}
        self._made = 0
        head: dict[str, Any] = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        options: dict[str, Any] = {}
        if cuttable:
            _clear()
            _ip(f"link add {BRIDGE} type bridge")
            _ip(f"addr add {NETWORK}.254/24 dev {BRIDGE}")
            _ip(f"link set {BRIDGE} up")
            head["node_ip_address"] = options["_node_ip_address"] = f"{NETWORK}.254"
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(count):
            self.add()
        ray.init(address=self._cluster.address, logging_level="ERROR", log_to_driver=False, **options)

    def add(self) -> int:
        """Start another node for brokers; returns its number."""
        self._made += 1
        number = self._made
        options: dict[str, Any] = {"num_cpus": 2, "object_store_memory": STORE_BYTES, "resources": {"manta_broker": 1}}
        if self.cuttable:
            name = f"mantach{number}"
            _ip(f"netns add {name}")
            _ip(f"link add mantav{number} type veth peer name eth0 netns {name}")
            _ip(f"link set mantav{number} master {BRIDGE} up")
            _ip(f"-n {name} addr add {NETWORK}.{number}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"-n {name} link set lo up")
            with _inside(name):
                self._names[number] = self._cluster.add_node(**options, node_ip_address=f"{NETWORK}.{number}")
        else:
            self._names[number] = self._cluster.add_node(**options)
        return number

    @property
    def numbers(self) -> list[int]:
        """Of the nodes that are there."""
        return sorted(self._names)

    def number(self, node_id: str) -> int:
        """Of the node with this Ray id, 0 if it is none of ours."""
        return next((number for number, node in self._names.items() if node.node_id == node_id), 0)

    def processes(self, number: int) -> list[psutil.Process]:
        """The raylet, and everything it has started."""
        node = self._names[number]
        found: list[psutil.Process] = []
        for infos in node.all_processes.values():
            for info in infos:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(info.process.pid)
                    found += [process, *process.children(recursive=True)]
        return found

    def kill(self, number: int, raylet_only: bool) -> None:
        """Kill a node at once: all of it, or its raylet, which the rest must notice. Its network goes with it."""
        processes = self.processes(number)
        if not raylet_only:
            self.signal(number, signal.SIGKILL)
        self._cluster.remove_node(self._names.pop(number), allow_graceful=False)
        psutil.wait_procs(processes, timeout=5)
        if self.cuttable:
            _ip(f"netns del mantach{number}", check=False)

    def signal(self, number: int, which: signal.Signals) -> None:
        for process in self.processes(number):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(which)

    def cut(self, number: int, cut: bool) -> None:
        """Pull the node's cable, or plug it in again."""
        _ip(f"link set mantav{number} {'down' if cut else 'up'}")

    def stop(self) -> None:
        for number in self.numbers:
            if self.cuttable:
                self.cut(number, False)
            self.signal(number, signal.SIGCONT)
        with contextlib.suppress(Exception):
            ray.shutdown()
        with contextlib.suppress(Exception):
            self._cluster.shutdown()
        if self.cuttable:
            _clear()

    def until_dead(self, node_id: str) -> bool:
        """Wait until Ray itself holds the node for dead; whether it does."""
        until = time.monotonic() + DEAD_S
        while time.monotonic() < until:
            if not any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes()):
                return True
            time.sleep(0.2)
        return False


def _ip(words: str, check: bool = True) -> int:
    return subprocess.run(["ip", *words.split()], check=check, capture_output=True).returncode


def _clear() -> None:
    """Take away what this or an earlier run made."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        if line.startswith("mantach"):
            _ip(f"netns del {line.split()[0]}", check=False)
    _ip(f"link del {BRIDGE}", check=False)


@contextlib.contextmanager
def _inside(name: str) -> Iterator[None]:
    """This thread, and what it starts, in a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"no way into network namespace {name}")
        yield
    finally:
        libc.setns(here, CLONE_NEWNET)
        os.close(here)
        os.close(there)
