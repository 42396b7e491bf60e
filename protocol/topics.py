"""Topic patterns: words between dots, ``*`` stands for exactly one word, ``#`` for any number of words, even none."""

from __future__ import annotations


class TopicIndex:
    """Patterns as a tree of words, so that a key is matched against all patterns at once.

    Several values may stand under one pattern.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, pattern: str, value: str) -> None:
        node = self._root
        for word in pattern.split("."):
            node = node.children.setdefault(word, _Node())
        node.values[value] = None

    def match(self, key: str) -> list[str]:
        """The values of all patterns that match `key`, each once."""
        found: dict[str, None] = {}
        words = key.split(".")
        # Each (node, index) is looked at once: '#' patterns cannot make the search explode.
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[_Node, int]] = [(self._root, 0)]
        while stack:
            node, index = stack.pop()
            mark = (id(node), index)
            if mark in seen:
                continue
            seen.add(mark)
            hash_child = node.children.get("#")
            if hash_child is not None:
                stack.extend((hash_child, skip) for skip in range(index, len(words) + 1))
            if index == len(words):
                found.update(node.values)
                continue
            word = words[index]
            star = node.children.get("*")
            if star is not None:
                stack.append((star, index + 1))
            child = node.children.get(word)
            if child is not None and word not in ("*", "#"):
                stack.append((child, index + 1))
        return list(found)


class _Node:
    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.values: dict[str, None] = {}
