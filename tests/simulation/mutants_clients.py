"""Bugs of the client books planted on purpose, as in `mutants.py`: most of them show only when another broker takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.client.books.patience import Patience
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.send_gate import SendGate
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.wire.client_frames import AttachSender
from mantamq.protocol.wire.queue_frames import RELEASE

Patch = pytest.MonkeyPatch


def empty_ttl_is_shared(patch: Patch) -> None:
    """A frame without a ttl keeps the list that the next message's ttl goes into, and is sent again with it."""
    gather = SenderCore._gather

    def thrifty(self: Any) -> None:
        ttl = getattr(self, "_ttl", None)
        gather(self)
        if ttl is not None and not ttl:
            self._ttl = ttl

    patch.setattr(SenderCore, "_gather", thrifty)


def keys_are_shared(patch: Patch) -> None:
    """The keys of the next frame are added to those of the last."""
    gather = SenderCore._gather

    def thrifty(self: Any) -> None:
        keys = getattr(self, "_keys", [])
        gather(self)
        self._keys = keys

    patch.setattr(SenderCore, "_gather", thrifty)


def not_said_again(patch: Patch) -> None:
    """Transfers that were not complete are not sent to the next broker."""
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        for sender in self._senders.values():
            sender.pending = {}
        resume(self)

    patch.setattr(Conversation, "_resume", forgetful)


def accepts_on_their_way_are_done(patch: Patch) -> None:
    """An accept that was on its way when the broker was lost is not called lost."""
    interrupted = ReceiverCore.interrupted

    def hopeful(self: Any, broker: str = "") -> None:
        before = len(self.lost)
        interrupted(self, broker)
        del self.lost[before:]

    patch.setattr(ReceiverCore, "interrupted", hopeful)


def settlements_on_their_way_are_not_waited_for(patch: Patch) -> None:
    """The next broker is told what was not settled, and not what was settled and may come again."""
    note = ReceiverCore._note_before

    def hopeful(self: Any, broker: str) -> None:
        disposing, gathered = self._disposing, self._gathered
        self._disposing, self._gathered = {}, {}
        note(self, broker)
        self._disposing, self._gathered = disposing, gathered

    patch.setattr(ReceiverCore, "_note_before", hopeful)


def browsing_begins_anew(patch: Patch) -> None:
    """A browser sees again, at the next broker, what it has seen."""
    interrupted = ReceiverCore.interrupted

    def fresh(self: Any, broker: str = "") -> None:
        interrupted(self, broker)
        self._resumed_after = 0

    patch.setattr(ReceiverCore, "interrupted", fresh)


def window_is_opened_twice(patch: Patch) -> None:
    """At the next broker the whole window is granted beside what is here."""
    resume = ReceiverCore.resume

    def generous(self: Any) -> None:
        resume(self)
        if self.capacity:
            self._grant(self.capacity)

    patch.setattr(ReceiverCore, "resume", generous)


def window_stays_shut(patch: Patch) -> None:
    """At the next broker no credit is granted."""

    def shut(self: Any) -> None:
        self.credit = self._fetched = 0

    patch.setattr(ReceiverCore, "resume", shut)


def fetching_makes_room(patch: Patch) -> None:
    """Messages fetched and not settled take up no room in a window that is to bound them."""

    def careless(self: Any) -> int:
        return max(0, self.capacity - self.credit - self.available)

    patch.setattr(ReceiverCore, "_room", careless)


def room_is_said_before_what_makes_it(patch: Patch) -> None:
    """Credit leaves before the settlements that it is for, which still gather."""
    grant = ReceiverCore._grant

    def hasty(self: Any, messages: int) -> None:
        by_settling, self._by_settling = self._by_settling, False
        grant(self, messages)
        self._by_settling = by_settling

    patch.setattr(ReceiverCore, "_grant", hasty)


def what_gathers_is_released(patch: Patch) -> None:
    """Settlements that gather are all taken for one kind."""
    settle = ReceiverCore.settle
    patch.setattr(
        ReceiverCore, "settle", lambda self, kind, message: settle(self, RELEASE if self._count else kind, message)
    )


