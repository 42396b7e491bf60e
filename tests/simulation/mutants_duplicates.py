"""Bugs of queues that take each message id once in a window, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.deduplication import Deduplication
from mantamq.protocol.queue.known_ids import KnownIds

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_refused_is_known_all_the_same(patch: Patch) -> None:
    """A message for which there is no room has not come, and may come later."""
    one = Deduplication._one

    def known(self: Any, rule: Any, message: Any) -> Any:
        done = one(self, rule, message)
        for id in self._ids(message):
            (id,) = id if isinstance(id, list) else (id,)
            if id is not None and id not in self._state.ids:
                self._state.ids.came([id], self._most)
        return done

    patch.setattr(Deduplication, "_one", known)


def twice_in_one_enqueue_comes_in_twice(patch: Patch) -> None:
    patch.setattr(KnownIds, "none_of", lambda self, ids: self._at.keys().isdisjoint(ids))
    patch.setattr(KnownIds, "came", _came_again)


def _came_again(self: Any, ids: list[bytes], most: int) -> None:
    fresh = [id for id in dict.fromkeys(ids) if id not in self._at]
    self._order.extend(fresh)
    self._at.update(dict.fromkeys(fresh, self.now_ms))
    while len(self._order) > most:
        del self._at[self._order.popleft()]


def an_update_forgets_which_ids_came(patch: Patch) -> None:
    patch.setattr(KnownIds, "assign", lambda self, ids, id_times: None)


def a_duplicate_makes_its_id_known_for_longer(patch: Patch) -> None:
    duplicate = Deduplication._duplicate

    def again(self: Any, message: Any) -> Any:
        (id,) = self._ids(message)
        known = self._state.ids
        known._order.remove(id)
        known._order.append(id)
        known._at[id] = known.now_ms
        return duplicate(self, message)

    patch.setattr(Deduplication, "_duplicate", again)


def a_duplicate_may_be_sent_again_under_its_number(patch: Patch) -> None:
    """Its number is not noted, so the same send counts twice."""
    duplicate = Deduplication._duplicate

    def unnoted(self: Any, message: Any) -> Any:
        last = self._state.numbers.last(message.client)
        done = duplicate(self, message)
        self._state.numbers.note(message.client, last)
        return done

    patch.setattr(Deduplication, "_duplicate", unnoted)


ALL = planted(globals())
