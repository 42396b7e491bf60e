"""Clients of a real cluster whose links are cut and frozen while they send and receive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mantamq.client import Connection, Empty, connect

from tests.cluster.proxy import Proxies

WAIT_S = 15.0
FAULTS = 6


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, f"{what}: not within {WAIT_S} s"
        time.sleep(0.005)


class Producer(threading.Thread):
    """Sends 0, 1, 2, ... as fast as it may; `sent` is how many, `complete` how many are certainly complete."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(daemon=True)
        self.sender = connection.session().sender("q", capacity=500)
        self.sent = self.complete = 0
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                for _ in range(50):
                    self.sender.send(b"%d" % self.sent)
                    self.sent += 1
                if self.sent % 1000 == 0:
                    self.sync()
                time.sleep(0.005)
            self.sync()
        except BaseException as failure:
            self.failure = failure

    def sync(self) -> None:
        self.sender.sync(WAIT_S)
        self.complete = self.sent


class Consumer(threading.Thread):
    """Takes and accepts. `places`: body -> position; `accepted`: bodies whose accept is certainly complete."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(daemon=True)
        self.session = connection.session()
        self.receiver = self.session.receiver("q", capacity=200)
        self.places: dict[int, int] = {}
        self.accepted: set[int] = set()
        self.again = 0
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.take(40)
        except BaseException as failure:
            self.failure = failure

    def take(self, most: int) -> None:
        bodies: list[int] = []
        lost_before = len(self.session.lost)
        for _ in range(most):
            try:
                message = self.receiver.fetch(0.05)
            except Empty:
                break
            body = int(message.body)
            assert body not in self.accepted, f"{body} was accepted, and came again"
            assert self.places.setdefault(body, message.position) == message.position, f"{body} is in the queue twice"
            self.again += message.redelivered
            bodies.append(body)
            self.session.acknowledge(message)
        self.session.sync(WAIT_S)
        lost = {position for _, position in self.session.lost[lost_before:]}
        self.accepted.update(body for body in bodies if self.places[body] not in lost)


def test_no_complete_message_is_lost_and_no_accepted_one_comes_again(cluster):
    behind = dict(list(cluster.addresses.items())[:2])
    with Proxies(behind) as proxies:
        given = list(proxies.addresses.values())
        with connect(given) as sending, connect(reversed(given)) as receiving, connect() as watching:
            watching.declare_queue("q")
            producer, consumer = Producer(sending), Consumer(receiving)
            producer.start()
            consumer.start()
            longest = 0.0
            for fault in range(FAULTS):
                victim = (sending if fault % 3 else receiving).broker
                wait_until(lambda n=500 * (fault + 1): len(consumer.accepted) > n, "messages are accepted")
                assert producer.failure is None and consumer.failure is None
                hit = [c for c in (sending, receiving) if c.broker == victim]
                before = [c.reconnects for c in hit]
                begun = time.monotonic()
                (proxies.cut if fault % 2 else proxies.freeze)(victim)
                for connection, count in zip(hit, before, strict=True):
                    wait_until(lambda c=connection, n=count: c.reconnects > n, "another broker takes over")
                    assert connection.broker != victim
                longest = max(longest, time.monotonic() - begun)
                complete = producer.complete
                wait_until(lambda n=complete: producer.complete > n, "sends go on")
                proxies.mend()
            producer.stop.set()
            producer.join(WAIT_S)
            assert producer.failure is None and producer.complete == producer.sent
            wait_until(
                lambda: consumer.failure or watching.queue("q")["messages"] == 0, "everything is taken and accepted"
            )
            consumer.stop.set()
            consumer.join(WAIT_S)
            assert consumer.failure is None
            assert set(consumer.places) == set(range(producer.sent)), "a complete message was lost"
            print(
                f"sent={producer.sent} again={consumer.again} lost_settlements={len(consumer.session.lost)} "
                f"reconnects={sending.reconnects + receiving.reconnects} longest_s={longest:.2f}"
            )
            assert longest < 5
