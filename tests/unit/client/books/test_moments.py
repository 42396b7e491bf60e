"""When messages came, as a receiver reads it from the columns of its deliveries."""

from __future__ import annotations

from itertools import islice

import pytest
from mantamq.client import Message
from mantamq.client.books.moments import behind, each
from mantamq.client.books.receiver import ReceiverCore
from mantamq.protocol.wire.client_frames import Delivery
from mantamq.protocol.wire.message import encode

COLUMNS = {(): [0] * 4, (0, 7): [7] * 4, (0, 7, 2, 9): [7, 7, 9, 9], (1, 7, 3, 0): [0, 7, 7, 0]}


@pytest.mark.parametrize(("column", "times"), COLUMNS.items())
def test_each_message_has_the_time_that_was_said_last(column, times):
    assert list(each([*column], 4)) == times
    for first in range(4):
        assert list(each(behind([*column], first), 4 - first)) == times[first:]


@pytest.mark.parametrize("browse", [False, True])
def test_a_receivers_messages_say_when_they_came(browse):
    core = ReceiverCore(1, "q", 50, not browse, lambda frame: None, browse)
    core.open()
    blobs = [encode(Message(b"%d" % n)) for n in range(4)]
    core.delivered(Delivery(1, 1, [1, 2, 5, 6], blobs, [], [0, 1_500, 1, 0, 3, 2_750]))
    core.delivered(Delivery(1, 2, [7, 8], blobs[:2]))  # of a broker before 1.9
    found = [core.fetch() for _ in range(6)]
    assert [message and message.enqueued_at for message in found] == [1.5, None, None, 2.75, None, None]
    assert Message(b"").enqueued_at is None


def test_a_browser_that_goes_on_elsewhere_reads_the_same_times():
    core = ReceiverCore(1, "q", 50, False, lambda frame: None, browse=True)
    core.open()
    blobs, times = [encode(Message(b"m"))] * 6, [0, 1_000, 2, 2_000, 5, 3_000]
    core.delivered(Delivery(1, 0, [1, 3], blobs[:3], [], times[:4]))
    assert [message.enqueued_at for message in islice(iter(core.fetch, None), 3)] == [1.0, 1.0, 2.0]
    core.interrupted()
    core.delivered(Delivery(1, 0, [1, 6], blobs, [], times))
    assert [message.enqueued_at for message in islice(iter(core.fetch, None), 3)] == [2.0, 2.0, 3.0]
