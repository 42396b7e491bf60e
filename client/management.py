"""Management commands, once for both twins: a method per command; the twin decides whether its result is awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parse_address(address: str) -> tuple[str, str]:
    """ "exchange/key" as (exchange, key); "name" as ("", name)."""
    exchange, slash, key = address.partition("/")
    return (exchange, key) if slash else ("", address)


class Management:
    """Declaring and asking. Every method completes when every connected broker shows what it did.

    All raise, besides what they say: Invalid (an argument is not of the allowed form), ConnectionLost, Timeout.
    """

    def _command(self, name: str, arguments: dict[str, Any], pick: Callable[[Any], Any] | None = None) -> Any:
        raise NotImplementedError

    def declare_queue(
        self, name: str, durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False,
    ) -> Any:  # fmt: skip
        """Create a queue unless it is there. Returns whether it is new.

        Args:
            alternate: exchange for rejected messages; not named, a queue that is there keeps the one it has.
            arguments: names of your own are kept as they are; those that begin with qpid., x- or manta. are the
                brokers', and one that means nothing here is refused.
            passive: only check that it is there.

        Raises:
            Exists: it is there with another definition.
            Invalid: an argument means nothing here.
            NotFound: passive and not there; or the alternate exchange is not there.
        """
        return self._command(
            "declare_queue",
            {
                "name": name,
                "durable": durable,
                "alternate": alternate,
                "arguments": arguments or {},
                "passive": passive,
            },
            _changed,
        )

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> Any:
        """Delete a queue with its messages. Raises NotFound, InUse, NotEmpty."""
        return self._command("delete_queue", {"name": name, "if_unused": if_unused, "if_empty": if_empty}, _nothing)

    def declare_exchange(
        self, name: str, type: str = "direct", durable: bool = False, alternate: str = "",
        arguments: dict[str, Any] | None = None, passive: bool = False,
    ) -> Any:  # fmt: skip
        """Create an exchange (direct, topic, fanout or headers) unless it is there. Returns whether it is new.

        Raises Exists, NotFound, NotAllowed (amq. names), as `declare_queue`.
        """
        return self._command(
            "declare_exchange",
            {
                "name": name,
                "type": type,
                "durable": durable,
                "alternate": alternate,
                "arguments": arguments or {},
                "passive": passive,
            },
            _changed,
        )

    def delete_exchange(self, name: str) -> Any:
        """Delete an exchange and its bindings. Raises NotFound, NotAllowed, InUse (it is somebody's alternate)."""
        return self._command("delete_exchange", {"name": name}, _nothing)

    def bind(self, exchange: str, queue: str, key: str = "", arguments: dict[str, Any] | None = None) -> Any:
        """Bind a queue; binding again changes nothing. Returns whether it is new. Raises NotFound, NotAllowed."""
        arguments_ = {"exchange": exchange, "queue": queue, "key": key, "arguments": arguments or {}}
        return self._command("bind", arguments_, _changed)

    def unbind(self, exchange: str, queue: str, key: str = "") -> Any:
        """Undo `bind`. Raises NotFound."""
        return self._command("unbind", {"exchange": exchange, "queue": queue, "key": key}, _nothing)

    def purge(self, name: str, count: int = 0) -> Any:
        """Discard available messages, at most `count` from the head (0: all). Returns how many. Raises NotFound."""
        return self._command("purge", {"name": name, "count": count}, _purged)

    def queue(self, name: str) -> Any:
        """What is known of a queue: messages, bytes, acquired, owner, handovers, ... Raises NotFound."""
        return self._command("queue", {"name": name})

    def queues(self) -> Any:
        """`queue` of every queue, by name."""
        return self._command("queues", {})

    def exchanges(self) -> Any:
        return self._command("exchanges", {})

    def bindings(self) -> Any:
        return self._command("bindings", {})

    def status(self) -> Any:
        """What the broker knows of itself and the cluster."""
        return self._command("status", {})


def _changed(value: Any) -> bool:
    return bool(value["changed"])


def _purged(value: Any) -> int:
    return int(value["purged"])


def _nothing(value: Any) -> None:
    return None
