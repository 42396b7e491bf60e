"""What users import: connect, send, receive. No Ray is imported until a Ray cluster is asked for."""

from .aio.aio import AsyncConnection, AsyncReceiver, AsyncSender, AsyncSession, connect_async
from .errors import (
    Busy,
    ConnectionLost,
    Deleted,
    Empty,
    Exists,
    Full,
    InUse,
    Invalid,
    LinkClosed,
    Lost,
    MantaError,
    NoCluster,
    NoStore,
    NotAllowed,
    NotEmpty,
    NotFound,
    ProtocolError,
    ResourceLimitExceeded,
    TimedOut,
    Timeout,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unroutable,
)
from .message import Message
from .moves import Moved
from .queue_handle import Queue
from .sync.sync import Connection, Receiver, Sender, Session, connect

__version__: str


def __getattr__(name: str) -> str:
    """`__version__`: asked of what is installed only when somebody asks."""
    if name == "__version__":
        from importlib.metadata import version

        return version("mantamq")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AsyncConnection",
    "AsyncReceiver",
    "AsyncSender",
    "AsyncSession",
    "Busy",
    "Connection",
    "ConnectionLost",
    "Deleted",
    "Empty",
    "Exists",
    "Full",
    "InUse",
    "Invalid",
    "LinkClosed",
    "Lost",
    "MantaError",
    "Message",
    "Moved",
    "NoCluster",
    "NoStore",
    "NotAllowed",
    "NotEmpty",
    "NotFound",
    "ProtocolError",
    "Queue",
    "Receiver",
    "ResourceLimitExceeded",
    "Sender",
    "Session",
    "TimedOut",
    "Timeout",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unroutable",
    "__version__",
    "connect",
    "connect_async",
]
