"""What the arguments of exchanges and bindings mean: typed settings, as `queue/settings.py` has them of queues."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ..wire.settings import Argument


class ExchangeSettings(msgspec.Struct, frozen=True):
    """Attributes:
    internal: clients send nothing to it: what it gets comes from other exchanges, or from queues, as their alternate.
    auto_delete: it goes with the last of its bindings.
    exclusive: of a direct exchange, each binding takes the place of all others of its key.
    sequence: each message has its number in the exchange, from 1, in a header when it goes on.
    initial: a queue that is bound gets the last message that has gone through, if its binding takes that.
    """

    internal: Annotated[bool, Argument("manta.internal", "give true, or leave it out")] = False
    auto_delete: Annotated[bool, Argument("manta.auto_delete", "give true, or leave it out")] = False
    exclusive: Annotated[bool, Argument("qpid.exclusive-binding", "give true, or leave it out")] = False
    sequence: Annotated[bool, Argument("qpid.msg_sequence", "give true, or leave it out")] = False
    initial: Annotated[bool, Argument("qpid.ive", "give true, or leave it out")] = False

    @property
    def relays(self) -> bool:
        """Whether all that goes through has one order, which a queue of the exchange's own makes."""
        return self.sequence or self.initial


class BindingSettings(msgspec.Struct, frozen=True):
    """Attributes:
    x_match: of a headers exchange, one of `MATCHES` (`exchanges.py`), which the wiring checks when it applies the
        binding; exchanges of other types pass it over.
    exclusive: it takes the place of all others of its key, at a direct exchange.
    """

    x_match: Annotated[Any, Argument("x-match", "all, any, all-with-x or any-with-x")] = "all"
    exclusive: Annotated[bool, Argument("qpid.exclusive-binding", "give true, or leave it out")] = False
