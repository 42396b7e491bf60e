"""A browser for rescue sees all that a survivor still has, on the product's own client books, without a majority.

A looker at a broker whose replica of a queue has not lost its log browses that queue to its end: it is let in, it is told
where the end is, and it sees all that the committed log says is there, as far as this replica has come; also what
consumers held when nothing could be ordered any more.
"""

from __future__ import annotations

import random

from .checkers import Watcher
from .ledger import Ledger
from .model import Violation
from .selectors import Selectors, wants
from .users import Task, User
from .world import World

LIMIT_US = 3_000_000
"""A broker that hears its replica must have shown all in this time."""


class Rescues:
    """Looks into every broker, one after the other.

    Attributes:
        seen: messages that had to be seen, and were; held: of these, such as a consumer held.
    """

    def __init__(self, world: World, watch: Watcher, ledger: Ledger, rng: random.Random, seed: int) -> None:
        self.world, self.watch, self.ledger, self.rng = world, watch, ledger, rng
        self.seen = self.held = 0
        self._lookers = 0
        self._selectors = Selectors(seed)

    def look(self, names: list[str]) -> None:
        for broker in self.world.brokers:
            if broker in self.world.machines:
                for name in names:
                    if name in self.watch.wiring.ids:
                        self._look(broker, name, self.watch.wiring.ids[name])

    def _look(self, broker: str, name: str, id: str) -> None:
        world, machine = self.world, self.world.machines[broker]
        keeper = machine.placement.of.get(id, "")
        replica = world.machines.get(keeper)
        hosted = replica.queues.get(id) if replica is not None else None
        model = self.watch.models.get(id)
        if hosted is None or hosted.keeper.blank or hosted.updating or model is None:
            return
        has = hosted.state.next_position
        wanted = {position for position in model.live if position < has}
        selector = self._selectors.one()
        if selector:
            wanted = {position for position in wanted if wants(selector, model.blobs[position])}
        looker, ended = self._browse(broker, name, selector)
        end_us = world.now_us + LIMIT_US
        undisturbed = True
        while undisturbed and not ended and world.now_us < end_us:
            world.run_for(20_000)
            undisturbed = self._as_before(broker, machine, keeper, replica)
        if undisturbed and not ended and id not in self.watch.gone:
            failure = looker.conversation.failure
            raise Violation(f"who looks for rescue into {id} at {broker} hears no end: {failure}; {looker.state()}")
        looker.leave()
        if not undisturbed or not ended:
            return
        (inbox,) = looker.inboxes.values()
        now_ms = world.now_us // 1000
        wanted = {p for p in wanted if p in model.live and model.expiry.get(p, now_ms + 1) > now_ms}
        missing = sorted(wanted.difference(inbox.positions))
        if id in self.watch.gone:
            return
        if missing:
            raise Violation(
                f"{keeper} has {id} up to {has - 1}, and who looks for rescue does not see {missing[:5]}, which are "
                f"{[model.place[position] for position in missing[:5]]}"
            )
        self.seen += len(wanted)
        self.held += sum(model.place[position] != "available" for position in wanted)

    def _as_before(self, broker: str, machine: object, keeper: str, replica: object) -> bool:
        machines = self.world.machines
        standing = {broker, keeper}.isdisjoint(self.world._frozen)
        return standing and machines.get(broker) is machine and machines.get(keeper) is replica

    def _browse(self, broker: str, name: str, selector: str) -> tuple[User, list[bool]]:
        self._lookers += 1
        user = User(
            self.world, self.ledger, f"looker{self._lookers}", broker, self.rng, self.rng.choice([0, 500]), False, True
        )
        ended: list[bool] = []

        def look() -> Task:
            yield lambda: bool(user.inboxes) or user.over
            for inbox in user.inboxes.values():
                yield lambda inbox=inbox: inbox.core is not None or inbox.ended or user.over
                if inbox.core is not None:
                    yield from user.get(inbox, 1 << 20)
                    if inbox.core.failure is None:
                        ended.append(True)

        user.receiver(name, self.rng.choice([0, 3, 100, 1000]), "browse", selector=selector)
        user.start(look())
        return user, ended
