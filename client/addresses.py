"""Where to connect: what `connect(address)` may be given, and what it comes to.

`None` is this Ray cluster's nearest broker, "local" an embedded cluster for the program's life, and "host:port" (or
several, with commas or as a list) a broker reached without Ray. Ray is imported only for the first two.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterable
from typing import Any

from ..protocol.errors import LocalError
from .errors import Invalid, MantaError, NoCluster

_lock = threading.Lock()
_embedded: Any = None
BROKERS = 1
"""Of an embedded cluster, unless it is told otherwise, or has more in its store."""


def split_host(address: str) -> tuple[str, int]:
    """("host", port) of "host:port".

    Raises:
        Invalid: it is not of that form.
    """
    if not isinstance(address, str):
        raise Invalid(f'a broker\'s address is "host:port", not {address!r}')
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Invalid(f'a broker\'s address is "host:port", not {address!r}; use None for the running cluster')
    return host.strip("[]"), int(port)


def resolve(
    address: str | Iterable[str] | None, token: str, brokers: int | None = None, data: str | None = None
) -> tuple[list[str], str]:
    """The brokers to try in turn, and the token to present.

    Args:
        brokers, data: of an embedded cluster (`embedded`).

    Raises:
        NoCluster: no running cluster was found, or the embedded one does not start, and why.
        Invalid: the address is not of an allowed form, or `data` goes with another than "local".
    """
    if data is not None and address != "local":
        raise Invalid(
            'data= is the directory of an embedded cluster, connect("local", data=...): a cluster that runs keeps its '
            "own (`mantamq up --data`, start_cluster(data=...))"
        )
    if address is None:
        cluster = _find()
        if not cluster.addresses:
            raise NoCluster("no broker of the cluster takes clients now: `mantamq status` says why")
        nearest = cluster.nearest()
        others = [a for a in cluster.addresses.values() if a != nearest]
        return [nearest, *others], token or cluster.token
    if address == "local":
        cluster = embedded(brokers, data)
        return list(cluster.addresses.values()), token or cluster.token
    several = address.split(",") if isinstance(address, str) else address
    if not isinstance(several, Iterable):
        raise Invalid(f'a broker\'s address is "host:port", or several of these, not {address!r}')
    several = list(several)
    if not several:
        raise Invalid("no address is given: name at least one broker's host:port, or None for the running cluster")
    for one in several:
        split_host(one)
    return [one.strip() for one in several], token


def embedded(brokers: int | None = None, data: str | None = None) -> Any:
    """This program's embedded cluster, started when first asked for and stopped at exit.

    Args:
        brokers: how many, if it is started now; None: one, or as many as have a store in `data`.
        data: the directory of its stores; None: whatever it was started with.

    Raises:
        Invalid: it was started with another directory.
        NoCluster: it does not start, and why: what is in `data` cannot be used.
    """
    global _embedded
    from ..actors.cluster import start_cluster, store_directory, stored_brokers

    with _lock:
        directory = store_directory(data)
        if _embedded is None:
            asked = brokers or (None if directory and stored_brokers(directory) else BROKERS)
            try:
                _embedded = start_cluster(brokers=asked, address="local", detached=False, data=data)
            except LocalError as error:
                if data is None:
                    raise
                raise NoCluster(str(error)) from error
            atexit.register(_stop_embedded)
        elif directory and directory != _embedded.data:
            raise Invalid(
                f"this program's embedded cluster keeps its queues in {_embedded.data or 'memory'}, not in "
                f"{directory}: a program has one, and the first connection says where"
            )
        return _embedded


def find_or_start(token: str = "", start: bool = True) -> tuple[list[str], str]:
    """The brokers to try in turn, and the token to present, for a `Queue` that names no address.

    The cluster of the Ray that this process has joined; if there is none in it, one is started there that ends with
    this program. Without Ray the one that `mantamq up` has started; where no Ray is named or found, an embedded one.
    With `start` False none is started.

    Raises:
        NoCluster: a Ray is named (RAY_ADDRESS, or by `mantamq up`) that is not there or does not take this program, or
            other clusters run in this Ray, and which.
    """
    if _embedded is not None:
        return resolve("local", token, 1)
    import ray

    from ..actors.cluster import NotThere, find_cluster
    from ..actors.ray_control import local_ray
    from ..actors.ray_control.door import NoRay

    try:
        find_cluster()
    except NotThere as error:
        if error.others or not start:
            raise NoCluster(str(error)) from error
        _start_here(error.namespace)
    except NoRay as error:
        if not start or "RAY_ADDRESS" in os.environ or local_ray.recall().get("address") or ray.is_initialized():
            raise NoCluster(str(error)) from error
        return resolve("local", token, 1)
    except LocalError as error:
        raise NoCluster(str(error)) from error
    return resolve(None, token, 0)


def _start_here(namespace: str) -> None:
    """Start a cluster in the Ray that this process has joined; several may do so at once, one does."""
    from ..actors.cluster import start_cluster
    from ..actors.ray_control.placement import alive_nodes, broker_nodes

    with _lock:
        brokers = 3 if len(broker_nodes(alive_nodes())) >= 3 else 1
        with contextlib.suppress(
            LocalError, ValueError
        ):  # somebody else was quicker, or else it is said by whoever looks
            start_cluster(brokers=brokers, address=None, namespace=namespace, detached=False)


def _stop_embedded() -> None:
    global _embedded
    cluster, _embedded = _embedded, None
    if cluster is not None:
        cluster.stop()


def _find() -> Any:
    if _embedded is not None:
        return _embedded
    from ..actors.cluster import find_cluster

    try:
        return find_cluster()
    except MantaError:
        raise
    except Exception as error:
        raise NoCluster(f'{error} (or connect("local") for an embedded cluster)') from error
