"""Bugs of brokers that come back with their disks, planted on purpose, as in `mutants.py`; looked for where brokers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker import cluster_state
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.replica import machine as replica_machine
from mantamq.protocol.sequencer.order import Order
from mantamq.protocol.wire.events import Return, decode_event

Patch = pytest.MonkeyPatch


def return_is_not_ordered(patch: Patch) -> None:
    """What an older life held goes back when something else says that it is over, if anything does."""
    append = Order.append

    def mute(self: Any, stream: Any, event: bytes) -> None:
        if type(decode_event(event)) is not Return:
            append(self, stream, event)

    patch.setattr(Order, "append", mute)


def a_log_that_was_kept_is_not_read(patch: Patch) -> None:
    """A process that comes back votes as if it had its log, and begins with an empty one."""
    patch.setattr(cluster_state, "recover_log", lambda keeper, kept: None)
    patch.setattr(replica_machine, "recover_log", lambda keeper, kept: None)
    patch.setattr(replica_machine, "recover", lambda queue, kept: None)


def life_is_reused(patch: Patch) -> None:
    """A broker that comes back says that it is the process it was."""
    init = BrokerMachine.__init__

    def born(self: Any, broker: str, inc: int, *arguments: Any, **named: Any) -> None:
        kept = named.get("kept")
        init(self, broker, kept.log.life if kept is not None else inc, *arguments, **named)

    patch.setattr(BrokerMachine, "__init__", born)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
