"""Topic patterns: words between dots, ``*`` stands for exactly one word, ``#`` for any number of words, even none."""

from __future__ import annotations


class TopicIndex:
    """Patterns as a tree of words, so that a key is matched against all patterns at once.

    Several values may stand under one pattern.
    """

    def __init__(self) -> None:
        self._root = _Node(False)

    def add(self, pattern: str, value: str) -> None:
        node = self._root
        for word in pattern.split("."):
            if word == "#" and node.repeats:
                continue  # "#.#" says no more than "#"
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(word == "#")
            node = child
        node.values[value] = None

    def match(self, key: str) -> list[str]:
        """The values of all patterns that match `key`, each once."""
        found: dict[str, None] = {}
        words = key.split(".")
        # Each (node, index) is looked at once, and looks at three others: many '#' cannot make the search explode.
        seen: set[tuple[_Node, int]] = set()
        stack: list[tuple[_Node, int]] = [(self._root, 0)]
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            node, index = place
            none_left = index == len(words)
            if none_left:
                found.update(node.values)
            elif node.repeats:
                stack.append((node, index + 1))
            children = node.children
            if not children:
                continue
            several = children.get("#")
            if several is not None:
                stack.append((several, index))
            if none_left:
                continue
            one = children.get("*")
            if one is not None:
                stack.append((one, index + 1))
            word = words[index]
            child = children.get(word)
            if child is not None and word != "*" and word != "#":  # a key's own * and # are plain words
                stack.append((child, index + 1))
        return list(found)


class _Node:
    """A place in the patterns. `repeats`: the word that led here is '#', which takes any further words too."""

    __slots__ = ("children", "repeats", "values")

    def __init__(self, repeats: bool) -> None:
        self.repeats = repeats
        self.children: dict[str, _Node] = {}
        self.values: dict[str, None] = {}
