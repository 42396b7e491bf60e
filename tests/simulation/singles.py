"""Order where one consumer is all there is: whatever broker it is at, it gets what is first, and what it held comes again
before what is behind it.

A broker that lives and has not noticed that the consumer has left is a second consumer, as far as anybody can know: what it
gives to the line that was left comes later, and is not looked at.
"""

from __future__ import annotations

from mantamq.protocol.wire.client_frames import AttachReceiver, Delivery
from mantamq.protocol.wire.queue_frames import Deliver

from .checkers import Watcher
from .lines import Line
from .model import Violation, each
from .world import World

QUEUE = "single"


class Singles:
    """Watches the deliveries of the queue `QUEUE`, whose only consumer is one user.

    Attributes:
        judged: messages delivered to it; again: of those, such as it had been given over a line that is lost.
    """

    def __init__(self, world: World, watch: Watcher) -> None:
        self.world = world
        self.watch = watch
        self.judged = self.again = 0
        self._line = ""
        self._given: set[int] = set()  # over this line
        self._ever: set[int] = set()
        self._newest = ""  # the line by which the consumer was attached last
        self._astray: set[int] = set()  # given to a line it had left, and not to it since
        world.watch(
            sent={AttachReceiver: self._attaches, Deliver: self._given_out, Delivery: self._goes_out},
            arrived={Delivery: self._arrived},
        )

    def _attaches(self, source: str, target: str, frame: AttachReceiver) -> None:
        if frame.queue == QUEUE and frame.mode == "consume" and isinstance(self.world.clients.get(source), Line):
            self._newest = source

    def _given_out(self, source: str, target: str, frame: Deliver) -> None:
        """To a broker at which the consumer is no more: it is held there, and has yet to go out."""
        line = self.world.clients.get(self._newest)
        elsewhere = isinstance(line, Line) and line.broker != target
        if elsewhere and frame.acquisition and frame.queue.rpartition("#")[0] == QUEUE:
            self._astray.update(each(frame.ranges))

    def _goes_out(self, source: str, target: str, frame: Delivery) -> None:
        if frame.acquisition and target != self._newest:
            line = self.world.clients.get(target)
            link = line.links.get(frame.handle) if isinstance(line, Line) else None
            if link is None or link.target == QUEUE:
                self._astray.update(each(frame.ranges))

    def _arrived(self, source: str, target: str, frame: Delivery) -> None:
        if not frame.acquisition:
            return
        line = self.world.clients.get(target)
        link = line.links.get(frame.handle) if isinstance(line, Line) else None
        model = self.watch.model_of(QUEUE)
        if link is None or link.target != QUEUE or model is None:
            return
        if target != self._line:
            self._line, self._given = target, set()
        now_ms = self.world.now_us // 1000
        for position in each(frame.ranges):
            self.judged += 1
            self.again += position in self._ever
            self._given.add(position)
            self._ever.add(position)
        last = each(frame.ranges)[-1]
        skipped = [
            position
            for position in model.live
            if position < last
            and position not in self._given
            and model.place[position] != "dead_lettering"
            and model.expiry.get(position, now_ms + 1) > now_ms
            and position not in self._astray
            and position not in model.due  # it comes when it is due
        ]
        self._astray.difference_update(each(frame.ranges))
        if skipped:
            raise Violation(
                f"{target} is the only consumer of {model.id} and gets {frame.ranges} before {skipped[:5]}, which are "
                f"{[model.place[position] for position in skipped[:5]]}"
            )
