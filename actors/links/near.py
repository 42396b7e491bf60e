"""Links within one machine: beside each port for peers there is a Unix socket of the same name, which members on this
machine dial instead. A frame on it costs less than one on the loopback interface.

The name is in Linux's abstract namespace: no file is left behind, and exactly those see it who share the listener's
network namespace, for whom the address means that listener too. Other systems have no such names, and use TCP.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

BUFFER_BYTES = 4 * 1024 * 1024
"""What may be on its way; the kernel grants less where `net.core.wmem_max` is less."""
BACKLOG = 1024
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def near_name(address: str) -> str:
    """The name of the socket beside the listener at `address` ("host:port")."""
    return f"\0mantamq/{address}"


def near_listener(address: str) -> socket.socket | None:
    """A socket beside the listener at `address`, bound; None where there are no such sockets, or somebody has the
    name."""
    if sys.platform != "linux":
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(near_name(address))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        return None
    sock.setblocking(False)
    return sock


def dial_near(address: str) -> socket.socket | None:
    """A socket that is connected to the listener at `address`; None if no process of this user listens there on this
    machine: then TCP reaches it, or says why not."""
    if sys.platform != "linux":
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(near_name(address))
        # Anybody on this machine may take a name, so the other side must be of the same user as this process.
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] == os.geteuid():
            return sock
    except OSError:
        pass
    sock.close()
    return None


def tune_near(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
