"""Messages that users have go on from queue to queue: each once, in order, as it was; and what no queue takes is back.

Where they go is a queue of these stories' own, or back to where they died. What is chosen is judged by selectors that are
written by hand, how many are, by the count that was asked for; what comes, by the batch that it is of; and what its user
hears, by the model.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _declare_queue, _delete_queue
from mantamq.client.moves import _Move
from mantamq.protocol.wire import events

from .defaults import roomy
from .duplicates import NAMES, WindowChoices
from .model import ModelQueue, Violation, each, opened, with_notes
from .selectors import WANTED, wants
from .users import Task, User

if TYPE_CHECKING:
    from .afterlife import Afterlife
    from .checkers import Watcher
    from .workload import Story

STORIES = 0.25
"""The share of stories with moves."""
RATE = 0.06
"""How often one is asked for, or a queue for it is declared or deleted."""
CUT = 0.2
"""How likely the line of its user breaks just then."""
WIDE, SMALL = "aside.wide", "aside.small"
"""Where messages go; the second takes few."""
PIECES = 1 << 44


class MessageMoves:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. ended: moves whose users have heard how they ended. went: messages that have gone so.
    """

    def __init__(self, watch: Watcher, afterlife: Afterlife, seed: int) -> None:
        self._rng = random.Random(f"moves of messages of {seed}")
        self.some = self._rng.random() < STORIES
        self.ended = self.went = 0
        self._windows = WindowChoices(seed)
        self._watch = watch
        self._afterlife = afterlife
        self._asked: dict[str, dict[str, Any]] = {}  # token -> what was asked for
        self._came: dict[tuple[str, int], list[tuple[str, events.Enqueue]]] = defaultdict(list)  # batch -> its copies
        self._last: dict[tuple[str, str], int] = {}  # (queue, token) -> the last position that has come there
        if self.some:
            watch.before_commit.append(self._committing)

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        users = [user for user in story.users if user.opened and user.alive and user.reconnects]
        if not users:
            return
        user, name = rng.choice(users), rng.choice([WIDE, SMALL])
        if name not in self._watch.wiring.ids:
            few = roomy(user.world.limits.queue_bytes) | ({"qpid.max_count": 3} if name == SMALL else {})
            few |= {NAMES[option][0]: value for option, value in self._windows.some({}).items()}
            user.ask(_declare_queue(name, story.declared_as(name).get("durable", False), "", few, False))
        elif rng.random() < 0.1:
            user.ask(_delete_queue(name, False, False))
        else:
            source = rng.choice([*(queue for queue in story.queues if queue != "q1"), "dead", WIDE, SMALL])
            self._start(user, source, name if name != source else "dead" if name == WIDE else WIDE)

    def _start(self, user: User, source: str, to: str) -> None:
        rng = self._rng
        selector = rng.choice(list(WANTED)) if rng.random() < 0.5 else ""
        by = rng.choices(["", "home", "discard"], [8, 2, 1])[0]
        move = _Move(source, by, rng.choice([0, 0, 1, 3, 10]), selector, "", "" if by else to)
        what = move.ask.arguments
        self._asked[what["token"]] = dict(what)
        user.start(self._run(user, move))
        if rng.random() < CUT:
            user.world.after(rng.randrange(20_000), user.cut)

    def _run(self, user: User, move: _Move) -> Task:
        what = move.ask.arguments
        while (value := (yield from user.asked(move.ask))) is not None:
            if not move.more(value):
                self._ended(user, what, value)
                return

    def _ended(self, user: User, what: dict[str, Any], value: dict[str, Any]) -> None:
        """All that it has set aside is somewhere, and its user hears how much that is."""
        self.ended += 1
        found = list(self._chosen_by(what["name"], what["token"]))
        if not found and value["moved"]:
            raise Violation(f"{user.name} hears that {value} of {what} have gone, and nothing has been chosen")
        said, gone = (value["moved"], value["left"]), self._watch.gone
        ends = {
            model.id: (taken - back, back) for model in found for _, _, taken, back in [model.stands[what["token"]]]
        }
        # Where one was deleted, the next one of that name may have been asked, and may have chosen nothing.
        there = {id: end for id, end in ends.items() if id not in gone} or ends
        if ends and said not in there.values() and not (said == (0, 0) and gone.issuperset(ends)):
            raise Violation(f"{user.name} hears {value} of {what}; (gone, left) are {ends}")
        for model in found:
            if said == ends[model.id] and any(move.token == what["token"] for move in model.targets.values()):
                raise Violation(f"{user.name} hears that {what} is over, and some of it is on its way")

    def _chosen_by(self, name: str, token: str) -> Iterator[ModelQueue]:
        """The queues of that name of which such a move has chosen: also where that was committed behind the deletion,
        by voters who had not heard of it."""
        for id, model in self._watch.models.items():
            if id.rpartition("#")[0] != name:
                continue
            for _, late in deque(self._afterlife.committed(id) if id in self._watch.gone else (), maxlen=1):
                model = late
            if token in model.stands:
                yield model

    # ---- the log

    def _committing(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        if isinstance(event, events.Move):
            self._chosen(stream, event, model)
        elif isinstance(event, events.Moved):
            self._landed(stream, event, model)
        elif isinstance(event, events.Enqueue) and "@" in event.client and not event.client.endswith("@"):
            self._comes(stream, event, model)

    def _chosen(self, stream: str, event: events.Move, model: ModelQueue) -> None:
        what = self._asked[event.token]
        behind, _, taken, back = model.stands.get(event.token, (0, 0, 0, 0))
        if event.after != behind or (event.ranges and (event.broker, event.grant) != (model.owner, model.grant)):
            return
        chosen = [position for position in each(event.ranges) if model.place.get(position) == "available"]
        if what["count"] and taken - back + len(chosen) > what["count"]:
            raise Violation(f"{stream}: {what} takes {len(chosen)} more, behind {taken} of which {back} are back")
        unwanted = [p for p in chosen if what["selector"] and not wants(what["selector"], model.blobs[p])]
        strange = [p for p in chosen if not event.after < p <= event.upto]
        if unwanted or strange:
            raise Violation(f"{stream}: {what} takes {unwanted[:5]}, which it does not want, or {strange[:5]} again")

    def _comes(self, stream: str, event: events.Enqueue, model: ModelQueue) -> None:
        source, _, name = event.client.rpartition("@")
        place = source, int(name) % PIECES
        entry = self._watch.logs.get(source, {}).get(place[1])
        chosen = events.decode_event(entry.event) if entry is not None else None
        if isinstance(chosen, events.Move) and chosen.by in ("home", "queue"):
            model.named.add(event.client)
        known = self._watch.models.get(source)
        move = known.targets.get(place[1]) if known is not None else None
        if known is None or move is None:
            if known is None or place[1] not in known.batches:  # nobody has been told that its batch is committed
                self._came[place].append((stream, event))
                if stream.rpartition("#")[0] != "dead":
                    model.foreign.add(event.client)
            return
        model.foreign.add(event.client)
        self._came[place].append((stream, event))
        new = [number for number in each(event.numbers) if number not in model.seen.get(event.client, ())]
        batch, last = known.batches[place[1]][1], self._last.get((stream, move.token), 0)
        if new and batch[0] <= last:
            raise Violation(f"{stream}: what of {source} was at {batch[0]} comes behind what was at {last}")
        if new and name.isdigit() and int(name) < PIECES:
            self._last[stream, move.token] = batch[0]

    def _landed(self, stream: str, event: events.Moved, source: ModelQueue) -> None:
        if event.batch not in source.batches:
            return
        batch, move = source.batches[event.batch][1], source.targets[event.batch]
        taken: dict[int, list[str]] = defaultdict(list)  # position -> queues that have its copy
        for queue, copies in self._came.pop((stream, event.batch), []):
            known = self._watch.models.get(queue)
            refused = known.refused.get(copies.client, set()) if known is not None else set()
            self._copied(queue, copies, refused, source, batch, move, taken)
        back = set(each(event.back))
        if any(position not in back and not taken[position] for position in batch):
            for queue, copies, refused in self._late((stream, event.batch)):
                self._copied(queue, copies, refused, source, batch, move, taken)
        self.went += len(batch) - len(back)
        for position in batch:
            there = [queue for queue in taken[position] if queue not in self._watch.gone]
            if position in back and there:
                raise Violation(f"{stream}: {position} is back, and went to {there}")
            if position not in back and not taken[position]:
                raise Violation(f"{stream}: {position} has gone, and is nowhere")

    def _late(self, batch: tuple[str, int]) -> Iterator[tuple[str, events.Enqueue, set[int]]]:
        """What of a batch has come into queues whose deletion was committed before, while a majority of their voters
        had not heard of that, and so nobody could know that they are gone: it came, and went with them. And which
        numbers they had refused by then."""
        for queue in sorted(self._watch.gone):
            for event, model in self._afterlife.committed(queue):
                source, _, name = event.client.rpartition("@") if isinstance(event, events.Enqueue) else ("", "", "")
                if isinstance(event, events.Enqueue) and name and (source, int(name) % PIECES) == batch:
                    yield queue, event, model.refused.get(event.client, set())

    def _copied(
        self, queue: str, copies: events.Enqueue, refused: set[int], source: ModelQueue, batch: list[int],
        move: events.Move, taken: dict[int, list[str]],
    ) -> None:  # fmt: skip
        """What has come is of the batch, in its order, as it was there, and belongs to that queue."""
        at = 0
        expiry = dict(zip(copies.expiry[::2], copies.expiry[1::2], strict=True))
        for index, (number, blob) in enumerate(zip(each(copies.numbers), copies.blobs, strict=True)):
            while at < len(batch) and with_notes(source, batch[at]) != blob:
                at += 1
            if at == len(batch):
                raise Violation(
                    f"{queue}: {blob!r} comes from {source.id}, where it is not in {batch[:5]}, or not then"
                )
            position = batch[at]
            ends = source.expiry.get(position)
            if source.lives is not None and ends == source.came[position] + source.lives:
                ends = None  # that is its queue's time, which it leaves behind
            if expiry.get(index) != ends:
                raise Violation(
                    f"{queue}: {position} of {source.id} expires at {expiry.get(index)}, as it did not there"
                )
            if _home(blob) != queue.rpartition("#")[0] if move.by == "home" else queue != move.key:
                raise Violation(f"{queue}: {position} of {source.id} was to go elsewhere: {move}")
            if number not in refused and queue not in taken[position]:
                taken[position].append(queue)
            at += 1


def _home(blob: bytes) -> Any:
    properties = (opened(blob) + [None] * 3)[2]
    return properties.get("manta.death_queue") if isinstance(properties, dict) else None
