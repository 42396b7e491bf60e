"""LIKE: whether a text is like a pattern, in which % stands for any characters and _ for one.

No backtracking: between two % the leftmost place is as good as any, so each part of the pattern is looked for once,
behind the one before. The time is linear in the text, whatever the pattern.
"""

from __future__ import annotations

from collections.abc import Callable

CHARS = 65_536
"""A longer text is like nothing."""
_Part = list[str | None]
"""Of a pattern without %: characters; None for any one."""


def like(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Args:
        escape: a character before which %, _ and itself are plain; None: there is none.

    Raises:
        ValueError: the escape is no single character, or stands before something else.
    """
    parts = _parts(pattern, escape)
    first, *middle = parts
    if not middle:
        return lambda text: len(text) == len(first) and _at(first, text, 0)
    last = middle.pop()
    least = sum(map(len, parts))
    finders = [(_finder(part), len(part)) for part in middle if part]

    def matches(text: str) -> bool:
        size = len(text)
        if not least <= size <= CHARS or not _at(first, text, 0) or not _at(last, text, size - len(last)):
            return False
        at, end = len(first), size - len(last)
        for find, width in finders:
            at = find(text, at, end)
            if at < 0:
                return False
            at += width
        return True

    return matches


def _parts(pattern: str, escape: str | None) -> list[_Part]:
    if escape is not None and len(escape) != 1:
        raise ValueError(f"ESCAPE is followed by one character in quotes, not {escape!r}")
    parts: list[_Part] = [[]]
    characters = iter(pattern)
    for one in characters:
        if one == escape:
            one = next(characters, "")
            if one not in ("%", "_", escape):
                what = repr(one) if one else "the end"
                raise ValueError(f"{escape!r} stands before {what}, and may before %, _ and itself: write it twice")
            parts[-1].append(one)
        elif one == "%":
            parts.append([])
        else:
            parts[-1].append(None if one == "_" else one)
    return parts


def _at(part: _Part, text: str, at: int) -> bool:
    """Whether a part stands at a place of a text that is long enough."""
    return all(one is None or one == text[i] for i, one in enumerate(part, at))


def _finder(part: _Part) -> Callable[[str, int, int], int]:
    """Looks for a part in text[at:end]: where it begins, -1 for nowhere."""
    literal = "".join(one for one in part if one is not None)
    if len(literal) == len(part):
        return lambda text, at, end: text.find(literal, at, end)
    # Shift-And (Baeza-Yates and Gonnet): bit i of the state says that the first i + 1 of the part stand here.
    any_one = sum(1 << i for i, one in enumerate(part) if one is None)
    masks = {one: any_one | sum(1 << i for i, other in enumerate(part) if other == one) for one in set(literal)}
    width, whole = len(part), 1 << (len(part) - 1)

    def find(text: str, at: int, end: int) -> int:
        state = 0
        for i in range(at, end):
            state = ((state << 1) | 1) & masks.get(text[i], any_one)
            if state & whole:
                return i - width + 1
        return -1

    return find
