"""Bugs of exchanges that number or keep what goes through them, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker import dead_letters as onward
from mantamq.protocol.broker.management import Management
from mantamq.protocol.queue import relay
from mantamq.protocol.replica import hosted_queue, relaying
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_comes_while_a_batch_is_under_way_stays(patch: Patch) -> None:
    follow = relay.Relay._follow

    def forgets(self: Any, event: Any, done: Any, ends: bool) -> None:
        if not ends:
            follow(self, event, done, ends)

    patch.setattr(relay.Relay, "_follow", forgets)


def the_last_goes_with_the_others(patch: Patch) -> None:
    patch.setattr(relay, "_but_the_last", lambda ranges: ranges)


def who_is_bound_later_waits_for_the_next(patch: Patch) -> None:
    """The last message is kept, and goes on again for nobody."""
    follow = relay.Relay._follow

    def deaf(self: Any, event: Any, done: Any, ends: bool) -> None:
        if type(event) is relay.Enqueue or ends:
            follow(self, event, done, ends)

    patch.setattr(relay.Relay, "_follow", deaf)


def what_is_asked_while_a_batch_is_under_way_is_forgotten(patch: Patch) -> None:
    follow = relay.Relay._follow

    def forgets(self: Any, event: Any, done: Any, ends: bool) -> None:
        follow(self, event, done, ends)
        if any(index != relay.AGAIN for index in self._state.batches):
            self._state.batches.pop(relay.AGAIN, None)

    patch.setattr(relay.Relay, "_follow", forgets)


def each_batch_is_another_client(patch: Patch) -> None:
    """A queue does not know what it has had: the last one comes to it again."""
    link = onward.SenderLink
    turns = iter(range(1, 1 << 40))

    def another(handle: int, exchange: str, key: str, client: str) -> Any:
        return link(handle, exchange, key, f"{client[:-1]}~{next(turns)}@" if client.endswith("@") else client)

    patch.setattr(onward, "SenderLink", another)


def nobody_takes_over_what_was_under_way(patch: Patch) -> None:
    """The broker that took a batch in has gone, and its batch stays."""
    begin = relaying.DeadLetters.begin
    patch.setattr(
        relaying.DeadLetters,
        "begin",
        lambda self, index: begin(self, index) if self._state.batches[index][0] not in self._state.fence.absent else 0,
    )


def a_number_is_that_in_its_batch(patch: Patch) -> None:
    sent_on = hosted_queue.sent_on

    def anew(settings: Any) -> Any:
        made = sent_on(settings)
        if not settings.exchange_sequence:
            return made
        return lambda state, name, blobs: replace(
            made(state, name, blobs), blobs=[relay.as_sent(blob, n) for n, blob in enumerate(blobs.values(), 1)]
        )

    patch.setattr(hosted_queue, "sent_on", anew)


def its_key_is_lost_on_the_way(patch: Patch) -> None:
    patch.setattr(relaying, "address", lambda blob: relay.Addressed("", [""], blob))


def what_is_bound_is_not_told(patch: Patch) -> None:
    """A binding is made, and nobody asks for the last message."""
    patch.setattr(
        Management,
        "_bound",
        lambda self, answer, exchange, value=None, code="", text="": answer(value, code, text),
    )


def when_it_expires_is_forgotten_on_the_way(patch: Patch) -> None:
    sent_on = hosted_queue.sent_on

    def anew(settings: Any) -> Any:
        made = sent_on(settings)
        return lambda state, name, blobs: replace(made(state, name, blobs), expiry=[])

    patch.setattr(hosted_queue, "sent_on", anew)


def several_go_on_at_once(patch: Patch) -> None:
    """What comes is a batch at once, whatever is under way: two members send theirs on, one past the other."""

    def follow(self: Any, event: Any, done: Any, ends: bool) -> None:
        state = self._state
        if type(event) is relay.Enqueue and done.positions:
            for first, last in done.positions:
                state.available.remove(first, last)
                state.dead_lettering.add(first, last)
            broker = relay.address(state.blobs[done.positions[-1][1]]).broker
            state.batches[state.index] = broker, [edge for part in done.positions for edge in part]
            self.begun = state.index

    patch.setattr(relay.Relay, "_follow", follow)


ALL = planted(globals())
