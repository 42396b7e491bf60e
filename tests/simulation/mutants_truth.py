"""Bugs of what a broker says planted on purpose, as in `mutants.py`: answers that are not so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker import gone_queues
from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.broker.consumers import Consumers
from mantamq.protocol.broker.deletion import Deletions
from mantamq.protocol.broker.senders import Senders
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.queue import dispatch
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.resumption import Resumption
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.wiring.uses import Uses

Patch = pytest.MonkeyPatch


def empty_by_what_is_known_here(patch: Patch) -> None:
    """A drain is answered from this replica's memory, which may be behind what is complete."""
    patch.setattr(Subscription, "drain", lambda self, sure: setattr(self, "draining", True))


def empty_while_the_lock_is_elsewhere(patch: Patch) -> None:
    """A replica that may give nothing now says that there is nothing."""
    drained = Dispatcher.drained

    def hasty(self: Any, acquire: bool) -> Any:
        done, unsure = drained(self, acquire)
        for subscription in self.subscriptions.values() if not acquire else ():
            if subscription.draining and not subscription.browse and subscription not in unsure:
                if subscription.known < subscription.wanted:
                    unsure.append(subscription)
                else:
                    subscription.draining = False
                    subscription.credit.stop()
                    done.append(subscription)
        return done, unsure

    patch.setattr(Dispatcher, "drained", hasty)


def senders_outlive_their_exchange(patch: Patch) -> None:
    """A sender to an exchange that is deleted is not told, and its transfers complete."""
    patch.setattr(Senders, "end_all", lambda self, exchange, key, code, text: None)


def what_is_held_elsewhere_is_not_waited_for(patch: Patch) -> None:
    """A consumer that comes from another broker is served at once."""
    patch.setattr(Resumption, "awaits", lambda self, acquired, others: False)


def who_has_just_left_held_nothing(patch: Patch) -> None:
    """A consumer that comes back is served before what it held here is ordered as acquired, and as released."""
    awaits = Resumption.awaits

    def of_those_who_are_here(self: Any, acquired: Any, others: Any) -> bool:
        return others is not dispatch._nobodys and awaits(self, acquired, others)

    patch.setattr(Resumption, "awaits", of_those_who_are_here)


def nobody_hears_what_goes_to_no_queue(patch: Patch) -> None:
    patch.setattr(Session, "went_nowhere", lambda self, handle, ranges: None)


def what_went_nowhere_is_said_of_others(patch: Patch) -> None:
    """Some of a transfer went to no queue, and others are said to have."""
    tell = Transfers._complete
    patch.setattr(
        Transfers,
        "_complete",
        lambda self, s, handle, numbers, nowhere: tell(self, s, handle, numbers, numbers[:2] if nowhere else []),
    )


def what_has_come_to_another_queue_fails_with_one_that_is_gone(patch: Patch) -> None:
    """Of the queues of an exchange one is deleted, and its sender is to send again what the others have."""
    patch.setattr(gone_queues, "_nowhere_else", lambda numbers, parts, gone: numbers)


def mandatory_makes_no_difference(patch: Patch) -> None:
    add = Session.add_sender
    patch.setattr(Session, "add_sender", lambda self, handle, *rest: add(self, handle, *rest[:3]))


def who_is_attached_is_not_ordered(patch: Patch) -> None:
    """Consumers are attached at once, and the others do not know that the queue is used."""
    begin = Consumers.begin

    def hasty(self: Any, session: Any, link: Any, consume: Any, *claim: Any) -> str:
        refusal = begin(self, session, link, consume, *claim)
        if not refusal and self._uses[link.queue].waiting.pop(link.sub, None) is not None:
            self.attach(session, link, consume)
        return refusal

    patch.setattr(Consumers, "begin", hasty)


def nobody_uses_anything(patch: Patch) -> None:
    patch.setattr(Uses, "_use", lambda self, event, stands: ("", ""))


def what_is_sent_meanwhile_completes(patch: Patch) -> None:
    """Nothing is held while it is decided whether a queue is empty, and what went with it has not failed."""
    patch.setattr(Transfers, "hold", lambda self: None)


def empty_without_a_look(patch: Patch) -> None:
    """Nobody asks the queue."""
    look = Deletions.__init__

    def init(self: Any, *parts: Any) -> None:
        look(self, *parts)
        self._look = lambda queue, then: then({"messages": 0, "dead_lettering": 0})

    patch.setattr(Deletions, "__init__", init)


def answers_do_not_wait_for_the_wiring_before_them(patch: Patch) -> None:
    """A broker deals with an answer while a deletion that came before it is on its way to its disk."""
    patch.setattr(ClusterState, "in_step", lambda self, then: then())


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
