"""Events of named senders: whose numbers a queue keeps under a name that outlives their connections."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event


class Named(Event, tag=18):
    """A sender of that name begins: the one before it is over. Or (`again`) its client has come back at another broker:
    that has no effect if a later one has begun meanwhile.

    Attributes:
        holder: which sender it is, as "client/handle".
    """

    name: str
    holder: str
    again: bool = False