def next_broker_is_not_told_what_was_held(patch: Patch) -> None:
    """A consumer attaches at the next broker as if it came from nowhere: it gets what is behind what it holds."""
    patch.setattr(ReceiverCore, "_note_before", lambda self, broker: None)


def only_the_last_broker_is_named(patch: Patch) -> None:
    """Messages held at the broker before that, and not back yet, are forgotten."""
    note = ReceiverCore._note_before

    def forgetful(self: Any, broker: str) -> None:
        note(self, broker)
        del self.before[:-1]

    patch.setattr(ReceiverCore, "_note_before", forgetful)


def time_runs_on_while_things_complete(patch: Patch) -> None:
    """The time-out counts from the first message that waits, whatever completes meanwhile."""
    look = Patience.look
    patch.setattr(Patience, "look", lambda self, now, waiting, moved: look(self, now, waiting, 0))


def nobody_is_told_that_nothing_completes(patch: Patch) -> None:
    patch.setattr(Conversation, "look", lambda self, now: None)


def what_timed_out_is_given_up(patch: Patch) -> None:
    """Transfers that a sender has reported as not complete are not sent to the next broker."""
    look = SenderCore.look

    def rash(self: Any, now: float) -> None:
        before = self.patience.expired
        look(self, now)
        if self.patience.expired > before:
            self.pending = {}

    patch.setattr(SenderCore, "look", rash)


def what_timed_out_counts_as_complete(patch: Patch) -> None:
    """A caller that waits for a transfer which has timed out is told that it is complete."""
    settled = SenderCore.settled
    patch.setattr(SenderCore, "settled", lambda self, number: self.hopeless or settled(self, number))


def mandatory_is_forgotten_at_the_next_broker(patch: Patch) -> None:
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        for handle, frame in self._frames.items():
            if type(frame) is AttachSender:
                self._frames[handle] = msgspec.structs.replace(frame, mandatory=False)
        resume(self)

    patch.setattr(Conversation, "_resume", forgetful)


def sends_on_when_told_not_to(patch: Patch) -> None:
    patch.setattr(SendGate, "blocked", property(lambda self: False, lambda self, blocked: None), raising=False)


def what_was_not_sent_is_forgotten(patch: Patch) -> None:
    tell = SendGate.tell

    def forgetful(self: Any, blocked: bool, senders: Any) -> None:
        self._waiting = self._waiting[1:]
        tell(self, blocked, senders)

    patch.setattr(SendGate, "tell", forgetful)


def the_next_broker_has_no_room_either(patch: Patch) -> None:
    """What one broker has said counts at the next."""
    begin = SendGate.begin
    patch.setattr(SendGate, "begin", lambda self, blocked=False: begin(self, blocked or self.blocked))


def what_goes_back_unseen_is_told_as_lost(patch: Patch) -> None:
    """Who stops is told that a message has come too late which it has never seen, nor settled."""
    patch.setattr(ReceiverCore, "_return", lambda self, message: self.settle(RELEASE, message))


def what_is_known_of_the_wiring_is_not_said(patch: Patch) -> None:
    """A client that comes to another broker does not say how much it knows, and may know more."""
    greet = Conversation.open

    def forgetful(self: Any) -> None:
        self._wired = 0
        greet(self)

    patch.setattr(Conversation, "open", forgetful)


ALL: dict[str, Callable[[Patch], None]] = {
    function.__name__: function
    for function in (
        empty_ttl_is_shared, keys_are_shared, not_said_again, accepts_on_their_way_are_done,
        settlements_on_their_way_are_not_waited_for, browsing_begins_anew, window_is_opened_twice, window_stays_shut, fetching_makes_room,
        room_is_said_before_what_makes_it, what_gathers_is_released, next_broker_is_not_told_what_was_held,
        only_the_last_broker_is_named, time_runs_on_while_things_complete, nobody_is_told_that_nothing_completes,
        what_timed_out_is_given_up, what_timed_out_counts_as_complete, mandatory_is_forgotten_at_the_next_broker,
        sends_on_when_told_not_to, what_was_not_sent_is_forgotten, the_next_broker_has_no_room_either,
        what_goes_back_unseen_is_told_as_lost, what_is_known_of_the_wiring_is_not_said,
    )
}  # fmt: skip
