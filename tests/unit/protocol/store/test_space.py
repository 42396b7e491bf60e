"""Room on the disk, as it is told: pressed when the reserve is begun, full when half of it is gone."""

from __future__ import annotations

from mantamq.protocol.store.space import Space


def test_it_is_told_when_it_changes_and_ends_a_little_later_than_it_began():
    space = Space(800)
    told = []
    for free in (5000, 800, 799, 500, 400, 399, 450, 499, 500, 850, 899, 900, 5000):
        if space.measure(free):
            told.append((free, space.room.left_bytes, space.room.pressed, space.room.full))
    assert told == [(799, -1, True, False), (399, -401, True, True), (500, -300, True, False), (900, 100, False, False)]
    assert not space.short
