"""Where this machine can be listened at."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from mantamq.actors.cluster import start_cluster
from mantamq.actors.ray_control import listening
from mantamq.protocol.errors import LocalError


def test_a_port_is_one_that_nobody_listens_on_and_that_the_system_gives_to_nobody_meanwhile() -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        free.bind(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        assert listening.free_port("127.0.0.1", [taken.getsockname()[1], other]) == other
        assert listening.free_port("127.0.0.1", [taken.getsockname()[1]]) > 0, "there is one all the same"
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if given.exists():
        lowest = int(given.read_text().split()[0])
        found = {listening.free_port("127.0.0.1") for _ in range(20)}
        assert (
            all(listening.WORKER_PORTS_END <= port < lowest for port in found) or lowest <= listening.WORKER_PORTS_END
        )


def test_who_binds_an_address_of_another_machine_hears_it_before_ray_runs() -> None:
    for host in ("127.0.0.1", "0.0.0.0", "localhost"):
        listening.check_bind(host)
    with pytest.raises(LocalError, match=r"listen on 192\.0\.2\.1 here \(.*\): bind an address of this machine"):
        listening.check_bind("192.0.2.1")
    for wrong in ("no such name", "x" * 300):
        with pytest.raises(LocalError, match=f"listen on {wrong} here"):
            listening.check_bind(wrong)
    with pytest.raises(LocalError, match="bind an address of this machine"):
        start_cluster(address="local", bind="192.0.2.1")
