"""Frames and events in words: the lines of a trace."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.ranges import pairs, runs
from mantamq.protocol.wire import events
from mantamq.protocol.wire import log_frames as log
from mantamq.protocol.wire import queue_frames as queues
from mantamq.protocol.wire.client_frames import Delivery, Detached, Disposed, Failed, MembersChanged, Opened, Reply
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.majority_frames import Waiting, Waits
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE

KINDS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}


def ranges_in_words(flat: list[int]) -> str:
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs(flat)) or "-"


def runs_in_words(flat: list[int]) -> str:
    merged: list[list[int]] = []
    for acquisition, first, last in runs(flat):
        if merged and merged[-1][0] == acquisition and merged[-1][2] == first - 1:
            merged[-1][2] = last
        else:
            merged.append([acquisition, first, last])
    return " ".join(f"{a}:{ranges_in_words([first, last])}" for a, first, last in merged) or "-"


def delivered(acquisition: int, ranges: list[int], blobs: list[bytes], redelivered: list[int]) -> str:
    bodies = b" ".join(blobs).decode()
    again = "".join(f", {blobs[i].decode()} returned {n} times" for i, n in pairs(redelivered))
    return f"{acquisition}:{ranges_in_words(ranges)} {bodies}{again}"


def to_client(frame: Frame) -> str:
    """A frame to a client."""
    match frame:
        case Opened():
            return "opened"
        case MembersChanged():
            return f"members {' '.join(frame.members)}"
        case Delivery():
            what = delivered(frame.acquisition, frame.ranges, frame.blobs, frame.redelivered)
            return f"{frame.handle} gets {what}"
        case Disposed():
            lost = f", lost {runs_in_words(frame.lost)}" if frame.lost else ""
            return f"{frame.handle} settlement {frame.number} done{lost}"
        case Reply():
            result = f"{frame.code}: {frame.text}" if frame.code else f"{frame.value}"
            return f"reply {frame.number} {result}"
        case Detached() | Failed():
            return f"{frame.handle} {type(frame).__name__.lower()} {frame.code} {frame.text}".rstrip()
        case _:
            rest = [ranges_in_words(frame.ranges)] if hasattr(frame, "ranges") else []
            return " ".join([str(getattr(frame, "handle", "")), type(frame).__name__.lower(), *rest])


def of_messages(event: events.AnyEvent) -> str:
    """An event that every story tells: of messages and the consume lock; "" for another."""
    match event:
        case events.Enqueue():
            return f"enqueue {b' '.join(event.blobs).decode()}"
        case events.Acquire():
            return f"acquire by {event.broker} {runs_in_words(event.runs)}" + (" and accept" if event.accepted else "")
        case events.Accept() | events.Release() | events.Reject():
            return f"{type(event).__name__.lower()} by {event.broker} {runs_in_words(event.runs)}"
        case events.Own():
            by = f", given up by {event.by}" if event.by else ""
            return f"own {event.grant} to {event.broker or 'nobody'}{by}"
        case events.DeadLetterDone():
            return f"dead-lettered: what event {event.batch} rejected"
        case events.Expire():
            return f"expire {ranges_in_words(event.ranges)}"
        case events.Purge():
            return "purge"
        case _:
            return ""


def of_cluster(event: events.AnyEvent) -> str:
    """An event that a story tells when it shows its kind."""
    match event:
        case events.Start():
            return f"Start {ballot(event.ballot)}"
        case events.Evict():
            return f"Evict {event.broker}"
        case events.Rejoin():
            return f"Rejoin {event.voter}"
        case events.Member():
            return f"Member {event.broker} {'joins' if event.present else 'leaves'}"
        case events.FlowControl():
            return f"FlowControl on, {event.reason}" if event.on else f"FlowControl off for {event.member}"
        case events.Lost():
            return f"Lost {event.queue}{', as asked' if event.asked else ''}"
        case events.DeclareQueue():
            return f"DeclareQueue {event.name}"
        case _:
            return type(event).__name__


def ballot(value: events.Ballot) -> str:
    return f"{value[0]}.{value[1]}"


def stream_of(frame: Any) -> str:
    """The stream, or the queue's, that a frame is about; "" for none."""
    return getattr(frame, "stream", "") or getattr(frame, "queue", "")


