"""What brokers say on a real cluster is so: at the broker that was told, and at any other."""

from __future__ import annotations

import pytest
from mantamq.client import Empty, InUse, NotEmpty, NotFound, Queue, connect

TRIES = 100


@pytest.mark.parametrize("mode", ["consume", "browse"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_get_after_a_completed_send_is_never_empty(cluster, mode, elsewhere):
    first, second, _ = cluster.addresses.values()
    with connect(first) as here, connect(second if elsewhere else first) as there:
        name = f"gets-{mode}-{elsewhere}"
        here.declare_queue(name)
        sender, session = here.session().sender(name), there.session()
        reader = session.receiver(name, capacity=0 if mode == "consume" else 10, mode=mode)
        empty = 0
        for number in range(TRIES):
            sender.send(str(number))
            sender.sync(10)
            try:
                message = reader.get()
            except Empty:
                empty += 1
                message = reader.fetch(10)
            assert message.body == str(number).encode()
            if mode == "consume":
                session.acknowledge(message)
        assert empty == 0
        session.sync(10)
        with pytest.raises(Empty):
            reader.get()


def test_queue_put_then_get_nowait_is_never_empty(cluster):
    first, second, _ = cluster.addresses.values()
    put, get = Queue("handles", address=first), Queue("handles", address=second)
    for number in range(TRIES):
        put.put(number)
        assert get.get_nowait() == number
        put.put(number)
        assert get.get(timeout=0) == number


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_queue_in_use_or_with_messages_is_not_deleted_on_that_condition(cluster, elsewhere):
    first, second, _ = cluster.addresses.values()
    with connect(first) as here, connect(second if elsewhere else first) as there:
        name = f"kept-{elsewhere}"
        here.declare_queue(name)
        session = there.session()
        for _ in range(10):
            idle = session.receiver(name, capacity=0)  # without credit, and of this moment
            with pytest.raises(InUse, match="consumers"):
                here.delete_queue(name, if_unused=True)
            idle.close()
        sender = session.sender(name)
        for number in range(10):
            sender.send(str(number))
            sender.sync(10)
            with pytest.raises(NotEmpty, match="messages"):
                here.delete_queue(name, if_unused=True, if_empty=True)
        receiver = session.receiver(name, capacity=10)
        taken = [receiver.fetch(10) for _ in range(10)]
        with pytest.raises(NotEmpty):
            here.delete_queue(name, if_empty=True)
        for message in taken:
            session.acknowledge(message)
        session.sync(10)
        with pytest.raises(InUse):
            here.delete_queue(name, if_unused=True, if_empty=True)
        receiver.close()
        here.delete_queue(name, if_unused=True, if_empty=True)
        with pytest.raises(NotFound):
            there.queue(name)
