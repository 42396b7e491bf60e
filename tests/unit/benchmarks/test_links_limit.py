"""The bench's machines that decide nothing still deliver everything, in order, behind a vote."""

from mantamq.benchmarks.links_limit import _ROLES, BALLOT, OWNER, QUEUE
from mantamq.protocol.machine import Multicast, Received, Send
from mantamq.protocol.wire.client_frames import AttachReceiver, Completed, Delivery, Flow, Transfer
from mantamq.protocol.wire.events import Entry
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Ack, Append
from mantamq.protocol.wire.queue_frames import Deliver


def _pump(first: list[tuple[str, str, Frame]]) -> list[tuple[str, str, Frame]]:
    """Carry frames (from, to, frame) between the machines until none is left; returns all that were carried."""
    machines = {name: machine() for name, (machine, _) in _ROLES.items()}
    carried: list[tuple[str, str, Frame]] = []
    waiting = list(first)
    while waiting:
        sender, name, frame = waiting.pop(0)
        carried.append((sender, name, frame))
        if name in machines:
            for effect in machines[name].step(Received(sender, frame)):
                peers = effect.peers if type(effect) is Multicast else [effect.peer]
                waiting += ((name, peer, effect.frame) for peer in peers)
    return carried


def test_every_transfer_is_delivered_and_completed_behind_a_vote():
    carried = _pump(
        [
            ("c2", "b2", AttachReceiver(1, "q")),
            ("c2", "b2", Flow(1, 100)),
            ("c1", "b1", Transfer(7, 1, [b"one"])),
            ("c1", "b1", Transfer(7, 2, [b"two", b"three"])),
        ]
    )
    deliveries = [frame for _, to, frame in carried if to == "c2" and type(frame) is Delivery]
    assert [blob for frame in deliveries for blob in frame.blobs] == [b"one", b"two", b"three"]
    assert [frame.ranges for frame in deliveries] == [[1, 1], [2, 3]]
    completed = [frame for _, to, frame in carried if to == "c1" and type(frame) is Completed]
    assert completed == [Completed(7, [1, 1]), Completed(7, [2, 3])]


def test_the_owner_delivers_nothing_before_a_vote_and_nothing_twice():
    owner = _ROLES[OWNER][0]()
    append = Append(BALLOT, QUEUE, 0, BALLOT, 0, 0, [Entry(BALLOT, 1, "b1", 1, 1, b"one")])
    assert owner.step(Received("sequencer", append)) == []
    deliver, _ = owner.step(Received("b1.r0", Ack(BALLOT, QUEUE, "b1", 1, 0)))
    assert deliver == Send("b2", Deliver(QUEUE, 0, 1, [1, 1], [b"one"]))
    assert owner.step(Received("b3.r0", Ack(BALLOT, QUEUE, "b1", 1, 0))) == []
