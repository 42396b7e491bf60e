"""Bugs of exclusive receivers, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.protocol.broker.consumers import Consumers
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.wire.client_frames import AttachReceiver
from mantamq.protocol.wiring.uses import Uses
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def claims_are_known_at_their_broker_only(patch: Patch) -> None:
    """Other brokers see that it is used, and not that it is one consumer's alone."""
    use = Uses._use

    def shares(self: Any, event: Any, stands: Any) -> tuple[str, str]:
        return use(self, replace(event, claim="", life=0), stands)

    patch.setattr(Uses, "_use", shares)


def who_claims_does_not_look_for_others(patch: Patch) -> None:
    """A queue that has consumers at another broker is taken all the same."""
    use = Uses._use

    def blind(self: Any, event: Any, stands: Any) -> tuple[str, str]:
        if event.claim and event.queue not in self.claims:
            self.users.pop(event.queue, None)
        return use(self, event, stands)

    patch.setattr(Uses, "_use", blind)


def a_claim_outlives_its_broker(patch: Patch) -> None:
    ends = Uses.ends

    def keeps(self: Any, event: Any) -> None:
        claims = dict(self.claims)
        ends(self, event)
        self.claims = claims

    patch.setattr(Uses, "ends", keeps)


def a_claim_outlives_its_consumer(patch: Patch) -> None:
    use = Uses._use

    def keeps(self: Any, event: Any, stands: Any) -> tuple[str, str]:
        claim = self.claims.get(event.queue)
        said = use(self, event, stands)
        if claim is not None and not event.on:
            self.claims[event.queue] = claim
        return said

    patch.setattr(Uses, "_use", keeps)


def consumers_of_one_broker_do_not_see_each_other(patch: Patch) -> None:
    """That another one has the queue alone is asked of the other brokers only."""
    begin = Consumers.begin

    def blind(self: Any, session: Any, link: Any, consume: Any, claim: Any = ("", 0)) -> str:
        use = self._uses.get(link.queue)
        if use is not None and use.links:
            claim = use.claim = ("", 0)
        return begin(self, session, link, consume, claim)

    patch.setattr(Consumers, "begin", blind)


def who_comes_back_is_not_known(patch: Patch) -> None:
    """The next broker hears of a claim as if it were the first connection's."""
    resume = Conversation._resume

    def forgetful(self: Any) -> None:
        write, self.write = self.write, lambda frame: write(_first(frame))
        try:
            resume(self)
        finally:
            del self.write

    patch.setattr(Conversation, "_resume", forgetful)


def _first(frame: Any) -> Any:
    again = type(frame) is AttachReceiver and frame.exclusive
    return replace(frame, exclusive=1) if again else frame


def an_older_connection_takes_the_claim_back(patch: Patch) -> None:
    """What it said last is ordered behind the newer one's word, and counts."""
    use = Uses._use

    def careless(self: Any, event: Any, stands: Any) -> tuple[str, str]:
        claim = self.claims.get(event.queue)
        if claim is not None and claim.claim == event.claim:
            self.claims[event.queue] = replace(claim, life=0)
        return use(self, event, stands)

    patch.setattr(Uses, "_use", careless)


def a_broker_does_not_hear_that_a_claim_has_gone_elsewhere(patch: Patch) -> None:
    patch.setattr(Receivers, "taken_over", lambda self, event: None)


ALL = planted(globals())
