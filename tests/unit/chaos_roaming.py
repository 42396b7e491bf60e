"""Histories of chaos with messages that go on, written by hand: `s1` sends, `r1` receives, `o1` has them go on."""

from __future__ import annotations

from chaos_story import Story

DYING, MOVED = "x-dying", "x-moved"
DEAD, AWAY = ".dead", ".away"


def roam(story: Story, queue: str, to: str = "", moved: int = 1, left: int = 0) -> None:
    story.line("roam", "o1", queue=queue, to=to, began=story.t + 0.5, moved=moved, left=left)


def goes_by(story: Story, link: str, number: int, kind: str, count: int = 0, queue: str = DYING) -> None:
    story.settle(link, story.take(link, number, count, queue=queue), kind=kind)


def dying(story: Story) -> None:
    """One is rejected, redriven and accepted; one comes back too often; one expires."""
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.send(s, 7, queue=DYING)
    goes_by(story, r, 1, "reject")
    for number in (3, 5, 6, 7):
        story.consume(r, number, queue=DYING)
    for count in range(3):
        goes_by(story, r, 2, "release", count)
    roam(story, DYING + DEAD)
    story.consume(r, 1, queue=DYING, position=101, died=["rejected", 0, DYING])
    d = story.open("drain", DYING + DEAD)
    story.consume(d, 2, queue=DYING, position=2, died=["delivery_limit", 3, DYING], of=DYING)
    story.consume(d, 4, queue=DYING, position=3, died=["expired", 0, DYING], of=DYING)


def moved(story: Story) -> None:
    """Some are moved, and some of these back; one is rejected where it was moved to."""
    s, r, away = story.open("s1", MOVED), story.open("r1", MOVED), story.open("r2", MOVED + AWAY)
    story.send(s, 8, queue=MOVED)
    roam(story, MOVED, MOVED + AWAY, 5)
    roam(story, MOVED + AWAY, MOVED, 2)
    for at, number in enumerate((5, 6), start=101):
        story.consume(away, number, queue=MOVED, position=at, of=MOVED)
    story.settle(away, story.take(away, 7, queue=MOVED, position=103, of=MOVED), kind="reject")
    for at, number in enumerate((8, 1, 2, 3, 4), start=104):
        story.consume(r, number, queue=MOVED, position=at)
    d = story.open("drain", MOVED + DEAD)
    story.consume(d, 7, queue=MOVED, position=1, of=MOVED, died=["rejected", 0, MOVED + AWAY])
