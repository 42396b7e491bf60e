"""Clients that do as they please, and then come to rest: one seed's story."""

from __future__ import annotations

import random
import traceback
from typing import Any

from mantamq.protocol.effects import PeerUp
from mantamq.protocol.frames import (
    ACCEPT,
    REJECT,
    RELEASE,
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Failed,
    Flow,
    Frame,
    Open,
    Opened,
    Reply,
    Transfer,
)

from .checkers import Watcher
from .model import Violation, each
from .world import BROKERS, Machines, World

KINDS = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject"}
STORY_US = 1_000_000
REST_US = 20_000_000


class Link:
    """Attributes: what a client keeps of one sender or receiver."""

    def __init__(self, target: str, mode: str = "", accept: bool = True) -> None:
        self.target = target
        self.mode = mode
        self.accept = accept
        self.attached = False
        self.ended = False
        self.next = 1
        self.completed: set[int] = set()
        self.held: list[tuple[int, int]] = []
        self.past: list[tuple[int, int]] = []
        self.settles = 0
        self.answers: set[int] = set()


class Client:
    """One connection. It answers nothing by itself; the workload decides."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        self.world, self.name, self.broker = world, name, broker
        self.opened = False
        self.links: dict[int, Link] = {}
        self.disposals: dict[tuple[int, int], tuple[str, str, list[int]]] = {}
        self.stale: set[tuple[int, int]] = set()  # (handle, number) of settlements that must be lost entirely
        self.replies: dict[int, Reply | None] = {}
        world.clients[name] = self
        world.give(broker, PeerUp(name))
        self.send(Open(name))

    def send(self, frame: Frame) -> None:
        self.world.post(self.name, self.broker, frame)

    def receive(self, frame: Any) -> None:
        link = self.links.get(getattr(frame, "handle", 0))
        match frame:
            case Opened():
                self.opened = True
            case Attached():
                assert link is not None
                link.attached = True
            case Detached():
                assert link is not None
                link.ended = True
            case Completed():
                assert link is not None
                for number in each(frame.ranges):
                    if number in link.completed or number >= link.next:
                        raise Violation(f"{self.name}: number {number} completes twice, or was never sent")
                    link.completed.add(number)
            case Failed():
                raise Violation(f"{self.name}: a transfer failed: {frame}")
            case Delivery():
                assert link is not None
                if frame.acquisition and link.accept:
                    link.held += [(frame.acquisition, position) for position in each(frame.ranges)]
            case Disposed():
                assert link is not None
                if (frame.handle, frame.number) not in self.disposals or frame.number in link.answers:
                    raise Violation(f"{self.name}: settlement {frame.number} is answered twice, or was never made")
                link.answers.add(frame.number)
                if (frame.handle, frame.number) in self.stale and not frame.lost:
                    raise Violation(f"Q2 {self.name}: a stale settlement counted: {frame}")
            case Reply():
                self.replies[frame.number] = frame
            case _:
                pass

    # ---- what it can do

    def command(self, what: str, /, **arguments: Any) -> int:
        number = len(self.replies) + 1
        self.replies[number] = None
        self.send(Command(number, what, arguments))
        return number

    def attach_sender(self, exchange: str, key: str) -> int:
        handle = len(self.links) + 1
        self.links[handle] = Link(key)
        self.send(AttachSender(handle, exchange, key))
        return handle

    def attach_receiver(self, queue: str, mode: str = "consume", accept: bool = True) -> int:
        handle = len(self.links) + 1
        self.links[handle] = Link(queue, mode, accept and mode == "consume")
        self.send(AttachReceiver(handle, queue, mode, accept))
        return handle

    def transfer(self, handle: int, count: int, ttl: list[int]) -> None:
        link = self.links[handle]
        blobs = [f"{self.name}/{handle}:{link.next + i}".encode() for i in range(count)]
        self.send(Transfer(handle, link.next, blobs, None, ttl))
        link.next += count

    def settle(self, handle: int, kind: int, items: list[tuple[int, int]], stale: bool = False) -> None:
        link = self.links[handle]
        runs = [n for acquisition, position in items for n in (acquisition, position, position)]
        link.settles += 1
        self.disposals[handle, link.settles] = (link.target, KINDS[kind], runs)
        if stale:
            self.stale.add((handle, link.settles))
        else:
            link.past += items
            link.held = [item for item in link.held if item not in set(items)]
        self.send(Dispose(handle, link.settles, kind, runs))


class Story:
    """One seed from beginning to end."""

    def __init__(self, seed: int, machines: Machines | None = None) -> None:
        self.rng = random.Random(seed)
        self.world = World(self.rng, codec=seed % 10 == 0, machines=machines)
        self.watch = Watcher(self.world)
        self.operations = 0
        self.clients: list[Client] = []
        self.queues: list[str] = []
        self._count = 0

    def run(self) -> int:
        """Raises Violation; returns the number of client operations."""
        self._set_up()
        self._live()
        self._rest()
        return self.operations

    def client(self, broker: str | None = None) -> Client:
        self._count += 1
        client = Client(self.world, f"c{self._count}", broker or self.rng.choice(BROKERS))
        self.clients.append(client)
        return client

    def until(self, done: Any, what: str, limit_us: int = REST_US) -> None:
        end = self.world.now_us + limit_us
        while not done():
            if self.world.now_us >= end:
                raise Violation(f"I17: {what} within {limit_us / 1e6:g} simulated seconds")
            self.world.run(self.world.now_us + 5_000)

    # ---- the three parts

    def _set_up(self) -> None:
        rng = self.rng
        admin = self.client()
        admin.command("declare_queue", name="dead")
        admin.command("bind", exchange="amq.fanout", queue="dead")
        self.watch.expect_routes["@alternate"] = ["dead"]
        self.queues = ["dead", *(f"q{i}" for i in range(rng.choice([1, 2, 3])))]
        for name in self.queues[1:]:
            alternate = rng.choice(["", "amq.fanout"])
            # The same name on two brokers at once, now and then with another definition: one of them wins.
            rivals = [self.client(broker) for broker in rng.sample(BROKERS, rng.choice([1, 1, 2]))]
            numbers = [rival.command("declare_queue", name=name, alternate=alternate) for rival in rivals]
            if rng.random() < 0.3:
                odd = self.client()
                wrong = odd.command("declare_queue", name=name, arguments={"other": 1}, alternate=alternate)
                self.until(lambda odd=odd, wrong=wrong: odd.replies[wrong], "a declare is answered")
            self.until(
                lambda rivals=rivals, numbers=numbers: all(
                    r.replies[n] is not None for r, n in zip(rivals, numbers, strict=True)
                ),
                "declares are answered",
            )
            codes = {r.replies[n].code for r, n in zip(rivals, numbers, strict=True)}  # type: ignore[union-attr]
            if len(codes) != 1 or codes - {"", "exists"}:
                raise Violation(f"declares of {name} alike are answered {codes}")
            definitions = {self.world.machines[b].wiring.queue(name) is not None for b in BROKERS}
            if definitions != {True}:
                raise Violation(f"a declare of {name} is complete and some broker does not show it")
        admin.command("bind", exchange="amq.topic", queue=self.queues[1], key="x.#")
        if len(self.queues) > 2:
            admin.command("bind", exchange="amq.topic", queue=self.queues[2], key="x.*")
        self.until(lambda: all(reply is not None for reply in admin.replies.values()), "bindings are answered")
        if len({self.world.machines[b].wiring.digest() for b in BROKERS}) != 1:
            raise Violation("I16: the brokers' wirings differ")
        for _ in range(rng.choice([2, 3])):
            client = self.client()
            for _ in range(rng.choice([1, 2])):
                if rng.random() < 0.25:
                    handle = client.attach_sender("amq.topic", "x.y")
                    routes = self.queues[1:3]
                else:
                    routes = [rng.choice(self.queues[1:])]
                    handle = client.attach_sender("", routes[0])
                client.links[handle].target = "topic" if len(routes) > 1 else routes[0]
                self.watch.expect_routes[f"{client.name}/{handle}"] = routes
        for _ in range(rng.choice([2, 3, 5])):
            self._new_consumer()

    def _new_consumer(self) -> None:
        rng = self.rng
        client = self.client()
        for _ in range(rng.choice([1, 1, 2])):
            mode = "browse" if rng.random() < 0.1 else "consume"
            client.attach_receiver(rng.choice(self.queues), mode, rng.random() > 0.15)

    def _live(self) -> None:
        rng, world = self.rng, self.world
        end = world.now_us + STORY_US
        batch = rng.choice([1, 4, 64])
        while world.now_us < end:
            world.run(world.now_us + rng.choice([100, 500, 2000, 5_000]))
            for _ in range(rng.choice([1, 2, 4])):
                self._act(batch)

    def _act(self, batch: int) -> None:
        rng = self.rng
        live = [c for c in self.clients if c.name in self.world.clients and c.opened]
        if not live:
            return
        client = rng.choice(live)
        links = [(h, link) for h, link in client.links.items() if link.attached and not link.ended]
        if not links:
            return
        self.operations += 1
        handle, link = rng.choice(links)
        if not link.mode:
            count = rng.choice([1, batch])
            ttl = [rng.randrange(count), rng.choice([0, 20, 200])] if rng.random() < 0.05 else []
            client.transfer(handle, count, ttl)
            return
        chance = rng.random()
        if chance < 0.35 or (not link.held and chance < 0.85):
            client.send(Flow(handle, rng.choice([1, 3, 20, 100]), rng.choice([-1, -1, -1, 50]), rng.random() < 0.05))
        elif chance < 0.85:
            count = rng.randrange(1, len(link.held) + 1)
            items = link.held[:count] if rng.random() < 0.7 else rng.sample(link.held, count)
            client.settle(handle, rng.choices([ACCEPT, RELEASE, REJECT], [6, 2, 1])[0], items)
        elif chance < 0.93:
            if link.past and link.accept:
                client.settle(handle, rng.choice([ACCEPT, RELEASE, REJECT]), [rng.choice(link.past)], stale=True)
        elif chance < 0.95:
            client.send(Detach(handle))
            link.attached = False
            self._new_consumer()
        elif chance < 0.97:
            self.world.cut(client.name, client.broker)
            self._new_consumer()
        elif chance < 0.98:
            client.command("purge", name=rng.choice(self.queues), count=rng.choice([1, 5]))
        else:
            client.command("queue", name=rng.choice(self.queues))

    def _rest(self) -> None:
        """Everybody accepts what is held, new consumers empty the queues, and every request is answered."""
        world = self.world
        world.run(world.now_us + 100_000)
        # Now and then those who are there must manage by themselves: what came back must find its way to them.
        stay = self.rng.random() < 0.5
        drainers: list[tuple[Client, dict[int, str]]] = []
        for client in self.clients:
            if client.name not in world.clients:
                continue
            kept: dict[int, str] = {}
            for handle, link in client.links.items():
                if not (link.mode and link.attached and not link.ended):
                    continue
                if stay and link.accept:
                    kept[handle] = link.target
                else:
                    client.send(Detach(handle))
                    link.attached = False
            drainers.append((client, kept))
        world.run(world.now_us + 100_000)
        served = {name for _, handles in drainers for name in handles.values()}
        for drainer in [self.client(broker) for broker in BROKERS]:
            drainers.append(
                (drainer, {drainer.attach_receiver(name): name for name in self.queues if name not in served})
            )
        self.until(lambda: all(d.links[h].attached for d, hs in drainers for h in hs), "receivers are attached")
        for drainer, handles in drainers:
            for handle in handles:
                drainer.send(Flow(handle, 100_000))

        def drained() -> bool:
            for drainer, handles in drainers:
                for handle in handles:
                    if drainer.links[handle].held:
                        drainer.settle(handle, ACCEPT, list(drainer.links[handle].held))
            return all(
                place not in ("available", "dying") and type(place) is not tuple
                for model in self.watch.models.values()
                for place in model.place.values()
            ) and all(len(link.answers) == link.settles for d, _ in drainers for link in d.links.values())

        self.until(drained, "queues are drained and settlements answered")
        alive = [client for client in self.clients if client.name in world.clients]
        self.until(
            lambda: all(
                len(link.completed) == link.next - 1
                for client in alive
                for link in client.links.values()
                if not link.mode
            ),
            "transfers are complete",
        )
        self.until(lambda: all(r is not None for c in alive for r in c.replies.values()), "commands are answered")
        world.run(world.now_us + 200_000)
        self.watch.finish()
        if world.closed:
            raise Violation(f"a well-behaved client was closed: {world.closed}")


def play(seed: int, machines: Machines | None = None) -> tuple[int, int, str]:
    """(seed, operations, what went wrong or "")."""
    story = Story(seed, machines)
    try:
        return seed, story.run(), ""
    except Violation as violation:
        return seed, story.operations, str(violation)
    except Exception:
        return seed, story.operations, traceback.format_exc()
