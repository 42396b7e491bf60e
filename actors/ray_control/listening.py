"""Where programs can listen on this machine: known before they are started."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...protocol.errors import LocalError

WORKER_PORTS_END = 20_000
"""Ray gives its workers ports below this."""
PORT_TRIES = 50


def check_bind(host: str) -> None:
    """Raises LocalError: `host` is no address of this machine, so no broker could listen there."""
    try:
        for family, kind, protocol, _, where in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(where)
    except (OSError, UnicodeError) as error:  # the latter where a name is too long
        why = getattr(error, "strerror", error)
        text = f"nobody can listen on {host} here ({why}): bind an address of this machine (--bind, bind=)"
        raise LocalError(text) from None


def free_port(host: str, among: Iterable[int] = ()) -> int:
    """A port that nobody listens on: the first such of `among`, by default one that the system gives to nobody who asks
    for any. One that it does give may be another's when Ray comes to it, and `ray start` then waits for ever."""
    for port in among or _given_to_nobody():
        with socket.socket() as probe, suppress(OSError):
            probe.bind((host, port))
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _given_to_nobody() -> list[int]:
    """Some ports in any order, above those that Ray gives to its workers, below those that the system gives; none where
    it does not say which."""
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return []
    ports = range(WORKER_PORTS_END, lowest)
    return random.sample(ports, min(PORT_TRIES, len(ports)))
