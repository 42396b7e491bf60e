"""The faults, by name. Each does its harm, undoes what can be undone, and says in a few words what it did.

kill-X       SIGKILL to the process of an actor
pause-X      SIGSTOP, and SIGCONT after 1 to 6 seconds: what wakes is a zombie that knows nothing
ray-kill-X   `ray.kill`, as an operator would
             X: broker, owner (a broker that holds a consume lock), replica (one that carries queues), sequencer,
             ownership, supervisor
kill-node    a whole Ray node at once; another one is added after a while, as an autoscaler would
kill-raylet  only its raylet: its actors must notice
pause-node   everything on it stands still for 1 to 6 seconds
cut-node     its network cable is out for 1 to 6 seconds (needs network namespaces)
cut-link     the clients' links of one broker: broken, or silent for 1 to 6 seconds
close-connection  an operator closes the connections of one or a few clients of one broker, for a reason of its own each

With a store, and queues that are durable:
power        SIGKILL to everything, Ray too; what no flush had covered is put back, torn or kept; all starts again
kill-store   as kill-X: with its store a broker and its replicas end, and come back with what is on the disk
wipe-disk    a broker's disk is another one, and empty
fill-disk    something else uses up a broker's disk, or all of them, for 2 to 6 seconds (needs root)
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

from mantamq.actors.ray_control.local_ray import wait_gone

from .world import World

PAUSE_S = (1.0, 6.0)
FULL_S = (2.0, 6.0)
LEFT_BYTES = (64 * 1024**2, 200 * 1024**2)
"""Of a disk that is full: the reserve is begun, and not all gone."""
GONE_S = 10.0
REPLACE_S = (1.0, 5.0)
Fault = Callable[[World, random.Random], str]


class NoVictim(Exception):
    """There is nothing now that this fault could hit."""


def _choose(world: World, chance: random.Random, kind: str) -> tuple[str, int]:
    """Name and process id of an actor of this kind."""
    names = world.names("broker" if kind == "owner" else kind)
    if kind == "replica":
        names = {name: pid for name, pid in names.items() if name in world.busy_replicas()} or names
    elif kind == "owner":
        owners = world.owners()
        names = {name: pid for name, pid in names.items() if name in owners}
    if not names:
        raise NoVictim(f"there is no {kind}")
    name = chance.choice(sorted(names))
    return name, names[name]


def _kill(kind: str) -> Fault:
    def fault(world: World, chance: random.Random) -> str:
        name, pid = _choose(world, chance, kind)
        os.kill(pid, signal.SIGKILL)
        return f"{name} (pid {pid})"

    return fault


def _pause(kind: str) -> Fault:
    def fault(world: World, chance: random.Random) -> str:
        name, pid = _choose(world, chance, kind)
        seconds = chance.uniform(*PAUSE_S)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have been ended meanwhile
                os.kill(pid, signal.SIGCONT)
        return f"{name} (pid {pid}) for {seconds:.1f} s"

    return fault


def _ray_kill(kind: str) -> Fault:
    def fault(world: World, chance: random.Random) -> str:
        name, pid = _choose(world, chance, kind)
        handle = world.handle(name)
        if handle is None:
            raise NoVictim(f"Ray knows no actor {name}")
        handle.kill()
        return f"{name} (pid {pid})"

    return fault


def _node(world: World, chance: random.Random, dies: bool = False) -> int:
    """A Ray node that carries a broker. One that is to die carries fewer than half of them: until they are spread again a
    node may have two, and a majority lost is lost, as the README says."""
    assert world.nodes is not None
    carried = world.broker_nodes()
    most = (carried.total() - 1) // 2 if dies else carried.total()
    placed = {world.nodes.number(node) for node, brokers in carried.items() if brokers <= most}
    numbers = [number for number in world.nodes.numbers if number in placed]
    if not numbers:
        raise NoVictim("no Ray node carries a broker" + ", and not too many" * dies)
    return chance.choice(numbers)


def _kill_node(raylet_only: bool) -> Fault:
    def fault(world: World, chance: random.Random) -> str:
        assert world.nodes is not None
        number = _node(world, chance, dies=True)
        world.nodes.kill(number, raylet_only)
        time.sleep(chance.uniform(*REPLACE_S))
        return f"node {number}, node {world.nodes.add()} instead"

    return fault


def _pause_node(world: World, chance: random.Random) -> str:
    assert world.nodes is not None
    number = _node(world, chance)
    seconds = chance.uniform(*PAUSE_S)
    world.nodes.signal(number, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        world.nodes.signal(number, signal.SIGCONT)
    return f"node {number} for {seconds:.1f} s"


def _cut_node(world: World, chance: random.Random) -> str:
    assert world.nodes is not None
    number = _node(world, chance)
    seconds = chance.uniform(*PAUSE_S)
    world.nodes.cut(number, True)
    try:
        time.sleep(seconds)
    finally:
        world.nodes.cut(number, False)
    return f"node {number} for {seconds:.1f} s"


def _cut_link(world: World, chance: random.Random) -> str:
    assert world.proxies is not None
    broker = chance.choice(sorted(world.proxies.addresses))
    if chance.random() < 0.5:
        return f"{world.proxies.reset(broker)} links of {broker} broken"
    seconds = chance.uniform(*PAUSE_S)
    world.proxies.silence(broker, True)
    try:
        time.sleep(seconds)
    finally:
        world.proxies.silence(broker, False)
    return f"links of {broker} silent for {seconds:.1f} s"


def _close_connection(world: World, chance: random.Random) -> str:
    assert world.closer is not None
    with world.connect(chance) as connection:
        closed = world.closer.close(connection, chance)
        if not closed:
            raise NoVictim(f"{connection.broker} has no client that stays")
        return f"{len(closed)} of {connection.broker}"


def _power(world: World, chance: random.Random) -> str:
    seed = chance.randrange(1 << 32)
    lost = world.power_off(seed)
    world.power_on()
    return f"everything, with {len(lost)} pages and names lost by seed {seed}"


def _wipe_disk(world: World, chance: random.Random) -> str:
    assert world.disks is not None
    store, pid = _choose(world, chance, "store")
    broker = store.partition(".")[0]
    world.disks.wipe(broker)
    with contextlib.suppress(ProcessLookupError):  # it has noticed already
        os.kill(pid, signal.SIGKILL)
    wait_gone([pid], GONE_S)
    world.disks.forget()
    return f"{broker}'s disk"


def _fill_disk(world: World, chance: random.Random) -> str:
    assert world.disks is not None
    if not world.disks.small:
        raise NoVictim("no small disks can be mounted here")
    every = sorted(store.partition(".")[0] for store in world.names("store"))
    brokers = every if chance.random() < 0.5 else [chance.choice(every)]
    left_bytes, seconds = chance.randrange(*LEFT_BYTES), chance.uniform(*FULL_S)
    try:
        for broker in brokers:
            world.disks.fill(broker, left_bytes)
        time.sleep(seconds)
    finally:
        for broker in brokers:
            world.disks.empty(broker)
    return f"disks of {', '.join(brokers)}, {left_bytes / 1e6:.0f} MB left, for {seconds:.1f} s"


CLOSE = "close-connection"
KINDS = ("broker", "owner", "replica", "sequencer", "ownership", "supervisor")
FAULTS: dict[str, Fault] = {
    **{f"kill-{kind}": _kill(kind) for kind in KINDS},
    **{f"pause-{kind}": _pause(kind) for kind in KINDS},
    **{f"ray-kill-{kind}": _ray_kill(kind) for kind in KINDS},
    "kill-node": _kill_node(raylet_only=False),
    "kill-raylet": _kill_node(raylet_only=True),
    "pause-node": _pause_node,
    "cut-node": _cut_node,
    "cut-link": _cut_link,
    CLOSE: _close_connection,
    "power": _power,
    "kill-store": _kill("store"),
    "wipe-disk": _wipe_disk,
    "fill-disk": _fill_disk,
}
NODE_FAULTS = {"kill-node", "kill-raylet", "pause-node", "cut-node"}
"""These need several Ray nodes."""
STORE_FAULTS = {"power", "kill-store", "wipe-disk", "fill-disk"}
"""These need a store. Ray nodes on one machine share its directories, so there is none with `NODE_FAULTS`."""
DURABLE = [name for name in FAULTS if name not in NODE_FAULTS]


def parse(text: str) -> list[str]:
    """Names of faults, with commas; "none"; "all": those that need no store; "durable": those that go with one; or a
    beginning with a star, like "kill-*".

    Raises:
        ValueError: there is no such fault, or they do not go together.
    """
    names: list[str] = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        if word == "none":
            continue
        found = [name for name in FAULTS if name == word]
        if not found:
            among = DURABLE if word == "durable" else [name for name in FAULTS if name not in STORE_FAULTS]
            whole = word in ("all", "durable")
            found = [name for name in among if whole or (word[-1] == "*" and name.startswith(word[:-1]))]
        if not found:
            raise ValueError(f"there is no fault {word!r}: there are none, all, durable, {', '.join(FAULTS)}")
        names += [name for name in found if name not in names]
    if (stores := STORE_FAULTS & set(names)) and (nodes := NODE_FAULTS & set(names)):
        raise ValueError(f"{', '.join(sorted(stores))} and {', '.join(sorted(nodes))} do not go together: run two")
    return names
