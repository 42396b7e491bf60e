"""One seed's story: random clients do as they please, links break, and then everything comes to rest."""

from __future__ import annotations

import gc
import random
import re
import traceback
from collections.abc import Callable
from typing import NamedTuple

from mantamq.client.management import _declare_queue
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE
from msgspec.structs import replace

from . import alternates, defaults, disk_stories, faults, memories, sizes, tokens
from .actives import Actives
from .alerts import Alerted
from .alternates import Alternates
from .auto_deletes import AutoDeletes
from .boxes import HEADERS, Inbox, Outbox
from .checkers import Watcher
from .claims import Claims
from .clients import Client, Item, Link
from .closures import Closures
from .conditions import Conditions
from .credits import Credits
from .delays import Delays, Due
from .deliveries import Deliveries
from .disk_stories import has_stores
from .dissolved import Remains
from .drains import Drains
from .duplicates import MessageIds
from .exchanges import Exchanges
from .figures import Figures
from .flows import Flows
from .idle_queues import IdleQueues
from .kinds import Kinds, Orders
from .known_queues import KnownQueues
from .leases import Leases
from .ledger import Ledger
from .lifetimes import Lifetimes
from .lines import Line
from .made_names import MadeNames
from .message_moves import MessageMoves
from .model import Violation
from .modifies import Modifies, Undeliverable
from .moves import Moves
from .named_senders import NamedPrograms
from .no_locals import NoLocals
from .own_queues import OwnQueues
from .patterns import Patterns
from .policies import Policies
from .ranks import Ranks
from .recovered import Recovered
from .redirects import Redirected
from .relays import Relays
from .requests import Requests
from .resumes import Resumes
from .routes import Routes
from .selectors import Selectors
from .several_keys import SeveralKeys
from .singles import QUEUE as SINGLE
from .singles import Singles
from .stops import Stops
from .timeouts import Timeouts
from .users import User
from .world import BROKERS, START_US, Machines, World

OPERATIONS = 500
CAPACITY = 200
"""A sender has at most this many transfers under way, and one batch more."""
REST_US = 20_000_000
HEAL_US = 60_000_000
QUIET_US = 1_000_000
CLIENTS = 2_000
TAIL = 25
"""Frames shown before a violation."""
CODES = ("", "exists", "not-found", "unavailable", "in-use", "not-empty")
DELETED = re.compile("queue '(.*)' was deleted")
JOINING = "this broker is joining the cluster: connect to another member"
ALONE = 0.4
"""The share of stories with a queue that has one consumer, which gets it in order whatever broker it comes to."""
MANAGED = 0.05
"""The share of actions that are commands."""
FEW = 0.15
"""The share of stories whose brokers hold few bytes of transfers, so that clients are told to send no more."""
CONDITIONAL = 0.05
"""The share of those that delete a queue on a condition."""
CUT = 0.05
"""The share of turns at which lines of users break."""
USERS = (0.4, 0.7, 1.0)
"""Shares of clients that are programs on the client books; the others say whatever frame they like."""


