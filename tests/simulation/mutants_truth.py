"""Bugs of what a broker says planted on purpose, as in `mutants.py`: answers that are not so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker import BrokerMachine
from mantamq.protocol.dispatch import Dispatcher, Subscription
from mantamq.protocol.resuming import Resumption
from mantamq.protocol.session import Session
from mantamq.protocol.transfers import Transfers

Patch = pytest.MonkeyPatch


def empty_by_what_is_known_here(patch: Patch) -> None:
    """A drain is answered from this replica's memory, which may be behind what is complete."""
    patch.setattr(Subscription, "drain", lambda self, sure: setattr(self, "draining", True))


def empty_while_the_lock_is_elsewhere(patch: Patch) -> None:
    """Who may give nothing now, says that there is nothing."""
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
    """Who sends to an exchange that is deleted is not told, and what it sends completes."""
    patch.setattr(BrokerMachine, "_end_senders", lambda self, exchange, key, code, text: None)


def what_is_held_elsewhere_is_not_waited_for(patch: Patch) -> None:
    """A consumer that comes from another broker is served at once."""
    patch.setattr(Resumption, "awaits", lambda self, acquired, others: False)


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


def mandatory_makes_no_difference(patch: Patch) -> None:
    add = Session.add_sender
    patch.setattr(Session, "add_sender", lambda self, handle, *rest: add(self, handle, *rest[:3]))


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
