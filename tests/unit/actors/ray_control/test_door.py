"""What is at an address is known at once and by name, before Ray is asked to join it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from mantamq.actors.ray_control import door, local_ray
from mantamq.protocol.errors import LocalError
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc


class Head(gcs_service_pb2_grpc.NodeInfoGcsServiceServicer):
    """As much of a Ray head as is asked here."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.asked = 0

    def GetClusterId(self, request: Any, context: Any) -> Any:
        self.asked += 1
        if self.token and dict(context.invocation_metadata()).get("authorization") != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
        return gcs_service_pb2.GetClusterIdReply()  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def head(token: str = "", real: bool = True) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    if real:
        gcs_service_pb2_grpc.add_NodeInfoGcsServiceServicer_to_server(Head(token), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(autouse=True)
def own_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Ray's way to speak is this process's alone; it is put back."""
    for name in (door.MODE, door.TOKEN, door.TOKEN_PATH, "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path / "manta"))
    yield
    os.environ.pop(door.MODE, None)
    monkeypatch.undo()
    door.AuthenticationTokenLoader.instance().reset_cache()
    door.Config.initialize("")


def test_a_ray_that_takes_everybody() -> None:
    with head() as address:
        assert door.knock(address) == address


@pytest.mark.parametrize("mode", ["", "disabled", "token"])
def test_a_token_that_is_missing_or_kept_back_is_named(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode:
        door.present_token(mode)
        monkeypatch.setenv(door.MODE, mode)
    with head("secret-of-the-head-0123456789") as address, pytest.raises(door.RayRefused) as refused:
        door.knock(address)
    text = str(refused.value)
    assert "asks for its token" in text and ("RAY_AUTH_MODE=disabled" in text) == (mode == "disabled")
    assert "~/.ray/auth_token" in text and "`mantamq up`" not in text


def test_a_wrong_token_is_named_by_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(door.TOKEN, "of-another-cluster-0123456789")
    with (
        head("secret-of-the-head-0123456789") as address,
        pytest.raises(door.RayRefused, match="the one in RAY_AUTH_TOKEN"),
    ):
        door.knock(address)


def test_a_token_that_is_there_is_presented_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(door.TOKEN, "secret-of-the-head-0123456789")
    with head("secret-of-the-head-0123456789") as address:
        assert door.knock(address) == address
    assert os.environ[door.MODE] == "token"


def test_what_is_no_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "KNOCK_S", 0.3)
    with head(real=False) as address, pytest.raises(door.RayRefused, match="is no Ray"):
        door.knock(address)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        threading.Thread(target=lambda: [other.accept() for _ in range(2)], daemon=True).start()
        with pytest.raises(door.RayRefused, match="is no Ray"):
            door.knock(f"127.0.0.1:{port}")
    with pytest.raises(door.NoRay, match="mantamq up"):
        door.knock(f"127.0.0.1:{port}")


def test_a_ray_that_has_ended_here_is_none_that_anybody_has_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(door, "read_ray_address", lambda: gone)
    with pytest.raises(door.NoRay, match=f"no Ray on this machine: start one .*; the last one here was at {gone}"):
        door.knock("auto")
    monkeypatch.setenv("RAY_ADDRESS", gone)
    with pytest.raises(door.NoRay, match=f"no Ray cluster at '{gone}'"):
        door.knock("auto")


@pytest.mark.parametrize("address, word", [
    ("ray://127.0.0.1:10001", "Ray Client"), ("http://127.0.0.1:8265", "Ray Client"), ("127.0.0.1", "host:port"),
    ("somewhere:", "host:port"),
])  # fmt: skip
def test_what_is_no_address_is_named(address: str, word: str) -> None:
    with pytest.raises(door.RayRefused, match=word):
        door.knock(address)


def test_what_ray_itself_refuses_is_no_missing_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0.0\n    Python: 3.9")

    monkeypatch.setattr(local_ray.ray, "init", refuse)
    with head() as address, pytest.raises(LocalError, match="does not take this program: Version mismatch") as refused:
        local_ray.join(address, "mantamq")
    assert "no Ray cluster" not in str(refused.value)
