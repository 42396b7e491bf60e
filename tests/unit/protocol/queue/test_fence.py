"""The brokers that are out of a queue, alone."""

from __future__ import annotations

from mantamq.protocol.queue.fence import Fence


def test_a_broker_is_out_up_to_an_incarnation():
    fence = Fence()
    assert not fence.is_out("b1", 0)
    assert fence.put_out("b1", 4) and fence.absent == {"b1"}
    assert fence.is_out("b1", 4) and fence.is_out("b1", 3) and not fence.is_out("b1", 5) and not fence.is_out("b2", 1)


def test_it_is_put_out_once_and_never_comes_back_as_what_it_was():
    fence = Fence()
    fence.put_out("b1", 4)
    fence.let_in("b1", 4)
    assert fence.absent == {"b1"}
    fence.let_in("b1", 5)
    assert fence.absent == set() and fence.is_out("b1", 4)
    assert not fence.put_out("b1", 4) and fence.absent == set(), "what is known already changes nothing"
    assert fence.put_out("b1", 5) and fence.evicted == {"b1": 5}
