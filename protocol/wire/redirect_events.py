"""The event by which what is sent to one queue comes into another from there on (`wiring/redirects.py`)."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event


class Redirect(Event, tag=84):
    """In the cluster's stream: a queue is redirected, or is so no more.

    Attributes:
        source: name of the queue that gets nothing any more.
        target: name of the queue into which it comes instead; "": the redirection ends.
        client: who asks, where that is looked at when it applies; "": nobody's business.
    """

    source: str
    target: str = ""
    client: str = ""
