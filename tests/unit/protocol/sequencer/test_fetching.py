"""A new sequencer fetches what a keeper lacks, in pieces, whatever becomes of the sender or of its own term meanwhile.

The keepers are real, and every frame is bytes on its way, under the limit of a client's connection: members may say no
more here than clients.
"""

from __future__ import annotations

from collections import deque

from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, Multicast, PeerDown, PeerUp, Received, Send, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import CLUSTER, ZERO, Ballot, Entry, Start, decode_event
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.log_frames import (
    Append,
    Fetch,
    Fetched,
    Heartbeat,
    HeartbeatReply,
    Prepare,
    Promise,
    Suspect,
)

MEMBERS = ["b1", "b2", "b3"]
Q = "q#1"
ONE: Ballot = (1, 7)
MIB = 2**20
BEHIND_BYTES = DEFAULT.frame_bytes + 8 * MIB


def log(count: int, size: int, ballot: Ballot = ONE) -> list[Entry]:
    """Entries of `size` bytes each, which say their place and their ballot."""
    return [
        Entry(ballot, i, "b9", 1, i, (b"%d of %d " % (i, ballot[0])).ljust(size, b".")) for i in range(1, count + 1)
    ]


def brief(entries: list[Entry]) -> list[tuple[Ballot, bytes, int]]:
    """Of each its ballot, what it says, and its size: a test that fails shows no megabytes."""
    return [(entry.ballot, entry.event.rstrip(b"."), len(entry.event)) for entry in entries]


class Takeover:
    """A standby, and three brokers with their keepers of the cluster stream and of one queue's, which it comes to lead.

    Attributes:
        pieces: what was fetched of the queue's stream, and from whom.
        applied: what each keeper of that has found committed.
        bytes: of the largest frame that went to the sequencer.
    """

    def __init__(self, held: dict[str, list[Entry]], uid: int = 8) -> None:
        self.keepers = {(CLUSTER, name): Keeper(CLUSTER, name, 1, voters=MEMBERS) for name in MEMBERS}
        self.keepers |= {(Q, name): Keeper(Q, name, 1, voters=MEMBERS) for name in MEMBERS}
        for name, entries in held.items():
            self.keepers[Q, name].append(Append(entries[-1].ballot, Q, 0, ZERO, 0, 0, entries))
        self.pieces: list[tuple[str, Fetched]] = []
        self.applied: dict[str, list[Entry]] = {name: [] for name in MEMBERS}
        self.bytes = 0
        self.here = dict.fromkeys(MEMBERS)
        self.now_ms = 1_000
        self.begin(uid)

    def begin(self, uid: int) -> None:
        """Another standby is asked to lead."""
        self.machine = SequencerMachine(uid, list(MEMBERS), leading=False)
        self.on_the_way: deque[tuple[str, Frame]] = deque()
        self.step(Tick(self.now_ms))
        for name in self.here:
            self.step(PeerUp(name))
        highest = max(keeper.promised for keeper in self.keepers.values())
        for name in self.here:
            self.on_the_way.append((name, Suspect(highest, name, MEMBERS)))

    def step(self, input: object) -> None:
        for effect in self.machine.step(input):  # type: ignore[arg-type]
            if isinstance(effect, Send | Multicast):
                for peer in effect.peers if isinstance(effect, Multicast) else [effect.peer]:
                    if peer in self.here:
                        self.answer(peer, effect.frame)

    def answer(self, name: str, frame: Frame) -> None:
        """A broker's word to what the sequencer says to it and to its keepers."""
        answers: list[Frame | None] = []
        if isinstance(frame, Prepare):
            for stream in (CLUSTER, Q):
                self.keepers[stream, name].promise(frame.ballot)
            answers = [Promise(frame.ballot, name, 1, False, [Q])]
            answers += (self.keepers[stream, name].log_report() for stream in (CLUSTER, Q))
        elif isinstance(frame, Fetch):
            answers = [self.keepers[frame.stream, name].fetch(frame)]
        elif isinstance(frame, Heartbeat):
            answers = [HeartbeatReply(frame.ballot, frame.number, name, 1)]
        elif isinstance(frame, Append):
            keeper = self.keepers[frame.stream, name]
            committed, refusal = keeper.append(frame)
            if frame.stream == Q:
                self.applied[name] += committed
            answers = [refusal or keeper.ack(keeper.commit)]
        self.on_the_way += ((name, answer) for answer in answers if answer is not None)

    def deliver(self) -> Frame:
        """One frame arrives at the sequencer."""
        name, frame = self.on_the_way.popleft()
        data = encode_frame(frame)
        self.bytes = max(self.bytes, len(data))
        (arrived,) = FrameBuffer(DEFAULT).feed(data)
        if isinstance(arrived, Fetched) and arrived.stream == Q:
            self.pieces.append((name, arrived))
        self.step(Received(name, arrived))
        return arrived

    def until_pieces(self, count: int) -> None:
        """Go on until that many pieces have come; there are more."""
        while len(self.pieces) < count:
            if self.on_the_way:
                self.deliver()
            else:
                self.wait()
        assert not self.machine.order.streams[Q].ready

    def lost(self, name: str) -> None:
        """A broker's process dies: what it has sent is lost with its link."""
        del self.here[name]
        self.on_the_way = deque((sender, frame) for sender, frame in self.on_the_way if sender != name)
        self.step(PeerDown(name))

    def wait(self) -> None:
        self.now_ms += DEFAULT_TIMING.recovery_grace_ms
        self.step(Tick(self.now_ms))
        self.step(Flush())

    def finish(self) -> list[tuple[Ballot, bytes, int]]:
        """Until the queue's stream is adopted and committed; returns what all that are here have applied."""
        for _ in range(200):
            while self.on_the_way:
                self.deliver()
            self.wait()
            stream = self.machine.order.streams.get(Q)
            if stream is not None and stream.ready and {len(self.applied[name]) for name in self.here} == {stream.end}:
                break
        stream = self.machine.order.streams[Q]
        logs = [self.applied[name] for name in self.here]
        assert stream.ready and stream.commit == stream.end, "the takeover does not finish"
        assert all(brief(log) == brief(logs[0]) for log in logs)
        assert decode_event(logs[0][-1].event) == Start(self.machine.order.ballot)
        return brief(logs[0][:-1])


