"""Patterns of queues' names: regular expressions that every broker evaluates, so none may take long.

Python's own search can take for ever with some (`(a+)+b`). Here all ways through a pattern are followed side by side,
character by character: at most its length times the name's, whatever it is. What that cannot do (back references,
looking ahead) is refused. A pattern is searched for anywhere in the name, unless `^` and `$` say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from ..errors import INVALID, PeerError

MOST_CHARS = 255
MOST_STEPS = 512
"""Of a pattern as it is followed; what is repeated counts as often as it is repeated at most."""
MOST_DEPTH = 20
"""How deep groups nest."""
_CHAR, _SPLIT, _BEGIN, _END, _MATCH = range(5)
_CLASSES = {
    "d": (False, ("09",)), "D": (True, ("09",)), "w": (False, ("az", "AZ", "09", "__")),
    "W": (True, ("az", "AZ", "09", "__")), "s": (False, ("  ", "\t\r")), "S": (True, ("  ", "\t\r")),
}  # fmt: skip
_SPECIAL = frozenset("^$.|()[]{}*+?\\/-")


class _Chars(NamedTuple):
    """Characters. Attributes: negated; spans: first and last of each, as two characters."""

    negated: bool
    spans: tuple[str, ...]

    def has(self, char: str) -> bool:
        return any(span[0] <= char <= span[1] for span in self.spans) is not self.negated


_ANY = _Chars(True, ())


class _Step(NamedTuple):
    """Attributes: what: one of the kinds; chars: of `_CHAR`; to: where it goes on, relative to itself."""

    what: int
    chars: _Chars = _ANY
    to: tuple[int, ...] = (1,)


class _Parser:
    """Reads a pattern once, from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def all(self) -> list[_Step]:
        found = self._either()
        if self._at < len(self._pattern):
            raise self._wrong("there is no group that this ends")
        return found

    def _wrong(self, why: str) -> PeerError:
        return PeerError(INVALID, f"pattern {self._pattern!r:.80}, character {self._at + 1}: {why}")

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1 : self._at]

    def _either(self) -> list[_Step]:
        found = self._row()
        while self._peek() == "|":
            self._at += 1
            other = self._row()
            found = [_Step(_SPLIT, to=(1, len(found) + 2)), *found, _Step(_SPLIT, to=(len(other) + 1,)), *other]
            self._bound(found)
        return found

    def _row(self) -> list[_Step]:
        found: list[_Step] = []
        while self._peek() not in ("", "|", ")"):
            found += self._repeated(self._one())
            self._bound(found)
        return found

    def _bound(self, found: list[_Step]) -> None:
        if len(found) > MOST_STEPS:
            raise self._wrong(
                f"it comes to more than {MOST_STEPS} steps, with all that is repeated: give a simpler one"
            )

    def _one(self) -> list[_Step]:
        match self._next():
            case "^":
                return [_Step(_BEGIN)]
            case "$":
                return [_Step(_END)]
            case ".":
                return [_Step(_CHAR)]
            case "(":
                return self._group()
            case "[":
                return [_Step(_CHAR, self._set())]
            case "\\":
                return [_Step(_CHAR, self._escaped())]
            case "*" | "+" | "?":
                self._at -= 1
                raise self._wrong("there is nothing here to repeat: a character of its own has \\ before it")
            case char:
                return [_Step(_CHAR, _Chars(False, (char * 2,)))]

    def _group(self) -> list[_Step]:
        if self._peek() == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                raise self._wrong("only (...) and (?:...) are known, nothing that looks ahead or behind")
            self._at += 2
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._wrong(f"groups nest at most {MOST_DEPTH} deep")
        found = self._either()
        self._depth -= 1
        if self._next() != ")":
            raise self._wrong("a group has no end: give a )")
        return found

    def _escaped(self) -> _Chars:
        char = self._next()
        if char in _CLASSES:
            return _Chars(*_CLASSES[char])
        if char not in _SPECIAL or not char:
            self._at -= 1
            raise self._wrong("\\ stands before d, D, w, W, s, S, or a sign that is meant as itself")
        return _Chars(False, (char * 2,))

    def _set(self) -> _Chars:
        negated = self._peek() == "^"
        self._at += negated
        spans: list[str] = []
        while True:
            char = self._next()
            if not char:
                raise self._wrong("a set of characters has no end: give a ]")
            if char == "]" and spans:
                return _Chars(negated, tuple(spans))
            if char == "\\" and self._peek() in _CLASSES:
                chars = self._escaped()
                if chars.negated:
                    raise self._wrong("in a set there are \\d, \\w and \\s, and not what is none of them")
                spans += chars.spans
                continue
            first = last = self._itself(char)
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                last = self._itself(self._next())
            if last < first:
                raise self._wrong(f"{first}-{last} is the wrong way round")
            spans.append(first + last)

    def _itself(self, char: str) -> str:
        """A character of a set, with a backslash or without."""
        return "".join(self._escaped().spans)[0] if char == "\\" else char

    def _repeated(self, one: list[_Step]) -> list[_Step]:
        match self._peek():
            case "*":
                least, most = 0, -1
            case "+":
                least, most = 1, -1
            case "?":
                least, most = 0, 1
            case "{":
                least, most = self._count()
            case _:
                return one
        self._at += 1
        if self._peek() == "?":  # as few as will do: whether it is found is the same
            self._at += 1
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise self._wrong("what is repeated already is repeated again: give it in a group")
        if len(one) * max(least + 1, most) > MOST_STEPS:
            raise self._wrong(
                f"it comes to more than {MOST_STEPS} steps, with all that is repeated: give a simpler one"
            )
        found = one * least
        if most < 0:
            return [*found, _Step(_SPLIT, to=(1, len(one) + 2)), *one, _Step(_SPLIT, to=(-len(one) - 1,))]
        rest: list[_Step] = []
        for _ in range(most - least):
            rest = [_Step(_SPLIT, to=(1, len(one) + len(rest) + 1)), *one, *rest]
            self._bound(rest)
        return found + rest

    def _count(self) -> tuple[int, int]:
        """Of {3}, {3,} or {3,5}; leaves its last brace."""
        end = self._pattern.find("}", self._at)
        words = self._pattern[self._at + 1 : end].split(",") if end > 0 else []
        numbers = [int(word) if word.isascii() and word.isdigit() and len(word) < 4 else -1 for word in words]
        open = len(words) == 2 and not words[1]
        if not 1 <= len(numbers) <= 2 or numbers[0] < 0 or (numbers[-1] < numbers[0] and not open):
            raise self._wrong("a count is {3}, {3,} or {3,5}; a brace of its own has \\ before it")
        self._at = end
        return numbers[0], -1 if open else numbers[-1]


