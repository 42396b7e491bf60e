"""What is deleted goes on for a while: a replica that has not heard of it yet applies what is behind in the log, and its
broker still acts on that, and says it.

`Watcher` watches a queue no more from where its deletion is committed. Whoever judges what is said of it later asks here
how it went on: by its log, as the sequencers have sent it, also since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from math import inf
from typing import Any

from mantamq.protocol.wire import events
from mantamq.protocol.wire.log_frames import Append

from .checkers import Watcher
from .model import ModelQueue, declared
from .world import World


class Afterlife:
    def __init__(self, world: World, watch: Watcher) -> None:
        self._watch = watch
        self._defined: dict[str, tuple[Any, ...]] = {}  # id of a queue -> what it was declared with
        self._logs: dict[str, dict[int, events.Entry]] = {}  # of queues that are gone: what was sent since
        world.watch(sent={Append: self._append})
        watch.on_wiring.append(self._wired)

    def _wired(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.DeclareQueue) and event.name in self._watch.wiring.ids:
            self._defined.setdefault(self._watch.wiring.ids[event.name], self._watch.wiring.defined[event.name])

    def _append(self, source: str, target: str, frame: Append) -> None:
        if frame.stream not in self._watch.gone or not frame.entries:
            return
        log = self._logs.setdefault(frame.stream, dict(self._watch.logs.get(frame.stream, {})))
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            known = log.get(index)
            if known is not None and known.ballot < entry.ballot:  # another leads, and had not got that far
                for later in [later for later in log if later > index]:
                    del log[later]
            if known is None or known.ballot < entry.ballot:
                log[index] = entry

    def states(self, id: str) -> Iterator[ModelQueue]:
        """How a queue that is gone is behind each event that was not committed when its deletion was; always the same
        object."""
        return (model for _, model in self._events(id))

    def committed(self, id: str) -> Iterator[tuple[events.AnyEvent, ModelQueue]]:
        """What has become committed in a queue since its deletion was, by voters who had not heard of that; and how the
        queue is behind it. Of who has heard nothing is counted: that has dropped its log."""
        return self._events(id, self._held(id))

    def _held(self, id: str) -> int:
        """Up to where a majority holds its log."""
        log, voters = self._log(id), self._watch.voters.get(id, [])
        held = [i for i, entry in log.items() if len(self._watch.holders(id, entry.ballot, i)) > len(voters) // 2]
        return max(held, default=0)

    def _log(self, id: str) -> dict[int, events.Entry]:
        return self._logs.get(id) or self._watch.logs.get(id, {})

    def _events(self, id: str, upto: float = inf) -> Iterator[tuple[events.AnyEvent, ModelQueue]]:
        watch = self._watch
        log, index = self._log(id), watch.commits.get(id, 0)
        model = deepcopy(watch.models.get(id))
        if model is None:
            definition = self._defined.get(id, ({}, False, ""))
            model = ModelQueue(id, bool(definition[2]))
            declared(model, definition[0])
        while (entry := log.get(index := index + 1)) is not None and index <= upto:
            event = events.decode_event(entry.event)
            if event is not None:
                model.apply(event)
                yield event, model

    def refused(self, client: str) -> set[int]:
        """Those of a client's numbers that queues have refused which were deleted before that was committed."""
        ends = [deque(self.states(id), maxlen=1) for id in self._watch.gone]
        return {number for end in ends for model in end for number in model.refused.get(client, ())}
