"""The rules of connections that an operator closes: only whose he names, who hear why, and are not there any more.

What was under way on them is judged by the other rules, as of any client that has gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from .facts import Verdict
from .journal import CLOSED, COMPLETED, FAILED, NEVER, History

HEARD_S = 5.0
"""So long it may take until a client hears."""
REASON_CHARS = 500
"""So much of a reason is told."""


def said(reason: str) -> str:
    """What a client hears: the code, and the operator's words."""
    return f"(not-allowed: {CLOSED}: {reason[:REASON_CHARS] or 'no reason given'})"


def judge(history: History, say: Verdict) -> None:
    for text in (*_named(history), *_over(history, say), *_there(history), *_nobody_else(history)):
        say.found("closed", text)


def _named(history: History) -> Iterator[str]:
    """Who hears of an operator has been named by one before, and hears the words that went with its name."""
    for connection in history.connections.values():
        if not connection.closed:
            continue
        of_it = [one for one in history.closings if one.connection == connection.id and one.asked <= connection.ended]
        if not any(said(one.reason) in connection.why for one in of_it):
            reasons = [one.reason for one in of_it]
            yield f"{connection} hears {connection.why!r}, and operators have said of it {reasons}"


def _over(history: History, say: Verdict) -> Iterator[str]:
    """What the broker says is closed is over, at once and for good. One that ended by itself just then hears nothing; a
    program's life that was killed tells nothing."""
    for closing in history.closings:
        connection = history.connections.get(closing.connection)
        if closing.outcome != COMPLETED or connection is None:
            continue
        if connection.closed:
            say.counts["closings heard"] += 1
        elif connection.life and connection.ended == NEVER:
            say.counts["closings of who was killed"] += 1
        elif connection.ended <= closing.t + HEARD_S:
            say.counts["closings of who had gone"] += 1
        else:
            yield f"{connection} was closed at {closing.t:.3f}, and goes on until {connection.ended:.3f}"


def _there(history: History) -> Iterator[str]:
    """A broker that says it has no such client has none: not one that came to it before, and goes on there after."""
    for closing in history.closings:
        connection = history.connections.get(closing.connection)
        if closing.outcome != FAILED or connection is None or connection.ended == NEVER:
            continue
        stays = connection.began < closing.asked and closing.t < connection.ended and not connection.interruptions
        if stays and connection.broker == closing.broker and not connection.closed:
            yield f"{connection} was not found at {closing.broker} at {closing.t:.3f}, and was there until it ended"


def _nobody_else(history: History) -> Iterator[str]:
    """Where nothing else happens nobody else's connection ends, and nobody has another broker. Lives of programs end each
    other's senders."""
    if not any(closing.alone for closing in history.closings):
        return
    for connection in history.connections.values():
        if not connection.life and connection.why and not connection.closed:
            yield f"{connection} ends, and no operator has named it: {connection.why}"
        elif connection.interruptions:
            yield f"{connection} has lost its broker {connection.interruptions} times, and nothing has happened to any"
