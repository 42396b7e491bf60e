"""Bugs of messages that die without being rejected, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker import deaths
from mantamq.protocol.machine import broker_of
from mantamq.protocol.queue.batches import Batches
from mantamq.protocol.queue.dead_lettering import DeliveryLimit
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.replica import dead_letters
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.replica.seeing_to import SeeingTo
from mantamq.protocol.wire.queue_frames import DeadLetter
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_a_dead_broker_saw_to_nobody_does(patch: Patch) -> None:
    """A batch of what has expired, of which the broker is out, stays for ever."""

    def applied(self: Any, index: int, entry: Any, event: Any, done: Any) -> None:
        if done.aside and self._sees_to(broker_of(entry.origin)):
            self._dead_letters.begin(index)

    patch.setattr(SeeingTo, "applied", applied)
    patch.setattr(DeadLetters, "restored", lambda self, broker: None)


def one_delivery_more_than_the_limit(patch: Patch) -> None:
    begin = DeliveryLimit.__init__

    def generous(self: Any, state: Any, limit: int) -> None:
        begin(self, state, limit + 1)

    patch.setattr(DeliveryLimit, "__init__", generous)


def an_update_forgets_why_messages_died(patch: Patch) -> None:
    of = Batches.of
    patch.setattr(Batches, "of", lambda snapshot: of(replace(snapshot, causes=[])))


def an_update_forgets_how_many_have_died(patch: Patch) -> None:
    of = Batches.of
    patch.setattr(Batches, "of", lambda snapshot: of(replace(snapshot, died=[])))


def a_full_queue_sends_on_what_consumers_hold(patch: Patch) -> None:
    patch.setattr(Ring, "_waiting", lambda self: self._in_order())


def a_letter_tells_the_place_of_another(patch: Patch) -> None:
    patch.setattr(
        dead_letters,
        "DeadLetter",
        lambda *rest, positions, **named: DeadLetter(*rest, positions=positions[::-1], **named),
    )


def a_letter_has_always_died_of_its_rejection(patch: Patch) -> None:
    noted = deaths._noted

    def rejected(blob: bytes, first: Any, own: Any) -> Any:
        return noted(blob, first, own | {deaths.CAUSE: deaths.REJECTED})

    patch.setattr(deaths, "_noted", rejected)


def a_letter_does_not_say_how_often_it_was_delivered(patch: Patch) -> None:
    patch.setattr(dead_letters, "DeadLetter", lambda *rest, counts, **named: DeadLetter(*rest, counts=[], **named))


ALL = planted(globals())