def test_a_keeper_is_further_behind_than_a_frame_takes():
    """Two of three hold 40 MiB that the third lacks. In one frame it was refused, and the takeover never finished."""
    entries = log(BEHIND_BYTES // MIB, MIB)
    world = Takeover({"b1": entries, "b2": entries})
    whole = Fetched(ONE, Q, 1, ZERO, entries)
    assert len(encode_frame(whole)) > DEFAULT.frame_bytes
    assert world.finish() == brief(entries)
    assert len(world.pieces) == -(-len(entries) // 3), "with what an entry costs, three make a piece"
    assert world.bytes < DEFAULT.fetch_bytes + MIB


def test_one_entry_larger_than_a_piece_goes_alone():
    entries = log(5, DEFAULT.message_bytes)
    world = Takeover({"b2": entries, "b3": entries})
    assert world.finish() == brief(entries)
    assert [len(piece.entries) for _, piece in world.pieces] == [1] * 5


def test_the_sender_dies_in_the_middle():
    """Another keeper has the same log: it is asked from the beginning. The term's first heartbeat is still to come, and
    comes: it was lost when a link broke before it."""
    entries = log(20, MIB)
    world = Takeover({"b1": entries, "b2": entries})
    world.until_pieces(3)
    sender = world.pieces[-1][0]
    world.lost(sender)
    assert world.finish() == brief(entries)
    (other,) = {"b1", "b2"} - {sender}
    assert {name for name, _ in world.pieces[3:]} == {other} and world.pieces[3][1].first == 1


def test_the_sender_dies_and_the_next_best_log_is_another():
    """Of the one that died nothing stays: what only it had was no majority's."""
    best, other = log(20, MIB, (3, 9)), log(16, MIB, (2, 9))
    world = Takeover({"b1": best, "b2": other})
    world.until_pieces(3)
    assert world.pieces[-1][0] == "b1"
    world.lost("b1")
    assert world.finish() == brief(other)


def test_the_ballot_changes_in_the_middle():
    """The keepers follow another sequencer: the first hears no more, and its pieces are nothing to the second."""
    entries = log(20, MIB)
    world = Takeover({"b1": entries, "b2": entries})
    world.until_pieces(3)
    first, late = world.machine, list(world.on_the_way)
    world.begin(uid=9)
    world.until_pieces(5)
    for name, frame in late:
        world.step(Received(name, frame))
    assert world.finish() == brief(entries)
    asked = Fetch(first.order.ballot, Q, 1, 20, DEFAULT.fetch_bytes)
    assert all(keeper.fetch(asked) is None for keeper in world.keepers.values())
    assert not first.order.streams[Q].ready
