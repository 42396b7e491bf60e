"""Is there a Ray at an address, and does it let this program in: asked before Ray is.

`ray.init` waits for 20 s and more, and logs a line a second, before it says that it could not connect, and not why. One
call to Ray's control store knows it in milliseconds.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import grpc
from ray._private.grpc_utils import init_grpc_channel
from ray._private.utils import read_ray_address
from ray._raylet import AuthenticationTokenLoader, Config  # pyright: ignore[reportAttributeAccessIssue]
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc
from ray.exceptions import RayError

from ...protocol.errors import LocalError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
KNOCK_S = 3.0
_NONE_HERE = "there is no Ray on this machine: start one with `mantamq up`, or name one (host:port)"


class NoRay(LocalError):
    """There is no Ray."""


class RayRefused(LocalError):
    """Something is there, and it is no Ray that this program may join: why, and what to do."""


class TokenAsked(RayRefused):
    """It is a Ray, it answers, and it does not let in who has not its token."""


def knock(address: str) -> str:
    """The "host:port" of a Ray that takes this program.

    Where a token is asked for and there is one, Ray in this process is told to present it, unless the user has said
    otherwise in RAY_AUTH_MODE.

    Args:
        address: "host:port", or "auto" for the Ray of this machine.

    Raises:
        NoRay: there is none.
        RayRefused: it is no Ray, or takes others only.
    """
    noted = ""
    if address == "auto":
        given = os.environ.get("RAY_ADDRESS")
        noted = "" if given else read_ray_address() or ""
        address = given or noted
        if not address:
            raise NoRay(_NONE_HERE)
    if "://" in address:
        raise RayRefused(
            f"{address!r} is an address of Ray Client, which cannot carry a cluster: run the program on a node of that "
            "Ray cluster, or connect to a broker's host:port, which needs no Ray"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise RayRefused(
            f'the address of a Ray is "auto" or host:port, as `ray start --head` prints it, not {address!r}'
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except (OSError, OverflowError) as error:
        if noted:  # by Ray itself, which does not take back what it has noted of one that is gone
            raise NoRay(f"{_NONE_HERE}; the last one here was at {noted} ({error})") from None
        raise NoRay(f"there is no Ray cluster at {address!r} ({error}): start one with `mantamq up`") from None
    code = _ask(address)
    if code is grpc.StatusCode.UNAUTHENTICATED and MODE not in os.environ and has_token():
        present_token()
        code = _ask(address)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        raise TokenAsked(f"the Ray at {address} asks for its token: {_token_trouble()}")
    if code is not None:
        raise RayRefused(
            f"what listens at {address} is no Ray ({code.name}): give the address that `ray start --head` printed, not "
            "that of its dashboard, nor a broker's"
        )
    return address


def _ask(address: str) -> grpc.StatusCode | None:
    """The trouble, None for none."""
    try:
        channel: Any = init_grpc_channel(address)
        with channel:
            messages: Any = gcs_service_pb2  # made at run time
            stub = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
            stub.GetClusterId(messages.GetClusterIdRequest(), timeout=KNOCK_S)
    except grpc.RpcError as error:
        return error.code()  # pyright: ignore[reportAttributeAccessIssue]
    except RayError:  # there is no token, or it cannot be read
        return grpc.StatusCode.UNAUTHENTICATED
    return None


def has_token() -> bool:
    """Whether there is a token where Ray looks for one."""
    try:
        return AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
    except RayError:
        return False


def present_token(mode: str = "token") -> None:
    """Have Ray in this process, and in those it starts, speak so; the token itself is Ray's own business."""
    os.environ[MODE] = mode
    Config.initialize("")  # ray has read its configuration when it was imported


def _token_trouble() -> str:
    """The trouble with the token that this program presents, and what to do."""
    mode = os.environ.get(MODE, "")
    places = f"{TOKEN}, the file that {TOKEN_PATH} names, or ~/.ray/auth_token"
    if mode and mode.lower() != "token":
        return f"{MODE}={mode} keeps this program from presenting one; unset it, with the token in {places}"
    if not has_token():
        return (
            f"there is none here; copy the head's ~/.ray/auth_token (`ray get-auth-token` there shows it) to {places}"
        )
    if os.environ.get(TOKEN):
        source = TOKEN
    elif os.environ.get(TOKEN_PATH):
        source = f"{os.environ[TOKEN_PATH]} ({TOKEN_PATH})"
    else:
        source = str(Path.home() / ".ray" / "auth_token")
    return f"the one in {source} is another's; put there what `ray get-auth-token` shows on its head"
