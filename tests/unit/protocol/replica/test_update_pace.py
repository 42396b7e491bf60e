"""An update goes at its pace: one queue's, and that of its process. And it tells how far it is."""

from __future__ import annotations

from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import Effect, Flush, Received, Send, Tick
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.replica.update import Pace
from mantamq.protocol.status.machines import UpdateStatus
from mantamq.protocol.wire.events import Enqueue
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import UpdateFront, UpdateStart, UpdateTaken
from mantamq.protocol.wire.queue_frames import Host

ONE = (1, 7)
START_MS = 1_000_000
BLOB = bytes(100 * 1024)


def test_a_pace_holds_on_the_average_and_saves_nothing_up() -> None:
    pace = Pace(1_000_000)
    assert pace.next(100, 2_000) == 102
    assert pace.next(100, 2_000) == 104
    assert pace.next(500, 1_500) == 501  # what was not used before is gone
    assert pace.next(501, 1_500) == 503  # no part of a millisecond is lost


def begin(replica: ReplicaMachine, queue: str, messages: int) -> None:
    """A blank replica hears the beginning of an update of `messages` messages, from b2.r0."""
    state = QueueState(queue)
    for position in range(1, messages + 1):
        state.apply(Enqueue("c", [position, position], [BLOB]))
    replica.step(Received("b1", Host(queue, "", {}, ONE, True, 2)))
    replica.step(
        Received("b2.r0", UpdateStart(queue, "b2.r0", "b1.r0", messages, ONE, messages, {}, {}, state.snapshot()))
    )


def chunk(queue: str, number: int, last: bool = False) -> Frame:
    return UpdateFront(queue, number, [number, number], [BLOB], last, 0)


def taken(effects: list[Effect]) -> list[UpdateTaken]:
    return [effect.frame for effect in effects if isinstance(effect, Send) and isinstance(effect.frame, UpdateTaken)]


def finish(replica: ReplicaMachine, queues: list[str], messages: int) -> int:
    """Give chunk after chunk, each as soon as the one before is taken; returns how long it took, in milliseconds."""
    waiting = dict.fromkeys(queues, 1)  # queue -> chunk to give next
    now_ms = START_MS
    while waiting:
        replica.step(Tick(now_ms))
        effects: list[Effect] = []
        for queue, number in list(waiting.items()):
            if number > messages:
                continue
            waiting[queue] = messages + 1
            effects += replica.step(Received("b2.r0", chunk(queue, number, number == messages)))
        effects += replica.step(Flush())
        for frame in taken(effects):
            if frame.chunk == messages:
                del waiting[frame.stream]
            else:
                waiting[frame.stream] = frame.chunk + 1
        now_ms += 1
        assert now_ms < START_MS + 60_000, "the updater waits for ever"
    return now_ms - START_MS


def replica() -> ReplicaMachine:
    machine = ReplicaMachine("b1.r0", "b1", 1)
    machine.step(Tick(START_MS))
    return machine


def test_one_queue_goes_at_the_pace_of_a_queue() -> None:
    machine, messages = replica(), 160
    begin(machine, "q#1", messages)
    took_ms = finish(machine, ["q#1"], messages)
    due_ms = (messages - 1) * len(BLOB) * 1000 / DEFAULT.update_queue_bytes_s  # nobody waits behind the last chunk
    assert due_ms * 0.98 <= took_ms <= due_ms * 1.2


def test_many_queues_together_go_at_the_pace_of_the_process() -> None:
    machine, messages, queues = replica(), 40, [f"q#{number}" for number in range(8)]
    for queue in queues:
        begin(machine, queue, messages)
    took_ms = finish(machine, queues, messages)
    due_ms = 8 * (messages - 1) * len(BLOB) * 1000 / DEFAULT.update_process_bytes_s
    assert due_ms * 0.95 <= took_ms <= due_ms * 1.2


def test_an_update_tells_how_far_it_is() -> None:
    machine = replica()
    begin(machine, "q#1", 3)
    assert machine.report()["q#1"].update == UpdateStatus(messages=0, depth=3, began_ms=START_MS, ended_ms=0)
    machine.step(Received("b2.r0", chunk("q#1", 1)))
    machine.step(Tick(START_MS + 50))
    machine.step(Received("b2.r0", chunk("q#1", 2)))
    machine.step(Received("b2.r0", chunk("q#1", 3, last=True)))
    whole = UpdateStatus(messages=3, depth=3, began_ms=START_MS, ended_ms=START_MS + 50)
    assert machine.report()["q#1"].update == whole