def between_members(frame: Any) -> str:
    """A frame between members, in the words of Raft."""
    name = type(frame).__name__
    about = " ".join(filter(None, [name, stream_of(frame)]))
    match frame:
        case log.Request():
            return f"Request {frame.number}: " + ", ".join(f"{stream} {_event(e)}" for stream, e in frame.parts)
        case log.Results():
            return f"Results {' '.join(map(str, frame.numbers))}"
        case log.Suspect():
            return f"Suspect the leader of {ballot(frame.ballot)}"
        case log.Prepare():
            return f"Prepare {ballot(frame.ballot)}"
        case log.Promise():
            return f"Promise {ballot(frame.ballot)}" + (", blank" if frame.blank else "")
        case log.Nack():
            return f"Nack, promised {ballot(frame.promised)}"
        case log.LogReport():
            last = f"last entry {frame.have} of {ballot(frame.ballot)}, commit {frame.commit}"
            return f"{about}: {last}{', blank' if frame.blank else ''}"
        case log.Fetch():
            return f"{about} {frame.first}-{frame.last}"
        case log.Fetched() | log.Append():
            first = frame.first if isinstance(frame, log.Fetched) else frame.previous + 1
            entries = [f"{first + i} {_event(entry.event)}" for i, entry in enumerate(frame.entries)]
            commit = [] if isinstance(frame, log.Fetched) else [f"commit {frame.commit}"]
            return f"{about}: {', '.join([*entries, *commit])}"
        case log.Ack():
            return f"{about} {frame.match}"
        case log.Heartbeat() | log.HeartbeatReply():
            return f"{name} {frame.number} of {ballot(frame.ballot)}"
        case log.Update():
            return f"{about}: bring {frame.updatee} up to date"
        case log.UpdateStart():
            return f"{about}: sync point {frame.index}"
        case log.UpdatePiece():
            return f"{about}: piece {frame.chunk}, {len(frame.data)} of {frame.size} bytes"
        case log.UpdateFront():
            bodies = b" ".join(frame.blobs).decode()
            messages = f" messages {ranges_in_words(frame.ranges)} {bodies}" if frame.blobs else ""
            return f"{about}: chunk {frame.chunk}{messages}{', the last' if frame.last else ''}"
        case log.UpdateTaken():
            return f"{about}: chunk {frame.chunk}"
        case Waits():
            return f"{about}: {'; '.join(_waiting(one) for one in frame.streams) or 'nothing waits'}"
        case log.Evicted():
            return f"Evicted: {frame.reason}"
        case log.Orphaned() | log.Leave() | log.Left():
            return f"{name} {frame.broker}"
        case queues.Interest():
            return f"{about}: {frame.broker} {'wants' if frame.interested else 'does not want'} the lock"
        case queues.OwnerIs() | queues.Void():
            return f"{about}: {frame.broker or 'nobody'}, grant {frame.grant}"
        case queues.Contended():
            return f"{about}: {frame.next or 'nobody'} is next after grant {frame.grant}"
        case queues.Deliver():
            return f"{about}: {delivered(frame.acquisition, frame.ranges, frame.blobs, frame.redelivered)}"
        case _:
            return about


def _waiting(one: Waiting) -> str:
    voters = {"here": one.here, "blank": one.blank, "missing": list(one.missing)}
    return ", ".join([f"{one.stream} {one.fate}", *(f"{kind} {' '.join(v)}" for kind, v in voters.items() if v)])


def _event(data: bytes) -> str:
    event = events.decode_event(data)
    assert event is not None
    return of_messages(event) or of_cluster(event)
