"""Bugs of queues with a single active consumer, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.connections import Connections
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.broker.single_active import SingleActive
from mantamq.protocol.queue.resumption import ANYBODY, Resumption
from mantamq.protocol.wiring.uses import Uses
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def the_first_of_each_broker_gets_messages(patch: Patch) -> None:
    """Brokers do not ask who is first at another one."""
    advance = SingleActive.advance

    def alone(self: Any) -> None:
        uses = self._cluster.wiring.uses
        lines = uses.lines
        uses.lines = {id: [one for one in line if one.broker == self._cluster.broker] for id, line in lines.items()}
        uses.lines = {id: line for id, line in uses.lines.items() if line}
        advance(self)
        uses.lines = lines

    patch.setattr(SingleActive, "advance", alone)


def the_last_that_came_is_first(patch: Patch) -> None:
    line_up = Uses._line_up

    def turned(self: Any, id: str, line: list[Any]) -> None:
        if len(line) > len(self.lines.get(id, [])):
            line = [line[-1], *line[:-1]]
        line_up(self, id, line)

    patch.setattr(Uses, "_line_up", turned)


def a_place_in_line_outlives_its_broker(patch: Patch) -> None:
    ends = Uses.ends

    def keeps(self: Any, event: Any) -> None:
        lines, users = self.lines, {id: dict(users) for id, users in self.users.items()}
        self.lines = {}
        ends(self, event)
        self.lines = lines
        self.users |= {id: users[id] for id in lines}

    patch.setattr(Uses, "ends", keeps)


def a_place_in_line_outlives_its_consumer(patch: Patch) -> None:
    stand = Uses._stand
    patch.setattr(Uses, "_stand", lambda self, event, stands: stand(self, event, stands) if event.on else ("", ""))


def who_comes_back_is_last_in_line(patch: Patch) -> None:
    """A client does not say which of its connections it is on."""
    opens = Connections.open
    patch.setattr(Connections, "open", lambda self, session, frame: opens(self, session, replace(frame, life=0)))


def _nobody_waits_for_anybody(patch: Patch) -> None:
    awaits = Resumption.awaits

    def of_the_named(self: Any, *more: Any) -> bool:
        return awaits(self._replace(before=[one for one in self.before if tuple(one) != ANYBODY]), *more)

    patch.setattr(Resumption, "awaits", of_the_named)


def the_next_one_does_not_wait_for_what_was_held(patch: Patch) -> None:
    """Who was first leaves the line as soon as its connection is over, and the next one asks for nothing of it."""
    patch.setattr(SingleActive, "active", lambda self, link: False)
    _nobody_waits_for_anybody(patch)


def who_waits_for_its_turn_hears_of_no_end(patch: Patch) -> None:
    """A drain of one that is not first is kept until its turn."""
    patch.setattr(SingleActive, "granted", lambda self, link: None)


def a_broker_does_not_hear_that_a_place_has_gone_elsewhere(patch: Patch) -> None:
    patch.setattr(Receivers, "taken_over", lambda self, event: None)


ALL = planted(globals())
