"""Bugs of senders with names, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.broker.named_senders import NamedLinks
from mantamq.protocol.broker.senders import Senders
from mantamq.protocol.queue.named_senders import NamedSenders
from mantamq.protocol.replica import verdicts
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_has_only_been_sent_is_told_as_complete(patch: Patch) -> None:
    patch.setattr(SenderCore, "last_completed", property(lambda self: self.sent))


def who_comes_back_takes_the_name_again(patch: Patch) -> None:
    """A life that finds another broker ends the one that has begun meanwhile."""
    begins = NamedSenders.begins
    patch.setattr(NamedSenders, "begins", lambda self, event: begins(self, replace(event, again=False)))


def who_comes_back_sends_under_its_own_numbers(patch: Patch) -> None:
    """At the next broker its messages are its client's, not its name's: what it says again comes in again."""
    begin = Senders._begin

    def nameless(self: Any, session: Any, frame: Any, next: int, queue: str = "") -> None:
        begin(self, session, frame, next, queue)
        if frame.name and frame.next:
            session.senders[frame.handle].client = f"{session.client}/{frame.handle}"

    patch.setattr(Senders, "_begin", nameless)


def the_one_before_is_not_told_that_it_is_over(patch: Patch) -> None:
    patch.setattr(NamedLinks, "began", lambda self, frame: None)


def who_comes_back_goes_on_in_another_queue_of_the_name(patch: Patch) -> None:
    """Its queue was deleted meanwhile, and declared anew: the new one lacks what came before."""
    attach = NamedLinks.attach
    patch.setattr(NamedLinks, "attach", lambda self, session, frame: attach(self, session, replace(frame, queue="")))


def a_name_is_no_producer(patch: Patch) -> None:
    """What it sends to a queue that holds its producers back completes at once."""
    patch.setattr(verdicts, "is_named", lambda client: False)


ALL = planted(globals())
