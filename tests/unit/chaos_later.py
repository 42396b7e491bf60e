"""A history of chaos with what is for later, written by hand: `s1` sends, `r1` and `r2` receive, and give some back."""

from __future__ import annotations

from chaos_story import Story

QUEUE = "x-later"


def later(story: Story, queue: str = QUEUE) -> None:
    """Some are delayed, one is released for later, one waits for another try."""
    s, r, r2 = story.open("s1", queue), story.open("r1", queue), story.open("r2", queue)
    story.send(s, 10, queue=queue)
    released, modified = story.take(r, 1, queue=queue), story.take(r, 3, queue=queue)
    for outcome in ("sent", "completed"):
        more = {"delay": 1.5} if outcome == "sent" else {}
        story.line("settle", "r1", link=r, ids=[released], kind="release", outcome=outcome, **more)
    for outcome in ("sent", "completed"):
        story.line("settle", "r1", link=r, ids=[modified], kind="modify", outcome=outcome)
    for number in (4, 5, 6, 7, 8, 9, 10, 2):
        story.consume(r, number, queue=queue)
    story.consume(r2, 1, 1, queue=queue)
    story.consume(r2, 3, 1, queue=queue, notes=[f"r1.{modified}"])
    names = ("messages", "dead_lettered", "expired", "discarded")
    story.line("tally", "drain", queue=queue, counts=dict.fromkeys(names, 0) | {"enqueued": 10, "accepted": 10})