@lru_cache(1024)
def _compiled(pattern: str) -> tuple[_Step, ...]:
    """
    Raises:
        PeerError: `invalid`, it is no pattern; why, and where.
    """
    if not 1 <= len(pattern) <= MOST_CHARS:
        raise PeerError(INVALID, f"a pattern has 1 to {MOST_CHARS} characters, not {len(pattern)}: .* is any name")
    return (*_Parser(pattern).all(), _Step(_MATCH))


def check_pattern(pattern: str) -> None:
    """Raises PeerError: `invalid`, it is no pattern; why, and where."""
    _compiled(pattern)


@lru_cache(65_536)
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern, which has been checked, is found in a name."""
    steps = _compiled(pattern)
    here: set[int] = set()
    for at in range(len(name) + 1):
        if _reach(steps, here, {0}, at, len(name)):
            return True
        if at < len(name):
            char = name[at]
            here = {place + 1 for place in here if steps[place].what == _CHAR and steps[place].chars.has(char)}
    return False


class Fitting(Protocol):
    """Something of the names that its pattern fits."""

    @property
    def name(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def priority(self) -> int: ...


N = TypeVar("N", bound=Fitting)


def best(several: Iterable[N], name: str) -> N | None:
    """Of those whose pattern fits a name that of the highest priority; of equals the one whose own name comes first."""
    fitting = [one for one in several if matches(one.pattern, name)]
    return min(fitting, key=lambda one: (-one.priority, one.name), default=None)


def _reach(steps: tuple[_Step, ...], here: set[int], more: set[int], at: int, end: int) -> bool:
    """Add to `here` what is reached from it and from `more` without a character; whether that is the pattern's end."""
    left = [*here, *more]
    here.clear()
    while left:
        place = left.pop()
        if place in here:
            continue
        here.add(place)
        step = steps[place]
        if step.what == _MATCH:
            return True
        if step.what == _SPLIT or (step.what == _BEGIN and at == 0) or (step.what == _END and at == end):
            left += [place + to for to in step.to]
    return False
