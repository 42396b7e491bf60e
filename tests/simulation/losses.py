"""Stories in which most of a queue's replicas die, or most of the brokers: more than anything can be kept through.

What is lost then is lost; but a queue is dropped only where no recovery quorum of its logs is left in the whole world,
and unasked only where nobody who can be heard has anything of it (I29). Everything else is as always: the checkers of
commits and states watch these stories, too. At the end each queue goes on, or is gone and its clients know, or every
broker that can be asked says what it waits for.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from typing import Any

from mantamq.protocol.machine import is_ownership, is_sequencer
from mantamq.protocol.wire import events
from mantamq.protocol.wire.events import CLUSTER, Ballot, Entry
from mantamq.protocol.wire.log_frames import Append

from . import disk_stories, tokens
from .afterlife import Afterlife
from .checkers import Watcher
from .clients import Client
from .credits import Credits
from .ledger import Ledger
from .model import Violation
from .recovered import Recovered
from .rescues import Rescues
from .users import User
from .world import Machines, World

AFTER_US = 25_000_000
"""How long a story goes on behind the catastrophe."""
SLACK_US = 1_500_000
OF_POWER = ("blackout", "blackout", "blackouts", "nodes", "most", "away", "brokers")
"""What happens to brokers with stores."""
CATASTROPHES = ("most", "most", "all", "all", "few", "away", "away", "one by one", "brokers")


class Keeping:
    """I29, by looking into every process: who has a log of which queue, and since when nobody could hear of it."""

    def __init__(self, world: World, watch: Watcher) -> None:
        self.world, self.watch = world, watch
        self.lost: dict[str, bool] = {}  # queue -> whether an operator asked
        self.resets: set[str] = set()  # names of queues that an operator wants given up
        self._seen: set[tuple[int, Ballot]] = set()
        self._heard_us: dict[tuple[str, str], int] = {}  # (queue, process that has some of it) -> when it last stepped
        world.watch(sent={Append: self._appends})
        world.steps.append(self._stepped)

    def _stepped(self, name: str) -> None:
        if "." not in name:
            return
        for id, hosted in self.world.machines[name].queues.items():
            if hosted.keeper.end and hosted.keeper.incs.get(hosted.keeper.voter, 0) <= hosted.keeper.log_inc:
                self._heard_us[id, name] = self.world.now_us

    def _appends(self, source: str, target: str, frame: Append) -> None:
        if frame.stream != CLUSTER:
            return
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            event = events.decode_event(entry.event) if not entry.origin else None
            # A sequencer that adopts it from another has not decided it.
            if isinstance(event, events.Lost) and (index, entry.ballot) not in self._seen:
                self._seen.add((index, entry.ballot))
                self._judge(source, event)

    def newest(self, queue: str, voter: str) -> tuple[str, Any] | None:
        """The process that keeps the queue for a voter: of several its newest."""
        found = [
            (machine.queues[queue].keeper, name)
            for name, machine in self.world.machines.items()
            if name.startswith(f"{voter}.") and queue in machine.queues
        ]
        if not found:
            return None
        keeper, name = max(found, key=lambda item: item[0].life)
        return name, keeper

    def has_log(self, queue: str, keeper: Any) -> bool:
        """Whether its log counts: it never lost it, or its return is committed, known to it or not."""
        return not keeper.blank or any(
            isinstance(event, events.Rejoin | events.Member)
            and keeper.log_inc == event.inc
            and keeper.voter == (event.voter if isinstance(event, events.Rejoin) else event.broker)
            for event in self._returns(queue)
        )

    def _returns(self, queue: str) -> list[Any]:
        log: dict[int, Entry] = self.watch.logs.get(queue, {})
        upto = self.watch.commits.get(queue, 0)
        own = [log[i] for i in range(1, upto + 1) if i in log and not log[i].origin]
        return [events.decode_event(entry.event) for entry in own]

    def _judge(self, sequencer: str, event: events.Lost) -> None:
        queue = event.queue
        voters = self.watch.voters.get(queue, [])
        kept = {voter: found for voter in voters if (found := self.newest(queue, voter)) is not None}
        logs = {voter: name for voter, (name, keeper) in kept.items() if self.has_log(queue, keeper)}
        if len(logs) >= len(voters) - len(voters) // 2:
            raise Violation(f"I29: {sequencer} drops {queue}, of {voters} there are the logs of {logs}")
        self.lost[queue] = event.asked
        if event.asked:
            if queue.rpartition("#")[0] not in self.resets:
                raise Violation(f"I29: {sequencer} drops {queue} for an operator, and nobody has asked")
            return
        patience_us = self.world.timing.lost_ms * 1000 - SLACK_US
        for voter, (name, keeper) in kept.items():
            silent_us = self.world.now_us - self._heard_us.get((queue, name), -(10**12))
            if (keeper.end or voter in logs) and silent_us < patience_us and self._linked(sequencer, name):
                raise Violation(f"I29: {sequencer} drops {queue} unasked while {name} has it up to {keeper.end}")

    def _linked(self, a: str, b: str) -> bool:
        return self.world.joined(a, b)


class Loss:
    """One such story. Arguments as `workload.Story`."""

    def __init__(self, seed: int, machines: Machines | None = None, stored: bool = False) -> None:
        rng = self.rng = random.Random(f"loss {seed}" + " of power" * stored)
        if stored:
            machines = disk_stories.STORED | (machines or {})
        brokers = tuple(f"b{i}" for i in range(1, rng.choice([2, 3, 3, 3, 3, 4, 5]) + 1))
        self.world = World(
            rng, codec=seed % 10 == 0, slice_ms=20, machines=machines, brokers=brokers, standby=True, replicas=rng.choice([0, 2])
        )  # fmt: skip
        self.disks = disk_stories.equip(self.world) if stored else None
        self.watch = Watcher(self.world)
        self.recovered = Recovered(self.disks, self.watch) if self.disks is not None else None
        self.keeping = Keeping(self.world, self.watch)
        self.ledger = Ledger(self.world, self.watch, Afterlife(self.world, self.watch), Credits(self.world).credit)
        self.rescues = Rescues(self.world, self.watch, self.ledger, rng, seed)
        self.clients: list[Client] = []
        self.users: list[User] = []
        self.queues = ["q1", "q2"]
        self.what = rng.choice(OF_POWER if stored else CATASTROPHES)
        self.operations = 0

    def run(self) -> int:
        """Raises Violation; returns the number of client operations."""
        self._set_up()
        for _ in range(self.rng.choice([10, 40])):
            self._send()
        getattr(self, "_" + self.what.replace(" ", "_"))()
        if self.rng.random() < 0.4:
            self._end_leader()
        end_us = self.world.now_us + AFTER_US
        if self.rng.random() < 0.5:
            self.world.run_for(self.rng.choice([0, 500_000, 3_000_000]))
            self.rescues.look(self.queues)
        while self.world.now_us < end_us:
            self._send()
            if self.rng.random() < 0.02:
                self._ask_reset(self.rng.choice(self.queues))
            self.world.run_for(self.rng.choice([5_000, 50_000, 400_000]))
        self._end()
        return self.operations

    # ---- clients

    def _client(self, broker: str) -> Client:
        client = Client(self.world, f"c{len(self.clients) + 1}", broker)
        self.clients.append(client)
        return client

    def _set_up(self) -> None:
        admin = self._client(self.world.brokers[0])
        for name in self.queues:
            admin.command("declare_queue", name=name)
        self.world.run_for(1_000_000)
        if any(reply is None or reply.code for reply in admin.replies.values()):
            raise Violation(f"I17: the queues are not declared after a second: {admin.replies}")
        for broker in self.world.brokers:
            client = self._client(broker)
            for name in self.queues:
                client.attach_sender("", name)
            browser = client.attach_receiver(self.rng.choice(self.queues), self.rng.choice(["browse", "consume"]))
            client.flow(browser, 1000)
            user = User(self.world, self.ledger, f"u-{broker}", broker, self.rng, self.rng.choice([0, 500]), True)
            user.sender("", self.rng.choice(self.queues), 100, self.rng.choice([None, 0.5, 2]))
            self.users.append(user)
        self.world.run_for(100_000)

    def _live(self) -> list[Client]:
        return [client for client in self.clients[1:] if client.alive and client.opened]

    def _send(self) -> None:
        for user in self.users:
            for outbox in user.outboxes.values():
                if user.alive and outbox.open and outbox.number < 200 and self.rng.random() < 0.1:
                    self.operations += 1
                    outbox.act(self.rng, 4)
        live = self._live()
        if live:
            client = self.rng.choice(live)
            handles = [handle for handle, link in client.links.items() if link.open and not link.mode]
            if handles and client.links[handles[0]].next < 200:
                self.operations += 1
                client.transfer(self.rng.choice(handles), self.rng.choice([1, 1, 5]))
        elif self.rng.random() < 0.1:
            serving = [b for b in self.world.brokers if self.world.serves(b)]
            if serving:
                client = self._client(self.rng.choice(serving))
                for name in self.queues:
                    client.attach_sender("", name)
        self.world.run_for(self.rng.choice([500, 5_000]))

    def _ask_reset(self, name: str) -> None:
        live = self._live()
        if live:
            self.operations += 1
            self.keeping.resets.add(name)
            self.rng.choice(live).command("reset_queue", name=name)

    # ---- what happens

    def _keepers(self) -> list[str]:
        """The replicas of one queue, in any order."""
        name = self.rng.choice(self.queues)
        found = [m.placement.of[q.id] for b in self.world.brokers if (m := self.world.machines.get(b)) is not None
                 and (q := m.wiring.queue(name)) is not None and q.id in m.placement.of]  # fmt: skip
        self.rng.shuffle(found)
        return found

    def _end_leader(self) -> None:
        for name in [n for n in self.world.machines if is_sequencer(n)]:
            if self.world.machines[name].election.role == "leading":
                self.world.crash(name)

    def _crash(self, names: list[str]) -> None:
        for name in names:
            self.world.crash(name)

    def _most(self) -> None:
        keepers = self._keepers()
        self._crash(keepers[: len(keepers) // 2 + 1])

    def _all(self) -> None:
        self._crash(self._keepers())

    def _few(self) -> None:
        keepers = self._keepers()
        self._crash(keepers[: (len(keepers) - 1) // 2])

    def _away(self) -> None:
        """Some die, and another cannot be heard for a while, with all it has."""
        keepers = self._keepers()
        dead = self.rng.randrange(1, len(keepers))
        self._crash(keepers[:dead])
        away = keepers[dead]
        us = self.rng.choice([1_000_000, 6_000_000, 9_000_000, 15_000_000])
        if self.rng.random() < 0.5:
            self.world.pause(away, us)
        else:
            for name in [n for n in self.world.machines if is_sequencer(n)]:
                self.world.cut_link(name, away, us)

    def _one_by_one(self) -> None:
        for keeper in self._keepers():
            self.world.crash(keeper)
            self.world.run_for(self.rng.choice([10_000, 300_000, 3_000_000]))

    def _brokers(self) -> None:
        brokers = list(self.world.brokers)
        self.rng.shuffle(brokers)
        self._crash(brokers[: len(brokers) // 2 + 1])

    def _power(self, brokers: list[str]) -> None:
        """These nodes lose power at once; they come back in any order."""
        assert self.disks is not None
        self.disks.stores.power(*brokers)

    def _blackout(self) -> None:
        """All nodes lose power, and with them all sequencers."""
        for name in [n for n in self.world.machines if is_sequencer(n) or is_ownership(n)]:
            self.world.crash(name)
        self._power(list(self.world.brokers))

    def _blackouts(self) -> None:
        for _ in range(self.rng.choice([2, 3])):
            self._blackout()
            self.world.run_for(self.rng.choice([100_000, 2_000_000, 12_000_000]))
            for _ in range(self.rng.choice([0, 10])):
                self._send()

    def _nodes(self) -> None:
        """Most nodes lose power; not the leader's."""
        brokers = list(self.world.brokers)
        self.rng.shuffle(brokers)
        self._power(brokers[: len(brokers) // 2 + 1])

    # ---- the end

    def _end(self) -> None:
        self.rescues.look(self.queues)
        waits = self._waits()
        for name in list(self.world.machines):
            self.watch.compare(name, True)
        serving = [b for b in self.world.brokers if self.world.serves(b)]
        wirings = self.watch.wiring.ids
        if self.disks is not None:
            self._wiring_is_there()
        elif self.what == "brokers":
            if self.keeping.lost:
                raise Violation(f"I29: most brokers were gone, and {self.keeping.lost} were dropped")
            if any(CLUSTER not in waits[broker] for broker in serving):
                raise Violation(f"I17: most brokers have lost their logs, and {serving} do not all say so: {waits}")
            return
        for queue in self.keeping.lost:
            self._heard(queue)
        for name, id in list(wirings.items()):
            told = all(id in waits[broker] for broker in serving)
            if not told and not self._goes_on(name):
                raise Violation(f"I17: queue {name} does not go on, and {serving} do not all say why: {waits}")
            if name in self.queues and told and all(waits[broker][id] == "reset" for broker in serving):
                self._given_up(name, id)

    def _waits(self) -> dict[str, dict[str, str]]:
        """Broker -> stream it says waits -> its fate."""
        machines = self.world.machines
        return {
            broker: {w.stream: w.fate for w in machines[broker].report().waiting}
            for broker in self.world.brokers
            if broker in machines
        }

    def _wiring_is_there(self) -> None:
        """I23: all that was declared is there, but for what is lost; and somebody serves."""
        serving = [b for b in self.world.brokers if self.world.serves(b)]
        if len(serving) < len(self.world.brokers):
            raise Violation(f"I17: of {self.world.brokers} only {serving} serve after a loss of power")
        lost = {id.rpartition("#")[0] for id in self.keeping.lost}
        for broker in serving:
            there = {queue.name for queue in self.world.machines[broker].wiring.queues()}
            if missing := set(self.queues) - there - lost:
                raise Violation(f"I23: {broker} does not know {missing} any more")

    def _heard(self, queue: str) -> None:
        name = queue.rpartition("#")[0]
        for client in self._live():
            for link in client.links.values():
                if link.target == name and link.attached and not link.ended and not link.closing:
                    raise Violation(f"I29: {queue} is lost, and {client.name} has not been told")

    def _goes_on(self, name: str) -> bool:
        """Whether something sent to it completes."""
        serving = [b for b in self.world.brokers if self.world.serves(b)]
        client = self._client(self.rng.choice(serving))
        handle = client.attach_sender("", name)
        client.transfer(handle, 1)
        self.world.run_for(5_000_000)
        return bool(client.links[handle].completed) or client.links[handle].ended

    def _given_up(self, name: str, id: str) -> None:
        """An operator is obeyed where nothing can be brought back."""
        self.keeping.resets.add(name)
        client = self._client(self.rng.choice([b for b in self.world.brokers if self.world.serves(b)]))
        number = client.command("reset_queue", name=name)
        self.world.run_for(5_000_000)
        reply = client.replies[number]
        if reply is None or reply.code or id in self.watch.wiring.ids.values():
            raise Violation(f"I17: {id} can never go on, and a reset of it is answered {reply}")
        self._heard(id)


def play(seed: int, machines: Machines | None = None, stored: bool = False) -> str:
    """The faults found in one story; "" for none. `stored`: the brokers have stores, and nodes lose power."""
    with tokens.of_seed(seed):
        story = Loss(seed, machines, stored)
        try:
            story.run()
        except Violation as violation:
            return str(violation)
        except Exception:
            return traceback.format_exc()
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.losses", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--start", type=int, default=1, help="the first")
    parser.add_argument("--stores", action="store_true", help="brokers with stores, whose nodes lose power")
    arguments = parser.parse_args()
    violations = 0
    for seed in range(arguments.start, arguments.start + arguments.seeds):
        wrong = play(seed, stored=arguments.stores)
        if wrong:
            violations += 1
            print(f"loss {seed}: {wrong}")
    print(f"losses={arguments.seeds} violations={violations}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
