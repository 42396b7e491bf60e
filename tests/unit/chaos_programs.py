"""Histories of chaos with programs that begin anew, written by hand: `s7` is killed, `s8` goes on, `r1` receives."""

from __future__ import annotations

from chaos_story import Story


def begun(story: Story, client: str, queue: str, producer: str, had: int | None = None) -> str:
    """A life begins to send; returns its link. Args: had: what the queue says that it had of the name."""
    more = {} if had is None else {"asked": story.t + 0.5, "had": had}
    return story.open(client, queue, producer=producer, **more)


def sends(story: Story, link: str, first: int, last: int, outcome: str = "completed") -> None:
    client = link.split("/")[0]
    story.line("send", client, link=link, first=first, last=last, outcome="sent")
    if outcome != "sent":
        story.line("send", client, link=link, first=first, last=last, outcome=outcome)


def consumes(story: Story, link: str, queue: str, producer: str, first: int, last: int, **values: int) -> None:
    for number in range(first, last + 1):
        story.consume(link, number, producer=producer, queue=queue, position=number + values.get("behind", 0))


def programs(story: Story, queue: str) -> None:
    """Programs send by names, or the same ids, and some again; all comes once."""
    by_name = queue.endswith("-named")
    r = story.open("r1", queue)
    one = begun(story, "s7", queue, "p", 0 if by_name else None)
    sends(story, one, 1, 10)
    sends(story, one, 11, 20, "sent")
    two = begun(story, "s8", queue, "p", 12 if by_name else None)
    sends(story, two, 8, 25)
    consumes(story, r, queue, "p", 1, 25)
    # Of what was sent twice nobody knows of 11 to 20 whether both came.
    again = 0 if by_name else 3
    names = ("messages", "dead_lettered", "expired")
    counts = {"enqueued": 25 + again, "accepted": 25, "discarded": again, "duplicates": again}
    story.line("tally", "drain", queue=queue, counts=dict.fromkeys(names, 0) | counts)
