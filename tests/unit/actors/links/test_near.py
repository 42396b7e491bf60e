"""Sockets beside ports: who finds them, and who does not."""

from __future__ import annotations

import os
import socket
import sys

import pytest
from mantamq.actors.links import near
from mantamq.actors.links.near import dial_near, near_listener

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")
ADDRESS = f"127.0.0.1:{os.getpid() + 70_000}"  # no port has such a number


def test_who_knows_the_address_finds_the_socket_beside_it():
    listener = near_listener(ADDRESS)
    assert listener is not None
    with listener:
        sock = dial_near(ADDRESS)
        assert sock is not None
        with sock:
            listener.setblocking(True)
            other, _ = listener.accept()
            with other:
                sock.sendall(b"hello")
                assert other.recv(10) == b"hello"
    assert dial_near(ADDRESS) is None, "it is gone with its process"


def test_a_name_that_another_user_has_taken_is_not_used(monkeypatch: pytest.MonkeyPatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(near.near_name(ADDRESS))
        squatter.listen(1)
        assert near_listener(ADDRESS) is None, "the listener goes on with its port alone"
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert dial_near(ADDRESS) is None


def test_other_systems_use_tcp(monkeypatch: pytest.MonkeyPatch):
    with near_listener(ADDRESS) as listener:  # type: ignore[union-attr]
        assert listener
        monkeypatch.setattr(sys, "platform", "darwin")
        assert near_listener(ADDRESS) is None and dial_near(ADDRESS) is None
