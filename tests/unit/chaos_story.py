"""Histories of chaos written by hand, event by event, each a second after the one before: `s1` sends, `r1` receives, `b1`
browses, `drain` drains."""

from __future__ import annotations

from typing import Any

from tests.chaos import history
from tests.chaos.journal import History, take


class Story:
    """Writes a history by hand. Time is a counter; every method is one line of a log (or a few)."""

    def __init__(self) -> None:
        self.t = 0.0
        self.lines: list[dict[str, Any]] = []
        self.links: dict[str, int] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        self.places: dict[tuple[str, str, int], int] = {}
        self.ids = 0
        self.finish = True
        self.drain = True

    def line(self, op: str, client: str, **values: Any) -> None:
        self.t += 1.0
        self.lines.append({"op": op, "t": self.t, "client": client, **values})

    def open(self, client: str, queue: str = "q", **values: Any) -> str:
        self.links[client] = self.links.get(client, 0) + 1
        link = f"{client}/{self.links[client]}"
        role = {"s": "sender", "b": "browser"}.get(client[0], "receiver")
        self.line("open", client, link=link, queue=queue, role=role, broker="b", **values)
        return link

    def sent(self, link: str, count: int = 1, queue: str = "q") -> range:
        client = link.split("/")[0]
        first = self.numbers.get((client, queue), 0) + 1
        self.numbers[client, queue] = first + count - 1
        self.line("send", client, link=link, first=first, last=first + count - 1, outcome="sent")
        for number in range(first, first + count):
            self.places[queue, client, number] = len(self.places) + 1
        return range(first, first + count)

    def known(self, link: str, numbers: range, outcome: str = "completed") -> None:
        self.line("send", link.split("/")[0], link=link, first=numbers[0], last=numbers[-1], outcome=outcome)

    def send(self, link: str, count: int = 1, outcome: str = "completed", queue: str = "q") -> range:
        numbers = self.sent(link, count, queue)
        self.known(link, numbers, outcome)
        return numbers

    def browse(self, queue: str, seen: list[tuple[int, str, int]]) -> None:
        """A look at the whole queue."""
        link, began = self.open("b1", queue), self.t
        self.line("browse", "b1", link=link, began=began, whole=True, seen=seen)
        self.line("close", "b1", link=link, broken=False)

    def take(
        self, link: str, number: int, count: int = 0, producer: str = "s1", queue: str = "q", **values: Any
    ) -> int:
        self.ids += 1
        position = values.pop("position", self.places.get((queue, producer, number), 0))
        since = values.pop("since", self.t + 0.5)
        self.line(
            "deliver", link.split("/")[0], link=link, id=self.ids, position=position, producer=producer,
            number=number, count=count, since=since, **values,
        )  # fmt: skip
        return self.ids

    def settle(self, link: str, id: int, outcome: str = "completed", kind: str = "accept") -> None:
        self.line("settle", link.split("/")[0], link=link, ids=[id], kind=kind, outcome="sent")
        if outcome != "sent":
            self.answer(link, id, outcome, kind)

    def answer(self, link: str, id: int, outcome: str = "completed", kind: str = "accept") -> None:
        self.line("settle", link.split("/")[0], link=link, ids=[id], kind=kind, outcome=outcome)

    def consume(self, link: str, number: int, count: int = 0, **values: Any) -> int:
        id = self.take(link, number, count, **values)
        self.settle(link, id)
        return id

    def close(self, link: str, broken: bool = False) -> None:
        self.line("close", link.split("/")[0], link=link, broken=broken)

    def end(self) -> History:
        for client in {line.get("client", "s1") for line in self.lines} - {"drain"} if self.finish else ():
            self.line("done", client)
        for queue in {line["queue"] for line in self.lines if line["op"] == "open"} if self.drain else ():
            self.line("drained", "drain", queue=queue)
        self.line("done", "drain")
        found = History()
        take(found, self.lines)
        return found

    def rules(self, **options: Any) -> set[str]:
        return history.check(self.end(), **options).rules
