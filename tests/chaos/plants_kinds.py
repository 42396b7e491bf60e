"""Violations of the rules of kinds, planted into the logs of an honest run: each into a queue of that kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from . import kinds
from .journal import DRAINER
from .planting import FAR, Lines, NoPlace, Plant, Unprovable, accepted_once, queues_of, without

Line = dict[str, Any]


def _deliveries(lines: Lines, kind: str) -> Lines:
    queues = queues_of(lines)
    return [line for line in lines if line["op"] == "deliver" and kinds.name(queues[line["link"]]) == kind]


def _behind(lines: Lines, at: int, line: Line) -> Lines:
    return [*lines[:at], line, *lines[at:]]


def _held_by_two(kind: str) -> Callable[[Lines], Lines]:
    """Who had a message of a group, or of the queue, accepts it only after somebody else has got the next one."""

    def sow(lines: Lines) -> Lines:
        what = kinds.KINDS[kind]
        held: dict[str, list[Line]] = defaultdict(list)
        for line in accepted_once(lines, kind):
            held[what.key(line["number"]) if what.held_by_one == kinds.EACH else ""].append(line)
        last = {line["client"]: line["t"] for line in lines}
        for of_group in held.values():
            of_group.sort(key=lambda line: line["t"])
            for one, other in pairwise(of_group):
                if one["client"] != other["client"] and one["t"] < other["t"] < last[one["client"]]:
                    return _accepted_later(lines, one, other["t"] + 1e-6)
        raise NoPlace

    return sow


def _accepted_later(lines: Lines, taken: Line, t: float) -> Lines:
    """The accept of a delivery is asked for, and answered, at this time."""
    kept = [taken if line is taken else line for line in without(lines, {**taken})]
    at = next(i for i, line in enumerate(kept) if line["client"] == taken["client"] and line["t"] > t)
    said = {"op": "settle", "t": t, "client": taken["client"], "link": taken["link"], "ids": [taken["id"]]}
    asked = [said | {"kind": "accept", "outcome": outcome} for outcome in ("sent", "completed")]
    return [*kept[:at], *asked, *kept[at:]]


def _last_first(kind: str) -> Callable[[Lines], Lines]:
    """The drainer, or whoever drained it last, gets the last of its order before the others."""

    def sow(lines: Lines) -> Lines:
        what = kinds.KINDS[kind]
        of_key: dict[tuple[str, str], Lines] = defaultdict(list)
        for line in _deliveries(lines, kind):
            if not line["count"] and not line.get("again"):
                of_key[line["link"], what.order(line["number"])].append(line)
        for found in of_key.values():
            if len(found) > 1:
                _swap(found[0], found[-1])
                return lines
        raise NoPlace

    return sow


def _swap(one: Line, other: Line) -> None:
    for name in ("position", "producer", "number"):
        one[name], other[name] = other[name], one[name]


def _look(kind: str, **changed: Any) -> Callable[[Lines], Lines]:
    """A broker says something else of the queue."""

    def sow(lines: Lines) -> Lines:
        looks = [line for line in lines if line["op"] == "look" and kinds.name(line["queue"]) == kind]
        wanted = [line for line in looks if line["stopped"] == changed.get("stopped", line["stopped"])]
        if not wanted:
            raise NoPlace
        wanted[len(wanted) // 2].update(changed)
        return lines

    return sow


def _not_withheld(lines: Lines) -> Lines:
    """What was sent while producers are held back completes before they are let go."""
    queues = queues_of(lines)
    runs: dict[int, Lines] = defaultdict(list)
    for line in lines:
        if line["op"] == "look" and kinds.name(line["queue"]) == "limit" and line["stopped"]:
            runs[line["stops"]].append(line)
    for at, line in enumerate(lines):
        if line["op"] != "send" or line["outcome"] != "sent" or kinds.name(queues[line["link"]]) != "limit":
            continue
        for run in runs.values():
            if not run[0]["t"] < line["t"] < run[-1]["began"]:
                continue
            for behind in range(at + 1, len(lines)):
                answer = lines[behind]
                if answer["op"] == "send" and answer["link"] == line["link"] and answer["outcome"] == "completed":
                    if line["first"] <= answer["first"] <= line["last"]:
                        told = answer | {"t": (line["t"] + run[-1]["began"]) / 2}
                        if all(other["client"] != line["client"] for other in lines[at + 1 : behind]):
                            return [*lines[:at], line, told, *lines[at + 1 : behind], *lines[behind + 1 :]]
                    break
    raise NoPlace


def _refused_early(lines: Lines) -> Lines:
    """The first that was sent is called refused."""
    queues = queues_of(lines)
    for line in lines:
        mine = line["op"] == "send" and kinds.name(queues[line["link"]]) == "limit"
        if mine and line["outcome"] == "completed":
            line["outcome"] = "refused"
            taken = [
                each for each in _deliveries(lines, "limit")
                if each["producer"] == line["client"] and line["first"] <= each["number"] <= line["last"]
            ]  # fmt: skip
            for each in taken:
                lines = without(lines, each)
            return lines
    raise NoPlace


def _refused_appears(lines: Lines) -> Lines:
    """What came is called refused."""
    sends, taken = _sends(lines, "limit"), accepted_once(lines, "limit")
    one = _middle([each for each in taken if sends[each["producer"], each["number"]][2] < FAR])
    told: Lines = []
    for line in lines:
        mine = line["op"] == "send" and line["client"] == one["producer"] and line["outcome"] == "completed"
        if mine and line["first"] <= one["number"] <= line["last"]:
            line = line | {"outcome": "refused"}
        told.append(line)
    return told


def _middle(found: Lines) -> Line:
    if not found:
        raise NoPlace
    return found[len(found) // 2]


def _sends(lines: Lines, kind: str) -> dict[tuple[str, int], tuple[str, float, float]]:
    """Producer and number -> link, when it was sent, and when it was complete (`FAR` if that is not known); of what was not
    refused."""
    queues, found = queues_of(lines), dict[tuple[str, int], tuple[str, float, float]]()
    for line in lines:
        if line["op"] != "send" or kinds.name(queues[line["link"]]) != kind:
            continue
        for one in ((line["client"], number) for number in range(line["first"], line["last"] + 1)):
            if line["outcome"] == "sent":
                found[one] = line["link"], line["t"], FAR
            elif line["outcome"] == "completed":
                found[one] = (*found[one][:2], line["t"])
            elif line["outcome"] != "unknown":
                del found[one]
    return found


def _newest(sends: dict[tuple[str, int], tuple[str, float, float]], kind: str) -> tuple[str, int] | None:
    """One that was complete and behind which the fewest may have come: of its key, where newer ones take the place of
    others."""
    what = kinds.KINDS[kind]
    last: dict[tuple[str, str], int] = {}  # of each producer, and key
    for client, number in (one for one, (_, _, done) in sends.items() if done < FAR):
        last[client, what.key(number)] = max(number, last.get((client, what.key(number)), 0))

    def behind(one: tuple[str, int]) -> int:
        link, t, _ = sends[one]
        others = (other for other in sends if not what.newest or what.key(other[1]) == what.key(one[1]))
        return sum(sends[o][2] >= t and not (sends[o][0] == link and o[1] <= one[1]) for o in others)

    found = min(((client, number) for (client, _), number in last.items()), key=behind, default=None)
    return found if found and behind(found) < max(1, what.most) else None


def _newest_gone(kind: str) -> Callable[[Lines], Lines]:
    """The last that was sent is gone, though nothing came after it."""

    def sow(lines: Lines) -> Lines:
        sends = _sends(lines, kind)
        newest = _newest(sends, kind)
        if newest is None:
            raise Unprovable if any(done == FAR for _, _, done in sends.values()) else NoPlace
        for line in _deliveries(lines, kind):
            if (line["producer"], line["number"]) == newest:
                lines = without(lines, line)
        return lines

    return sow


def _went_and_stays(lines: Lines) -> Lines:
    """From a ring the oldest of what is left at the end is there, and the newest but one was never seen."""
    every = _deliveries(lines, "ring")
    times = Counter((line["producer"], line["number"]) for line in every)  # one that a receiver had is not unseen
    left = [line for line in every if line["client"] == DRAINER and times[line["producer"], line["number"]] == 1]
    of_link: dict[str, Lines] = defaultdict(list)
    links = {
        (line["client"], number): line["link"]
        for line in lines
        if line["op"] == "send"
        and line["outcome"] == "completed"
        and kinds.name(queues_of(lines)[line["link"]]) == "ring"
        for number in range(line["first"], line["last"] + 1)
    }
    for line in left:
        if (link := links.get((line["producer"], line["number"]))) is not None:
            of_link[link].append(line)
    for found in of_link.values():
        if len(found) > 1:
            return without(lines, max(found, key=lambda line: line["number"]))
    raise NoPlace


def _stale(lines: Lines) -> Lines:
    """Of one key two are there at the end."""
    left = [line for line in _deliveries(lines, "last") if line["client"] == DRAINER and not line["count"]]
    what = kinds.KINDS["last"]
    numbers = {(line["producer"], line["number"]) for line in _deliveries(lines, "last")}
    queues, opened = queues_of(lines), {line["link"]: line["t"] for line in lines if line["op"] == "open"}
    for line in lines:
        mine = line["op"] == "send" and line["outcome"] == "completed" and kinds.name(queues[line["link"]]) == "last"
        for number in range(line["first"], line["last"] + 1) if mine else ():
            for other in left:
                same = what.key(number) == what.key(other["number"]) and line["t"] < opened[other["link"]]
                if same and (line["client"], number) not in numbers:
                    again = other | {"producer": line["client"], "number": number, "id": FAR, "position": FAR}
                    return _behind(lines, lines.index(other) + 1, again)
    raise NoPlace


def _lower_first(lines: Lines) -> Lines:
    """The drainer gets one of a low level before one of a high one."""
    what = kinds.KINDS["levels"]
    left = [line for line in _deliveries(lines, "levels") if line["client"] == DRAINER and not line["count"]]
    if left and what.level(left[0]["number"]) != what.level(left[-1]["number"]):
        _swap(left[0], left[-1])
        return lines
    raise NoPlace


def _no_turns(kind: str) -> Callable[[Lines], Lines]:
    """The drainer gets the messages of one value, or level, first, and then the others."""

    def sow(lines: Lines) -> Lines:
        what = kinds.KINDS[kind]
        left = [line for line in _deliveries(lines, kind) if line["client"] == DRAINER]
        by_value = sorted(left, key=lambda line: what.key(line["number"]))
        whole = [{name: line[name] for name in ("position", "producer", "number", "count")} for line in by_value]
        for line, other in zip(left, whole, strict=True):
            line.update(other)
            line.pop("again", None)
        if len({what.key(line["number"]) for line in left}) < 2:
            raise NoPlace
        return lines

    return sow


def _unwanted(lines: Lines) -> Lines:
    """A selector lets through what it does not."""
    wants = {line["link"]: line["wants"] for line in lines if line["op"] == "open" and line.get("wants")}
    for line in _deliveries(lines, "selected"):
        if line["link"] in wants:
            other = "k0" if "k0" not in wants[line["link"]] else "k1" if "k1" not in wants[line["link"]] else "k2"
            opened = next(each for each in lines if each["op"] == "open" and each["link"] == line["link"])
            opened["wants"] = [other]
            return lines
    raise NoPlace


def _stamped_anew(lines: Lines) -> Lines:
    """A message has the number of another."""
    found = _deliveries(lines, "stamped")
    if len(found) < 2:
        raise NoPlace
    found[len(found) // 2]["stamp"] = found[0]["stamp"]
    return lines


def _sent_though_stopped(lines: Lines) -> Lines:
    """A receiver gets a message though it has stopped."""
    for line in lines:
        if line["op"] == "deliver":
            at = lines.index(line)
            return _behind(lines, at, {"op": "stop", "t": line["t"], "client": line["client"], "link": line["link"]})
    raise NoPlace


def _modified(lines: Lines) -> tuple[Line, Line, Line]:
    """The line that gives something back, the delivery that was, and a later one of it on the same link."""
    taken = {(line["client"], line["id"]): line for line in lines if line["op"] == "deliver"}
    answered = {
        (line["client"], id)
        for line in lines
        if line["op"] == "settle" and line["kind"] == "modify" and line["outcome"] == "completed"
        for id in line["ids"]
    }
    came: dict[tuple[str, str, int], Lines] = defaultdict(list)
    for line in taken.values():
        came[line["link"], line["producer"], line["number"]].append(line)
    for line in lines:
        for id in line["ids"] if line["op"] == "settle" and line["kind"] == "modify" else ():
            one = taken[line["client"], id]
            later = [each for each in came[one["link"], one["producer"], one["number"]] if each["t"] > line["t"]]
            if (line["client"], id) in answered and line["outcome"] == "sent" and later:
                return line, one, later[0]
    raise NoPlace


def _note_lost(lines: Lines) -> Lines:
    """A message comes again without what was noted on it."""
    _, _, again = _modified(lines)
    again["notes"] = []
    return lines


def _note_made_up(lines: Lines) -> Lines:
    """A message comes with what nobody noted."""
    next(line for line in lines if line["op"] == "deliver")["notes"] = ["nobody.1"]
    return lines


def _here_again(lines: Lines) -> Lines:
    """Who did not want a message again gets it."""
    asked, _, _ = _modified(lines)
    asked["elsewhere"] = True
    return lines


def _not_counted(lines: Lines) -> Lines:
    """A delivery that counts is not counted."""
    asked, one, again = _modified(lines)
    asked["uncounted"] = False
    again["count"] = one["count"]
    return lines


def _miscounted(kind: str, name: str, by: int) -> Callable[[Lines], Lines]:
    """A broker has counted something else."""

    def sow(lines: Lines) -> Lines:
        for line in lines:
            if line["op"] == "tally" and kinds.name(line["queue"]) == kind and name in line["counts"]:
                line["counts"] = line["counts"] | {name: line["counts"][name] + by}
                return lines
        raise NoPlace

    return sow


PLANTS: dict[str, Plant] = {
    "two hold one group": Plant(_held_by_two("groups"), "held by two", "groups"),
    "two have a queue alone": Plant(_held_by_two("exclusive"), "held by two", "exclusive"),
    "two are active": Plant(_held_by_two("single"), "held by two", "single"),
    "a group out of order": Plant(_last_first("groups"), "order", "groups"),
    "a queue with one active consumer out of order": Plant(_last_first("single"), "order", "single"),
    "a level out of order": Plant(_last_first("levels"), "order", "levels"),
    "more than the limit": Plant(_look("limit", messages=kinds.KINDS["limit"].most + 1), "limit", "limit"),
    "more than the ring": Plant(_look("ring", messages=kinds.KINDS["ring"].most + 1), "limit", "ring"),
    "producers are not held back": Plant(_look("limit", messages=190, stopped=False), "flow", "limit"),
    "producers are not let go": Plant(_look("limit", messages=3, stopped=True), "flow", "limit"),
    "a completion is not withheld": Plant(_not_withheld, "flow", "limit"),
    "a queue that is not full refuses": Plant(_refused_early, "limit", "limit"),
    "a refused message appears": Plant(_refused_appears, "phantom", "limit"),
    "the newest goes from a ring": Plant(_newest_gone("ring"), "lost", "ring"),
    "a newer one goes from a ring than one that stays": Plant(_went_and_stays, "ring", "ring"),
    "the newest of its key goes": Plant(_newest_gone("last"), "lost", "last"),
    "two of one key stay": Plant(_stale, "last value", "last"),
    "a lower level goes first": Plant(_lower_first, "level", "levels"),
    "values do not take turns": Plant(_no_turns("fair"), "turn", "fair"),
    "a level has more than its share": Plant(_no_turns("shares"), "turn", "shares"),
    "a selector lets everything through": Plant(_unwanted, "selector", "selected"),
    "a number is given twice": Plant(_stamped_anew, "stamp", "stamped"),
    "a stopped receiver is sent something": Plant(_sent_though_stopped, "stopped", "groups"),
    "a refused message is not counted": Plant(_miscounted("limit", "enqueued", 1 << 20), "tally", "limit"),
    "an accept is counted twice": Plant(_miscounted("ring", "accepted", 1 << 20), "tally", "ring"),
    "a message is counted that is not there": Plant(_miscounted("groups", "messages", 1), "tally", "groups"),
    "a note is lost": Plant(_note_lost, "note", "groups"),
    "a note that nobody made": Plant(_note_made_up, "note", "groups"),
    "given again to who did not want it": Plant(_here_again, "elsewhere", "groups"),
    "a delivery is not counted": Plant(_not_counted, "count", "groups"),
}
