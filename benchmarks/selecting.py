"""What a selector costs: how many messages a second dispatch looks at for a consumer that wants one in a hundred.

In one process, by its own processor time, and without a cluster: a queue's state, its order, and runs as a replica
makes them. The bar is 200,000.
"""

from __future__ import annotations

import time
from itertools import count

from ..client import Message
from ..protocol.queue.credit import UNLIMITED
from ..protocol.queue.dispatch import Dispatcher
from ..protocol.queue.policies import policies_of
from ..protocol.queue.selector import selector
from ..protocol.queue.settings import QueueSettings
from ..protocol.queue.state import QueueState
from ..protocol.wire.events import Enqueue, Own
from ..protocol.wire.message import encode

MESSAGES = 200_000
SELECTORS = (
    "n = 17 AND colour = 'red'",
    "colour LIKE 'r_d' AND n IN (17, 200)",
    "n BETWEEN 17 AND 17.5 OR subject = 'x'",
)
KINDS = {"plain": QueueSettings(), "priority": QueueSettings(priorities=10)}


def looks_a_second(settings: QueueSettings, text: str) -> float:
    """Of a run after the other, until nothing is left that is wanted."""
    state = QueueState("bench#1")
    policies = policies_of(state, settings)
    for policy in policies.of_state:
        state.include(policy)
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    state.apply(Own("b1", 1))
    for first in range(0, MESSAGES, 1000):
        messages = (
            Message(bytes(1024), properties={"n": n % 100, "colour": "red"}, priority=n % 10)
            for n in range(first, first + 1000)
        )
        state.apply(Enqueue("", [], list(map(encode, messages))))
    subscription = dispatcher.subscribe(1, False, False, False, selector(text))
    subscription.credit.grant(MESSAGES, UNLIMITED)
    acquisitions, got, more = count(1), 0, True
    begin = time.process_time()
    while more:
        delivered, more = dispatcher.run(True, acquisitions)
        got += sum(last - first + 1 for one in delivered for first, last in one.parts)
    seconds = time.process_time() - begin
    assert got == MESSAGES // 100, f"{got} messages came: the selector wants another share of them"
    return MESSAGES / seconds


if __name__ == "__main__":
    for kind, settings in KINDS.items():
        for text in SELECTORS:
            print(f"{kind:10} {looks_a_second(settings, text):12,.0f}/s  {text}")
