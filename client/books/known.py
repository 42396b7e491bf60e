"""The properties of a connection of either kind, blocking or asyncio: no broker is asked for them."""

from __future__ import annotations

from .conversation import Conversation


class KnownOfItself:
    """The figures of a connection, read from its conversation."""

    _conversation: Conversation

    @property
    def broker(self) -> str:
        """The id of the broker this is (or was last) connected to."""
        opened = self._conversation.opened
        return opened.broker if opened is not None else ""

    @property
    def members(self) -> dict[str, str]:
        """Broker id to "host:port" of every member, as the cluster said last."""
        return dict(self._conversation.members)

    @property
    def reconnects(self) -> int:
        """How often another broker (or the same again) has taken over."""
        return self._conversation.reconnects

    @property
    def interruptions(self) -> int:
        """How often a broker was lost. A settlement in `session.lost` did not count if this is what it was before it
        was asked for; if not, it was on its way when a broker was lost, and may have counted."""
        return self._conversation.interruptions

    @property
    def token(self) -> str:
        """The token presented to the cluster: with "local" or None as address, the one found there."""
        return self._conversation.token

    @property
    def failed(self) -> bool:
        """Whether the connection is over: it was closed, or no broker took over in time."""
        return self._conversation.failure is not None
