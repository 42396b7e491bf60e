"""Order where one consumer is all there is: whatever broker it is at, it gets what is first, and what it held comes again
before what is behind it.
"""

from __future__ import annotations

from typing import Any

from mantamq.protocol.frames import Delivery

from .checkers import Watcher
from .model import Violation, each
from .users import Line
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
        world.arrivals.append(self._arrived)

    def _arrived(self, source: str, target: str, frame: Any) -> None:
        if type(frame) is not Delivery or not frame.acquisition:
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
            and model.place[position] != "dying"
            and model.expiry.get(position, now_ms + 1) > now_ms
        ]
        if skipped:
            raise Violation(
                f"{target} is the only consumer of {model.id} and gets {frame.ranges} before {skipped[:5]}, which are "
                f"{[model.place[position] for position in skipped[:5]]}"
            )
