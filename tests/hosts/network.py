"""A small network of hosts on this machine: network namespaces on a bridge, each with an address of its own.

A cut is a real one: packets vanish, and nobody is told. It is made inside the host, with nftables, so it may take one
direction or one other host only. Whoever makes a network takes it away again, and what ran in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time

PREFIX = "mantah"
BRIDGE = "mantahosts0"
LINK = "mantahv"
NETWORK = "10.78.0"
OUTSIDE = f"{NETWORK}.254"
"""This process's own address on the bridge: it is a host that is never cut."""
LOCK = "/run/lock/mantamq-hosts" if os.path.isdir("/run/lock") else "/tmp/mantamq-hosts.lock"
TURN_S = 200.0
GONE_S = 10.0


def why_not() -> str:
    """Why no such network can be made here; "" when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "nft") if not shutil.which(tool)]
    if missing:
        return f"not installed: {', '.join(missing)} (`make hosts` installs iproute2 and nftables where it may)"
    name = f"{PREFIX}try"
    tries = (f"ip netns add {name}", f"ip netns exec {name} nft add table inet try")
    try:
        for words in tries:
            done = subprocess.run(words.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                return f"this machine allows no `{words}`: {done.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


class Network:
    """There is one at a time on a machine: who comes second waits.

    Attributes:
        hosts: their names, h1 and on.
    """

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self._lock = _locked()
        clear()
        try:
            _run(f"ip link add {BRIDGE} type bridge")
            _run(f"ip addr add {OUTSIDE}/24 dev {BRIDGE}")
            _run(f"ip link set {BRIDGE} up")
        except BaseException:
            clear()
            raise

    def add(self) -> str:
        """Another host; returns its name."""
        number = len(self.hosts) + 1
        host, space = f"h{number}", f"{PREFIX}{number}"
        self.hosts.append(host)
        _run(f"ip netns add {space}")
        _run(f"ip link add {LINK}{number} type veth peer name eth0 netns {space}")
        _run(f"ip link set {LINK}{number} master {BRIDGE} up")
        _run(f"ip -n {space} addr add {self.address(host)}/24 dev eth0")
        _run(f"ip -n {space} link set eth0 up")
        _run(f"ip -n {space} link set lo up")
        # Programs find their own address by asking for a way to anywhere.
        _run(f"ip -n {space} route add default via {OUTSIDE}")
        return host

    def address(self, host: str) -> str:
        return f"{NETWORK}.{host[1:]}"

    def inside(self, host: str) -> list[str]:
        """What to put before a command that is to run on this host."""
        return ["ip", "netns", "exec", f"{PREFIX}{host[1:]}"]

    def cut(self, host: str, to: tuple[str, ...] = (), way: str = "both") -> None:
        """Let packets of this host vanish, until `heal`.

        Args:
            to: only those to and from these hosts; () for everybody's.
            way: "both", "out" (what it sends) or "in" (what it would receive).
        """
        # The table is made anew: a second cut replaces the first.
        rules = ["add table inet cut", "delete table inet cut", "add table inet cut"]
        for one in ("in", "out") if way == "both" else (way,):
            hook, side, device = ("output", "daddr", "oifname") if one == "out" else ("input", "saddr", "iifname")
            where = f"ip {side} {{ {', '.join(map(self.address, to))} }} " if to else ""
            rules.append(f"add chain inet cut {one} {{ type filter hook {hook} priority 0 ; }}")
            rules.append(f"add rule inet cut {one} {device} != lo {where}drop")
        self._nft(host, "\n".join(rules))

    def heal(self, host: str) -> None:
        """Let its packets through again."""
        self._nft(host, "add table inet cut\ndelete table inet cut")

    def _nft(self, host: str, rules: str) -> None:
        subprocess.run([*self.inside(host), "nft", "-f", "-"], input=rules, text=True, check=True, capture_output=True)

    def pids(self, host: str) -> list[int]:
        """The processes that run on this host."""
        return _pids(f"{PREFIX}{host[1:]}")

    def signal(self, host: str, which: signal.Signals) -> None:
        for pid in self.pids(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)

    def kill(self, host: str) -> None:
        """Every process of this host, at once; its packets vanish first, so that nobody hears of it."""
        self.cut(host)
        _end(f"{PREFIX}{host[1:]}")

    def close(self) -> None:
        clear()
        os.close(self._lock)


def _locked() -> int:
    """Wait until no other process has hosts here. The lock ends with its process."""
    file = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + TURN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(file)
                raise RuntimeError(f"another process has hosts here and kept them for {TURN_S:g} s") from None
        time.sleep(0.2)


def clear() -> None:
    """Take away what this or an earlier run made, and end what runs there."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    spaces = [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX)]
    for space in spaces:
        _end(space)
        subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
    # A namespace goes when its last process has gone, and its end of a pair with it: some time later.
    listed = subprocess.run(["ip", "-o", "link", "show"], capture_output=True, text=True, check=False).stdout
    names = [line.split()[1].partition("@")[0].rstrip(":") for line in listed.splitlines()]
    for link in [name for name in names if name.startswith(LINK)] + [BRIDGE]:
        subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)


def _end(space: str) -> None:
    until = time.monotonic() + GONE_S
    while (pids := _pids(space)) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _pids(space: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def _run(words: str) -> None:
    subprocess.run(words.split(), check=True, capture_output=True)