class Story:
    """One seed from beginning to end.

    Attributes:
        operations: client operations so far. lives: it is in its middle, where anything goes.
        codec: every tenth seed passes its frames through the real codec.
        cuts: on half of the seeds, links to the sequencer and to Ownership break and heal.
        append_bytes: an `Append` carries no more, so that requests are cut in two.
        flow_limit: bytes and entries a member may be behind by; small, so that little traffic is much.
        flow_patience: when one who is behind is given up: by how many limits, after how many ms.
        users: programs on the client books; `share` of all clients.
        faults: on half of the seeds, processes die, stand still and are cut off (`faults.py`).
    """

    def __init__(
        self, seed: int, machines: Machines | None = None, faulty: bool | None = None, world: type[World] = World,
        stored: bool | None = None,
    ) -> None:  # fmt: skip
        self.seed = seed
        rng = self.rng = random.Random(seed)
        if stored is None:
            stored = machines is None and has_stores(seed)
        if stored:
            machines = disk_stories.machines(seed) | (machines or {})
        self.cuts = rng.random() < 0.5
        faulty = seed % 2 == 0 if faulty is None else faulty
        brokers = BROKERS
        if faulty:
            brokers = tuple(f"b{i}" for i in range(1, rng.choice([1, 2, 3, 3, 3, 3, 3, 5]) + 1))
        self.append_bytes = rng.choice([DEFAULT.append_bytes, 1]) if faulty else DEFAULT.append_bytes
        usual = DEFAULT.backlog_bytes, DEFAULT.backlog_entries
        self.flow_limit = rng.choice([usual, (2_000, 40), (600, 100), (600, 15)])
        self.flow_patience = 20 if faulty else 1000, rng.choice([500, 1_500]) if faulty else 60_000
        few = Limits(uncommitted_bytes=600) if rng.random() < FEW else DEFAULT
        limits = replace(
            sizes.at_most(self.append_bytes, few),
            backlog_bytes=self.flow_limit[0],
            backlog_entries=self.flow_limit[1],
            flow_give_up=self.flow_patience[0],
            queue_bytes=defaults.drawn(seed),
            memory_bytes=memories.drawn(seed),
        )
        self.world = world(
            rng,
            codec=seed % 10 == 0,
            slice_ms=rng.choice([5, 5, 20, 50]),
            timing=Timing(
                backlog_look_ms=5,
                backlog_patience_ms=self.flow_patience[1],
                letters_wait_ms=self.flow_patience[1] * 3 // 2,
            ),
            limits=limits,
            machines=machines,
            brokers=brokers,
            standby=faulty,
        )
        self.disks = disk_stories.equip(self.world) if stored else None
        if stored:
            self.world.durable = disk_stories.lasting(seed)
            self.world.blackouts = disk_stories.all_lasting(seed)
        self.faults = faults.Faults(self.world, *faults.drawn(seed)) if faulty else None
        self.watch = Watcher(self.world)
        if self.world.stores is not None:
            self.world.stores.replaced.append(self.watch.replaced)
        self.recovered = Recovered(self.disks, self.watch) if self.disks is not None else None
        self.moves = Moves(self.world, seed)
        self.watch.before_commit.append(self.moves.before)
        if self.faults is not None:
            self.faults.voters, self.faults.deleted = self.watch.voters, self.watch.gone
        self.deliveries = Deliveries(self.world, self.watch)
        self.alternates = Alternates(self.world, self.watch)
        self.undeliverable = Undeliverable(self.world)
        self.drains = Drains(self.world, self.watch, self.deliveries, self.undeliverable)
        self.routes = Routes(self.world)
        self.alerted = Alerted(self.world, self.watch, faulty)
        self.conditions = Conditions(self.world, self.watch)
        self.orders = Orders(self.world, self.watch, self.deliveries, self.undeliverable)
        self.resumes = Resumes(self.world, self.watch)
        self.defaults = defaults.Defaults(self.watch, limits.queue_bytes)
        self.leases = Leases(self.world)
        self.flows = Flows(self.world, self.watch, self.faults.missing if self.faults else lambda: 0)
        self.memories = memories.Memories(
            self.world, self.watch, self.flows, seed, not (faulty or stored or self.moves.on)
        )
        little = self.flow_limit[0] < DEFAULT.backlog_bytes
        padding = (10, 40) if little else (10, 60, 300)
        self.ledger = Ledger(self.world, self.watch, self.deliveries.afterlife, Credits(self.world).credit, padding)
        self.ledger.modifies = Modifies(seed)
        self.ledger.stops = Stops(seed)
        self.ledger.several = SeveralKeys(seed)
        self.ledger.ids = MessageIds(seed)
        self.ledger.delays, self.due = Delays(seed), Due(self.world, self.watch)
        self.operations = 0
        self.lives = False
        self.clients: list[Client] = []
        self.users: list[User] = []
        self._lined: list[Client] = []  # clients for whom nobody else has come yet
        self._unended: list[User] = []  # and such users
        self.share = rng.choice(USERS)
        self.kinds = Kinds(seed)
        self.more = Exchanges(seed, self.world)
        self.relays = Relays(self.world, self.watch, seed)
        self.selectors = Selectors(seed)
        self.no_locals = NoLocals(self.world, seed)
        self.claims = Claims(self.world, self.watch, seed)
        self.figures = Figures(self.world, self.watch, self.deliveries.afterlife, seed)
        self.ranks = Ranks(self.world, self.watch, seed, self.undeliverable)
        self.actives = Actives(self.world, self.watch, seed)
        self.auto_deletes = AutoDeletes(self.world, self.watch, seed)
        self.idle_queues = IdleQueues(self.world, self.watch, seed)
        self.remains = Remains(self.world, self.watch, self, seed)
        self.made_names = MadeNames(self.watch, seed)
        self.closures = Closures(self.world, seed)
        self.lifetimes = Lifetimes(self.world, self.watch)
        self.timeouts = Timeouts(self.world, self.watch)
        self.message_moves = MessageMoves(self.watch, self.deliveries.afterlife, seed)
        self.named = NamedPrograms(self.world, self.watch, seed)
        self.own_queues = OwnQueues(self.world, self.watch, seed)
        self.known_queues = KnownQueues(self.world, self.watch)
        self.policies = Policies(self.watch, seed)
        self.patterns = Patterns(self.world, self.watch, seed)
        self.requests = Requests(self.world, self.watch, seed)
        self.redirects = Redirected(self.world, self.watch, seed)
        self._parts: dict[str, tuple[str, ...]] = {}  # queue -> the selectors by which it is emptied
        self.single: User | None = None
        self.singles: Singles | None = None
        self.queues: list[str] = []
        self.temporary: list[str] = []
        self.exchanges: list[str] = []
        self._temporaries = 0

    def run(self) -> int:
        """Raises Violation; returns the number of client operations."""
        with tokens.of_seed(self.seed):
            self._set_up()
            self.lives = True
            self._live()
            self.lives = False
            self._rest()
        return self.operations

    def client(self, broker: str | None = None) -> Client:
        client = Client(self.world, f"c{len(self.clients) + 1}", broker or self.rng.choice(self.serving()))
        self.clients.append(client)
        self._lined.append(client)
        return client

    def user(self, reconnects: bool | None = None) -> User:
        rng = self.rng
        heartbeat_ms = rng.choice([0, 0, 100, 500])
        user = User(
            self.world, self.ledger, f"u{len(self.users) + 1}", rng.choice(self.serving()), rng, heartbeat_ms,
            rng.random() < 0.9 if reconnects is None else reconnects,
        )  # fmt: skip
        self.users.append(user)
        self._unended.append(user)
        return user

    def serving(self) -> list[str]:
        """Brokers that take clients, as far as one can know."""
        return [b for b in self.world.brokers if self.world.serves(b)] or list(self.world.brokers)

    def until(self, done: Callable[[], bool], what: str, limit_us: int = REST_US) -> None:
        """Let time pass until `done()`; bounded simulated time is invariant I17."""
        end = self.world.now_us + limit_us
        while not done():
            if self.world.now_us >= end:
                raise Violation(f"I17: not within {limit_us / 1e6:g} simulated seconds: {what}{self._stuck()}")
            self.world.run_for(5_000)

    def _stuck(self) -> str:
        """Users that are not at rest, for the reader."""
        return "".join(f"; {user.state()}" for user in self.users if user.alive and not user.behave(False))

    # ---- the beginning: queues, bindings, senders and receivers

    def _set_up(self) -> None:
        rng = self.rng
        admin = self.client()
        roomy = defaults.roomy(self.world.limits.queue_bytes)
        admin.command("declare_queue", name="dead", arguments=roomy, **self.declared_as("dead"))
        admin.command("bind", exchange="amq.fanout", queue="dead")
        keeper = self.user(True)
        self.until(
            lambda: keeper.opened and all(reply is not None for reply in admin.replies.values()),
            "there is a queue for the rejected",
        )
        alternates.declare_grave(keeper)
        self.until(lambda: keeper.idle, "there is an exchange for the rejected")
        self.queues = ["dead", *(f"q{i}" for i in range(rng.choice([1, 2, 3])))]
        for name in self.queues[1:]:
            self._declare_rivals(name)
        admin.command("declare_exchange", name="topics", type="topic")
        admin.command("bind", exchange="topics", queue=self.queues[1], key="x.#")
        admin.command("bind", exchange="topics", queue=self.queues[-1], key="x.*")
        admin.command("bind", exchange="amq.direct", queue=self.queues[-1], key="k")
        admin.command("declare_exchange", name="everybody", type="fanout")
        for name in self.queues[1:]:
            admin.command("bind", exchange="everybody", queue=name)
        admin.command("bind", exchange=HEADERS, queue=self.queues[1], arguments={"c": 1})
        admin.command(
            "bind", exchange=HEADERS, queue=self.queues[-1], key="2", arguments={"c": 1, "d": "x", "x-match": "any"}
        )
        if rng.random() < ALONE:
            admin.command("declare_queue", name=SINGLE, **self.declared_as(SINGLE))
            admin.command("bind", exchange="everybody", queue=SINGLE)
            admin.command("bind", exchange="topics", queue=SINGLE, key="x.y")
        self.until(lambda: all(reply is not None for reply in admin.replies.values()), "bindings are answered")
        alternates.declare(keeper, self.queues)
        self.more.declare(keeper, self.queues)
        self.relays.declare(keeper, self.queues)
        self.until(lambda: keeper.idle, "exchanges have their alternates")
        self._unended.remove(keeper)
        keeper.leave()
        if SINGLE in self.watch.wiring.ids:
            self.singles = Singles(self.world, self.watch)
            self.single = self.user(True)
            self.single.receiver(SINGLE, rng.choice([1, 10, 100]), single=True, exclusive=self.claims.some)
        for _ in range(rng.choice([2, 3])):
            self._new_sender()
        for _ in range(rng.choice([2, 3, 5])):
            self._new_receivers()
        if self.more.some:
            self._send_by_more()
        if self.relays.some:
            self.relays.senders(self.user(True))

    def _send_by_more(self) -> None:
        """By exchanges of more kinds; of one it shows only when its senders are there that it looks at properties."""
        user, keeper = self.user(True), self.user(True)
        self.more.senders(user)
        self.until(lambda: user.idle and keeper.opened and all(box.core for box in user.outboxes.values()), "attaches")
        self.more.declare_late(keeper)
        self.until(lambda: keeper.idle, "an exchange is bound to another behind the back of its senders")
        self._unended.remove(keeper)
        keeper.leave()

    def declared_as(self, name: str) -> dict[str, bool]:
        """What a queue is declared with besides."""
        return alternates.DURABLE if self.world.durable(name) else alternates.DECLARED

    def _declare_rivals(self, name: str) -> None:
        """The same name on several brokers at once, now and then with another definition: one of them wins."""
        rng = self.rng
        alternate = rng.choice(["", "amq.fanout", alternates.GRAVE])
        kind_of = self.kinds.kind(alternate)
        asked: list[tuple[Client, int, int]] = []
        for broker in rng.sample(self.serving(), rng.choice([1, 2, 3][: len(self.serving())])):
            client = self.client(broker)
            kind = int(rng.random() < 0.3)
            arguments = self.kinds.spelled(kind_of) | self.actives.spelled(name) | ({"other": 1} if kind else {})
            asked.append(
                (
                    client,
                    client.command(
                        "declare_queue", name=name, alternate=alternate, arguments=arguments, **self.declared_as(name)
                    ),
                    kind,
                )
            )
        self.until(lambda: all(client.replies[number] for client, number, _ in asked), "declares are answered")
        codes = {(client.replies[number].code, kind) for client, number, kind in asked}  # type: ignore[union-attr]
        won = {kind for code, kind in codes if code == ""}
        if len(won) != 1 or {code for code, _ in codes} - {"", "exists"} or len(codes) > 2:
            raise Violation(f"declares of {name} on several brokers are answered {codes}")
        if not all(self.world.machines[broker].wiring.queue(name) for broker in self.world.brokers):
            raise Violation(f"B2: a declare of {name} is complete and some broker does not show it")

    def _new_sender(self) -> None:
        rng = self.rng
        if rng.random() < self.share:
            user = self.user()
            for _ in range(rng.choice([1, 2])):
                self._user_sends(user)
            if rng.random() < 0.3:
                self._user_receives(user)
            return
        client = self.client()
        for _ in range(rng.choice([1, 2])):
            exchange, key = rng.choice([("topics", "x.y"), ("topics", None), ("amq.direct", "k"), ("amq.direct", "none"),
                                        rng.choice(alternates.SENT_TO), *[("", name) for name in self.queues[1:] * 2]])  # fmt: skip
            client.attach_sender(exchange, key, rng.random() < 0.3)

    def _user_sends(self, user: User) -> None:
        rng = self.rng
        direct = [("", name) for name in [*self.queues[1:] * 2, *[SINGLE] * (self.single is not None)]]
        exchange, key = rng.choice([("topics", "x.y"), ("topics", None), ("amq.direct", "k"), ("amq.direct", "none"),
                                    ("everybody", ""), (HEADERS, ""), (HEADERS, None), rng.choice(alternates.SENT_TO), *direct, *direct])  # fmt: skip
        limit_s = rng.choice([None, 60, 60, 60, 0.3, 1, 3])
        user.sender(exchange, key, rng.choice([1, 5, 50, CAPACITY]), limit_s, rng.random() < 0.3)

    def _user_receives(self, user: User) -> None:
        rng = self.rng
        mode = "browse" if rng.random() < 0.15 else "consume"
        queue, capacity, accept = rng.choice(self.queues), rng.choice([0, 1, 3, 20, 100, 1000]), rng.random() > 0.15
        bounds = mode == "consume" and accept and capacity > 0 and rng.random() < 0.3
        window = "unaccepted" if bounds else "unfetched"
        selector, consumes = self.selectors.one(), mode == "consume"
        alone, priority = consumes and self.claims.one(), self.ranks.one() if consumes else 0
        own = self.no_locals.one()
        user.receiver(
            queue,
            capacity,
            mode,
            accept,
            window=window,
            selector=selector,
            exclusive=alone,
            priority=priority,
            no_local=own,
        )
        if own and queue != self.queues[0] and self.no_locals.sends():  # to the alternate's nobody else sends
            user.sender("", queue, 20, 60, False)

    def _new_receivers(self) -> None:
        rng = self.rng
        if rng.random() < self.share:
            user = self.user()
            for _ in range(rng.choice([1, 1, 2])):
                self._user_receives(user)
            return
        client = self.client()
        for _ in range(rng.choice([1, 1, 2])):
            mode = "browse" if rng.random() < 0.1 else "consume"
            queue, accept = rng.choice(self.queues), rng.random() > 0.15
            consumes = mode == "consume"
            alone, priority = consumes and self.claims.one(), self.ranks.one() if consumes else 0
            client.attach_receiver(queue, mode, accept, exclusive=alone, priority=priority)

    # ---- the middle: anything goes

    def _live(self) -> None:
        rng, world = self.rng, self.world
        batch = rng.choice([1, 4, 64])
        pace_us = rng.choice([1000, 4000, 4000] if self.faults is not None else [200, 1000, 4000])
        done, since_us = self.operations, world.now_us
        if self.disks is not None:
            self.disks.stores.stalls = disk_stories.stalls(self.seed)
        while self.operations < OPERATIONS:
            if self.operations > done:
                done, since_us = self.operations, world.now_us
            elif world.now_us - since_us > HEAL_US:
                raise Violation(f"I17: nobody was served for {HEAL_US / 1e6:g} simulated seconds")
            world.run_for(rng.randrange(1, 2 * pace_us))
            for _ in range(rng.choice([1, 2, 4])):
                self._act(batch)
            if self.more.passing() and (live := [client for client in self._lined if client.opened and client.alive]):
                self.more.pass_by(live[-1], self.queues, self.deliveries.passing)
            if self.relays.some and (users := [user for user in self._unended if user.opened and not user.over]):
                self.relays.bind_late(users[-1])
            self.moves.maybe()
            if self.moves.left:
                self._replace_the_cut_off()
            if self.faults is not None:
                if rng.random() < 0.1:  # long enough for somebody to be missed, now and then
                    world.run_for(rng.choice([10_000, 10_000, 100_000, 700_000, 1_500_000]))
                self.faults.maybe(rng)
                self._replace_the_cut_off()
            self._cut_users()
            self._replace_the_cut_off()
            if self.claims.due():
                self._claim()
            self.auto_deletes.maybe(self)
            self.idle_queues.maybe(self)
            self.made_names.maybe(self)
            self.closures.maybe(self)
            self.message_moves.maybe(self)
            self.named.maybe(self)
            self.own_queues.maybe(self)
            self.policies.maybe(self)
            self.patterns.maybe(self)
            self.requests.maybe(self)
            self.redirects.maybe(self)
            self.figures.maybe([client for client in self._lined if client.opened and client.alive])
            if self.cuts and rng.random() < 0.1 and world.links_of_order():
                world.cut_link(*rng.choice(world.links_of_order()), down_us=rng.choice([100, 2_000, 50_000]))

    def _claim(self) -> None:
        """Somebody tries to have a queue alone, or to come beside others; and somebody else may leave it meanwhile."""
        claims = self.claims
        if claims.holders() and claims.rng.random() < 0.5:
            self._let_go(*claims.rng.choice(claims.holders()))
        queue = claims.rng.choice(self.queues)
        if claims.rng.random() < self.share:
            self.user().receiver(queue, claims.rng.choice([1, 20, 100]), exclusive=claims.one())
        else:
            self.client().attach_receiver(queue, exclusive=claims.one())

    def _let_go(self, line: Client, handle: int) -> None:
        """A consumer is closed."""
        if isinstance(line, Line):
            inbox = line.user.inboxes[handle]
            if inbox.open and inbox.user is not self.single:
                line.user.start(line.user.close_receiver(inbox))
        elif line.alive and line.links[handle].open and not line.links[handle].closing:
            line.detach(handle)

    def _replace_the_cut_off(self) -> None:
        """For each client that lost its broker another comes, at another member; not without end while none serves."""
        for client in self._lined:
            if not client.alive and len(self.clients) < CLIENTS:
                client.replaced = True
                senders = any(not link.mode for link in client.links.values())
                (self._new_sender if senders else self._new_receivers)()
        for user in self._unended:
            if user.over and len(self.users) < CLIENTS:
                user.replaced = True
                (self._new_sender if user.outboxes else self._new_receivers)()
        self._lined = [client for client in self._lined if not client.replaced]
        self._unended = [user for user in self._unended if not user.replaced]

    def _cut_users(self) -> None:
        """Lines of users break, and some users leave."""
        rng = self.rng
        if rng.random() < CUT:
            lined = [user for user in self._unended if user.line is not None]
            for user in rng.sample(lined, min(len(lined), rng.choice([1, 1, 2, len(lined)]))):
                user.cut()
        elif rng.random() < 0.01:
            live = [user for user in self._unended if user.alive and user is not self.single]
            if live:
                rng.choice(live).leave()

    def _act(self, batch: int) -> None:
        rng = self.rng
        live = [client for client in self._lined if client.opened and client.alive]
        users = [user for user in self._unended if user.alive and user.opened]
        if rng.random() < MANAGED and (live or users):
            self.operations += 1
            self._manage(rng.choice([*live, *users]))
            return
        open_links: list[tuple[Client, int, Link] | Outbox | Inbox]
        open_links = [(c, h, link) for c in live for h, link in c.links.items() if link.open]
        open_links += [link for user in users for link in user.links() if link.open]
        if not open_links:
            self.world.run_for(1_000)
            if rng.random() < 0.05:
                self._new_sender()
                self._new_receivers()
            return
        chosen = rng.choice(open_links)
        self.operations += 1
        if isinstance(chosen, Outbox):
            chosen.act(rng, batch)
            if chosen.closing:
                self._new_sender()
            return
        if isinstance(chosen, Inbox):
            chosen.act(rng)
            if chosen.closing:
                self._new_receivers()
            return
        client, handle, link = chosen
        if link.mode:
            self._receive(client, handle, link)
        else:
            self._send(client, handle, link, batch)

    def _manage(self, client: Client | User) -> None:
        rng = self.rng
        what = rng.random()
        if what < 0.2:
            self._temporaries += 1
            name = f"t{self._temporaries}"
            alternate, lasting = rng.choice(["", "amq.fanout", alternates.GRAVE]), rng.random() < 0.3
            durable = bool(self.declared_as(name)) if self.disks is not None else lasting and bool(alternates.DECLARED)
            if isinstance(client, User):
                typed = self.kinds.typed(self.kinds.kind(alternate, fleeting=True)) | self.actives.typed(name)
                mine = (rng.choice([None, {"mine": 1}]) or {}) | typed.pop("arguments", {})
                client.ask(_declare_queue(name, durable, alternate, mine, False, **typed))
            else:
                spelled = self.kinds.spelled(self.kinds.kind(alternate, fleeting=True)) | self.actives.spelled(name)
                client.command(
                    "declare_queue", name=name, alternate=alternate, arguments=spelled, **self.declared_as(name)
                )
            self.temporary.append(name)
        elif what < 0.4 and self.temporary:
            name = rng.choice(self.temporary)
            if isinstance(client, User):
                client.sender("", name, rng.choice([1, 50]))
                self.user().receiver(name, rng.choice([0, 3, 100]))
            else:
                client.attach_sender("", name)
                self.client().attach_receiver(name)
        elif what < 0.4 + CONDITIONAL and self.temporary:
            name = rng.choice(self.temporary)
            conditions = rng.choice([(True, False), (False, True), (False, True), (True, True)])
            client.command("delete_queue", name=name, if_unused=conditions[0], if_empty=conditions[1])
        elif what < 0.45 + CONDITIONAL and self.temporary:
            self.temporary.remove(name := rng.choice(self.temporary))
            for other in rng.sample(self.clients, len(self.clients) // 2):
                if other.alive:
                    other.command("purge", name=name)
                    for handle, link in other.links.items():
                        if link.target == name and link.open:
                            other.detach(handle)  # crosses the broker's own word that the queue is gone
            for user in self.users:
                for link in user.links():
                    if link.open and name in (getattr(link, "target", ""), getattr(link, "queue", "")):
                        closing = (
                            user.close_sender(link, rng.random() < 0.5)
                            if isinstance(link, Outbox)
                            else user.close_receiver(link)
                        )
                        if rng.random() < 0.5:
                            user.start(closing)
            client.command("delete_queue", name=name)
        elif what < 0.7:
            self._manage_exchanges(client if isinstance(client, Client) else self.client())
        elif what < 0.75 and isinstance(client, User):
            alternates.declare_again(client, rng)
        elif what < 0.85:
            client.command("purge", name=rng.choice(self.queues + self.temporary), count=rng.choice([0, 1, 5]))
        else:
            client.command(rng.choice(["queues", "status", "bindings", "exchanges"]))

    def _manage_exchanges(self, client: Client) -> None:
        """Exchanges come and go under their senders, at other brokers as well."""
        rng = self.rng
        if self.exchanges and rng.random() < 0.4:
            client.command("delete_exchange", name=self.exchanges.pop(rng.randrange(len(self.exchanges))))
        elif self.exchanges:
            self.client().attach_sender(rng.choice(self.exchanges), "x")
        else:
            self._temporaries += 1
            self.exchanges.append(name := f"e{self._temporaries}")
            self.deliveries.passing.add(name)
            client.command("declare_exchange", name=name, type="fanout", alternate=rng.choice(["", *self.exchanges]))
            client.command("bind", exchange=name, queue=self.queues[1])
            client.attach_sender(name, "x")

    def _send(self, client: Client, handle: int, link: Link, batch: int) -> None:
        rng = self.rng
        chance = rng.random()
        if chance < 0.01:
            client.detach(handle)
            self._new_sender()
        elif chance < 0.015:
            self.world.cut_client(client.name, client.broker, rng.random() < 0.5)
            self._new_sender()
        elif link.next - 1 - len(link.completed) - len(link.failed) < CAPACITY:
            count = rng.choice([1, batch])
            ttl = [rng.randrange(count), rng.choice([0, 20, 200])] if rng.random() < 0.1 else None
            keys = None if link.target else [rng.choice(["x", "x.y", "x.y.z", "y"]) for _ in range(count)]
            client.transfer(handle, count, ttl, keys)

    def _receive(self, client: Client, handle: int, link: Link) -> None:
        rng = self.rng
        chance = rng.random()
        if chance < 0.35 or (not link.held and chance < 0.8):
            drain = rng.random() < 0.2 and not link.draining
            client.flow(handle, rng.choice([1, 3, 20, 100]), rng.choice([-1, -1, -1, 50, 20]), drain)
        elif chance < 0.8:
            self._settle_some(client, handle, link)
        elif chance < 0.93:
            if link.accept:
                client.settle(handle, rng.choice([ACCEPT, RELEASE, REJECT]), self._stale_items(client, link))
        elif chance < 0.96:
            client.detach(handle)
            self._new_receivers()
        elif chance < 0.98:
            self.world.cut_client(client.name, client.broker, rng.random() < 0.5)
            self._new_receivers()

    def _settle_some(self, client: Client, handle: int, link: Link) -> None:
        rng = self.rng
        count = rng.randrange(1, len(link.held) + 1)
        items = link.held[:count] if rng.random() < 0.7 else rng.sample(link.held, count)
        kind = rng.choices([ACCEPT, RELEASE, REJECT], [6, 2, 1])[0]
        # Never undeliverable here: of some queues such a client is the only consumer in the end.
        client.settle(handle, kind, items, self.ledger.modifies.instead(False) if kind == RELEASE else None)

    def _stale_items(self, client: Client, link: Link) -> list[Item]:
        """Acquisitions that are over, or somebody else's, or nobody's; now and then with a good one among them."""
        rng = self.rng
        items = [(1_000_000 + rng.randrange(50), rng.randrange(1, 200))]
        if link.past:
            items += rng.sample(link.past, min(len(link.past), rng.choice([1, 3])))
        # Of the same broker and queue: elsewhere the same number may be on its way to this very receiver.
        others = [
            item
            for other_client in self.clients
            if other_client.broker == client.broker
            for other in other_client.links.values()
            if other is not link and other.target == link.target
            for item in other.held[-2:]
        ]
        if others and rng.random() < 0.5:
            items.append(rng.choice(others))
        if link.held and rng.random() < 0.3:
            items.append(link.held[-1])
        return list(dict.fromkeys(items))

    # ---- the end: everybody behaves; every request is answered and the queues drain (I17)

    def _rest(self) -> None:
        rng, world = self.rng, self.world
        self.memories.calm()
        if self.disks is not None:  # else a flush may stand still for all of the rest: what waits for it has no answer
            self.disks.stores.calm()
        if self.faults is not None:
            self.faults.heal()
            self.until(self.faults.healthy, "the cluster is whole again after all faults", HEAL_US)
            if rng.random() < 0.3:
                self.faults.lose_one(rng)
                self.until(self.faults.healthy, "the others do without one that died", HEAL_US)
                self.faults.give_up_the_lost()
                self.until(self.faults.healthy, "who died for good is out of the voters", HEAL_US)
            self._replace_the_cut_off()
        elif self.cuts:  # what is lost last, no later traffic brings back
            world.run_for(rng.choice([0, 500, 2_000, 5_000, 10_000]))
            gap_us = rng.choice([0, 0, 200, 2_000])
            for pair in world.links_of_order():
                if rng.random() < 0.8:
                    world.run_for(gap_us)
                    world.cut_link(*pair, down_us=rng.choice([100, 2_000, 50_000]))
        if not (self.faults is not None and self.faults.lame):
            self.until(self.moves.done, "who joins has joined, and who leaves has left", HEAL_US)
            self._replace_the_cut_off()
        world.run_for(150_000)
        self.until(
            lambda: all(
                user.over or (user.conversation.whole and (user.behave(False) or self._held_back()))
                for user in self.users
            ),
            "every user has found a broker that serves it, and all it said is answered", HEAL_US,
        )  # fmt: skip
        self._replace_the_cut_off()
        self.until(self.flows.lifted, "flow control is lifted")
        self.until(
            lambda: not self.watch.unanswered, "requests are answered though nobody does anything more",
            HEAL_US,  # dead letters among them, of thousands that go one at a time where a piece takes no more
        )  # fmt: skip
        self.named.rest(self)
        # One before it may look for a broker where none is any more, before it hears anything or gives up.
        self.until(self.named.over, "the last of each name has it, and no other", HEAL_US)
        self.until(self.requests.over, "who asks has an answer or none, and no answer is left over")
        self.requests.leave()
        self.own_queues.leave()
        # A queue for answers waits for its client, where that could not say that it leaves, for longer than others.
        waits_us = HEAL_US if self.requests.queues else REST_US
        self.until(self.own_queues.over, "what was one client's has gone with that", waits_us)
        self.until(self.auto_deletes.over, "what has lost its last consumer has gone")
        self.until(self.idle_queues.over, "what nobody has used has gone")
        self.until(self.lifetimes.over, "what has expired has gone")
        self.until(self.timeouts.over, "who holds a message for too long has been ended")
        alive = [client for client in self.clients if client.alive] or [self.client()]
        for name in self.temporary[::2]:
            alive[0].command("delete_queue", name=name)
        del self.temporary[::2]
        if self.claims.some or self.actives.queues():
            self.until(self._knows_its_line, "every user knows whether its line is dead, and has looked", HEAL_US)
        if self.claims.some:
            self._try_claims()
        for name in self.actives.queues():  # who is first and takes nothing would have the others wait for ever
            self.until(lambda name=name: not self._sent_away(name), "those in line have gone")
        # Those who are there leave, stay beside new ones, or must manage by themselves: what came back must find them.
        how = rng.choice(["leave", "stay", "alone"])
        receivers = [(c, h, link) for c in alive for h, link in c.links.items() if link.open and link.mode]
        draining: dict[str, list[tuple[Client, Link]]] = {}
        for client, handle, link in receivers:
            if how == "leave" or (how == "alone" and not link.accept):
                client.detach(handle)
            elif how == "alone":
                client.flow(handle, 100_000)
                draining.setdefault(link.target, []).append((client, link))
            elif rng.random() < 0.5:
                client.flow(handle, 5, 1)  # too little for any message: it must not stand in the others' way
        self._users_part(how)
        world.run(max(world.now_us, world.noticed_us))
        served = set(draining)
        if self.single is not None and any(inbox.open for inbox in self.single.inboxes.values()):
            served.add(SINGLE)
        drainers = [
            self.client(broker) for broker in rng.sample(self.serving(), rng.choice([1, 2, 3][: len(self.serving())]))
        ]
        for drainer in drainers:
            for name in sorted(self.watch.wiring.ids):
                if name not in served:
                    for part in self._parts_of(name):
                        handle = drainer.attach_receiver(name, selector=part)
                        draining.setdefault(name, []).append((drainer, drainer.links[handle]))
        alive += drainers
        self.until(
            lambda: all(link.attached or link.ended for c in alive if c.alive for link in c.links.values()), "attaches"
        )
        for drainer in drainers:
            for handle, link in drainer.links.items():
                if link.open:
                    drainer.flow(handle, 100_000)
        self.due.calm_ms = world.now_us // 1000
        self.until(
            lambda: self._drain(draining, alive) and self._accept_all(alive) and self._behaves() and self._drained(),
            "queues are drained",
            HEAL_US,  # some take one message at a time, of a thousand, with two rounds or flushes for each
        )
        self.due.over()
        links = [(client, handle, link) for client in alive for handle, link in client.links.items()]
        self.until(lambda: all(len(link.answered) == link.settles or link.ended for _, _, link in links), "settlements")
        self.until(lambda: all(link.ended for _, _, link in links if link.closing), "detaches")
        self.until(lambda: not any(link.draining and link.open for _, _, link in links), "drains")
        # One that comes from a broker that keeps the lock hears "nothing more" when it has waited for what it held there.
        self.until(lambda: not any(user.drains() for user in self.users if user.alive), "drains of users")
        self.until(self.flows.lifted, "flow control is lifted")
        self.until(lambda: all(map(_all_told, links)), "transfers are complete")
        self.until(
            lambda: all(reply for client in alive if client.alive for reply in client.replies.values()),
            "commands are answered",
        )
        # A replica may have been given up just now, and a user be on its way to another broker.
        self.until(lambda: all(user.conversation.whole for user in self.users if user.alive), "users are whole again")
        for user in self.users:
            user.open_windows()
        self.until(self.auto_deletes.over, "what has lost its last consumer has gone")
        self.until(self.idle_queues.over, "what nobody has used has gone")
        if self.disks is not None:
            self.until(self.disks.stores.steady, "no flush that stood still goes on")
        self._finish(alive)

    def _try_claims(self) -> None:
        """Nobody has a queue alone any more; who wants it so gets it, and others do not, and then again."""
        self.world.run(max(self.world.now_us, self.world.noticed_us))
        name = self.claims.rng.choice([name for name in self.queues if name not in self.actives.queues()])
        self.until(lambda: not self._sent_away(name), "consumers have gone")
        for _ in range(2):
            one, other = self.client(), self.client()
            handle = 0

            def has_it(one: Client = one) -> bool:
                """It asks again while those who have gone are not known to have, or have only just come."""
                nonlocal handle
                if not handle or one.links[handle].ended:
                    self._sent_away(name)
                    handle = one.attach_receiver(name, exclusive=True)
                return one.links[handle].attached and not one.links[handle].ended

            self.until(has_it, f"{name} is one consumer's alone")
            for exclusive in (False, True):
                link = other.links[other.attach_receiver(name, exclusive=exclusive)]
                self.until(lambda link=link: link.attached or link.ended, "it is told")
                if link.code != "in-use":
                    raise Violation(f"{name} is {one.name}'s alone, and {other.name} comes beside it")
            one.detach(handle)
            self.until(lambda one=one, handle=handle: one.links[handle].ended, "it has gone")
        self.claims.tried += 1

    def _sent_away(self, name: str) -> bool:
        """Have those leave who consume from a queue, or have another one alone; whether there were any."""
        claims = self.claims
        here = [
            (line, handle)
            for line, handle in claims.holders(alone=False)
            if (claims.alone(line, handle) or claims.queue(line, handle) == name)
            and (self.single is None or claims.client(line) != self.single.name)
        ]
        for line, handle in here:
            self._let_go(line, handle)
        coming: list[Link | Inbox] = [  # asked to come, and not there yet
            link for c in self.clients if c.alive for link in c.links.values()
            if link.mode == "consume" and link.target == name and not link.attached and not link.ended
        ]  # fmt: skip
        for user in self.users:
            for inbox in user.inboxes.values():
                if inbox.queue != name or inbox.browse or inbox.ended or user.over or user is self.single:
                    continue
                if inbox.open:
                    user.start(user.close_receiver(inbox))
                if inbox.core is None or not user.conversation.detached(inbox.handle):
                    coming.append(inbox)
        return bool(here or coming)

    def _knows_its_line(self) -> bool:
        """Whether all users have a line that is alive, or none any more. One whose line is silent since before the end
        takes it for whole until its heartbeat says otherwise; if all brokers it has heard of have left meanwhile, it
        looks for another in vain, longer than consumers may take to go."""
        return all(
            user.over or (user.conversation.whole and user.line is not None and user.line.name in self.world.clients)
            for user in self.users
        )

    def _held_back(self) -> bool:
        """Whether some queue holds its producers back: then what waits for it may wait until it is drained."""
        return any(model.stopped for id, model in self.watch.models.items() if id not in self.watch.gone)

    def _users_part(self, how: str) -> None:
        """Users who stay go on accepting; who browses has seen what is there."""
        for user in self.users:
            for inbox in user.inboxes.values():
                if inbox.open and how == "leave":
                    user.start(user.close_receiver(inbox))

    def _drain(self, draining: dict[str, list[tuple[Client, Link]]], alive: list[Client]) -> bool:
        """A client that is to empty a queue may lose its replica, or its broker: another client takes its place."""
        for name, by in draining.items():
            if name not in self.watch.wiring.ids:
                continue
            there = {link.selector for client, link in by if client.alive and not (link.ended or link.closing)}
            for part in sorted({link.selector for _, link in by} - there):
                client = next((c for c in reversed(alive) if c.alive), None) or self.client()
                if client not in alive:
                    alive.append(client)
                handle = client.attach_receiver(name, selector=part)
                client.flow(handle, 100_000)
                by.append((client, client.links[handle]))
        return True

    def _parts_of(self, name: str) -> tuple[str, ...]:
        """The selectors by which a queue is emptied; a group goes whole."""
        model = self.watch.models.get(self.watch.wiring.ids[name])
        if name not in self._parts:
            whole = model is None or model.group or name in self.actives.queues()
            self._parts[name] = ("",) if whole else self.selectors.parts()
        return self._parts[name]

    def _accept_all(self, alive: list[Client]) -> bool:
        busy = False
        for client in alive:
            for handle, link in client.links.items():
                if link.held and link.open:
                    client.settle(handle, ACCEPT, list(link.held))
                    busy = True
        return not busy

    def _behaves(self) -> bool:
        behaved = [user.behave(True) for user in self.users if user.alive]
        return all(behaved)

    def _drained(self) -> bool:
        return not any(
            model.batches if model.relay else model.live
            for id, model in self.watch.models.items()
            if id not in self.watch.gone
        )

    def _finish(self, alive: list[Client]) -> None:
        world = self.world
        self.until(lambda: not self.watch.wiring.dissolving, "of deleted queues nothing is left", HEAL_US)
        quiet_us = QUIET_US if self.disks is None else 4 * QUIET_US  # stores prove what they wrote last, and tidy up
        world.run_for(quiet_us)
        # A replica that was sent away for being behind is replaced seconds later, and the new one writes its promise.
        self.until(lambda: world.now_us >= world.begun_us + quiet_us, "processes that ended are replaced")
        posted = world.posted
        world.run_for(QUIET_US)
        if world.posted != posted:
            raise Violation(f"an idle cluster sent {world.posted - posted} frames in a second (`design.md` 5)")
        self.watch.finish()
        if self.disks is not None:
            self.disks.at_rest()
        self.deliveries.finish()
        self.flows.finish()
        self.alternates.finish()
        self.relays.finish()
        self.made_names.finish(self.requests.queues)
        self.closures.finish(self)
        self.named.finish()
        self.lifetimes.finish()
        self.alerted.finish()
        for broker in [b for b in self.world.brokers if b in world.machines]:
            if world.machines[broker].transfers.uncommitted_bytes:
                raise Violation(
                    f"I18: at rest {broker} counts {world.machines[broker].transfers.uncommitted_bytes} bytes uncommitted"
                )
        replies = [reply for client in alive for reply in client.replies.values() if reply]
        wrong = [reply for reply in replies if reply.code not in CODES]
        deleted = {id.rpartition("#")[0] for id in self.watch.gone}
        wrong += [reply for reply in replies if (said := DELETED.search(reply.text)) and said[1] not in deleted]
        failed = [
            link.target
            for client in alive
            for link in client.links.values()
            if link.failed - link.unroutable - link.limited
        ]
        if wrong or any(not target.startswith("t") for target in failed):
            raise Violation(f"refused without cause: {wrong[:3]} {failed[:3]}")
        self._users_end()
        closed = {name: why for name, why in world.closed.items() if self.faults is None or why[0] != "unavailable"}
        # A user may come back before its old line is known to be dead, and tries members that have only just come.
        closed = {name: why for name, why in closed.items() if name not in self.ledger.lines or not _tried(why)}
        closed = {name: why for name, why in closed.items() if not self.closures.has(name, why[1])}
        self.moves.check_closed(closed, {client.name: client.broker for client in self.clients} | self.ledger.lines)

    def _users_end(self) -> None:
        for user in self.users:
            for what, error in user.errors:
                once = error.code == "connection-lost" and (user.over or what in ("purge", "delete_queue"))
                full = error.code == "resource-limit-exceeded" and what == "move"
                if error.code not in CODES and not once and not full:
                    raise Violation(f"{user.name}: {what} is refused without cause: {error!r}")
            for outbox in user.outboxes.values():
                outbox.failed = [one for one in outbox.failed if not (outbox.mandatory and one[1] == "unroutable")]
                outbox.failed = [one for one in outbox.failed if one[1] != "resource-limit-exceeded"]
                outbox.failed = [one for one in outbox.failed if not self.ledger.undelayable(outbox.key, *one)]
                if outbox.failed and not (outbox.target or "").startswith("t"):
                    raise Violation(f"{user.name}: refused without cause: {outbox.failed[:3]} to {outbox.target}")


def _tried(why: tuple[str, str]) -> bool:
    return why[0] == "in-use" or why == ("unavailable", JOINING)


def _all_told(item: tuple[Client, int, Link]) -> bool:
    """A sender has heard of every number, unless its queue was deleted or it was detached with some under way."""
    _, _, link = item
    return link.mode != "" or not link.attached or link.ended or len(link.completed) + len(link.failed) == link.next - 1


class Played(NamedTuple):
    """How a seed went.

    Attributes:
        wrong: the violation, or "".
        tail: the last frames sent before it.
        digest: checksum of every frame and its time: equal for equal stories.
    """

    seed: int
    operations: int
    wrong: str
    tail: list[str]
    digest: int


def play(
    seed: int,
    watch: Callable[[str], None] | None = None,
    machines: Machines | None = None,
    faulty: bool | None = None,
    stored: bool | None = None,
) -> Played:
    """Play one seed; `watch` is given every frame as a line of text. `faulty`: with or without faults; `stored`: the
    brokers have stores or none; None: by seed."""
    gc.disable()  # a story keeps nearly all that it makes: looking for garbage again and again is a fifth of its time
    try:
        return _play(Story(seed, machines, faulty, stored=stored), watch)
    finally:
        gc.enable()  # when nothing holds the story any more: it goes at once, and is not looked through before


def _play(story: Story, watch: Callable[[str], None] | None) -> Played:
    if watch is not None:
        story.world.taps.append(lambda source, target, frame: watch(_line(story.world.now_us, source, target, frame)))
    wrong = ""
    try:
        story.run()
    except Violation as violation:
        wrong = str(violation)
    except Exception:
        wrong = traceback.format_exc()
    tail = [_line(*sent) for sent in list(story.world.trace)[-TAIL:]] if wrong else []
    return Played(story.seed, story.operations, wrong, tail, story.world.digest)


def _line(now_us: int, source: str, target: str, frame: Frame) -> str:
    text = str(frame)
    return f"{(now_us - START_US) / 1000:9.3f} ms {source} > {target} {text[:200]}{'...' if len(text) > 200 else ''}"
