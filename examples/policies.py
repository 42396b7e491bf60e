"""Policies: queues get limits by the pattern of their names, those that are there too, for as long as the policy is
there; an operator's word is the most that anybody gets.

python examples/policies.py                    # in a cluster of its own
python examples/policies.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.orders")  # it is there before any policy, and follows
    connection.add_policy("example.small", "^example[.]", max_count=1000)
    connection.add_policy("example.ticks", "^example[.]ticks[.]", max_count=5, overflow="ring", priority=10)
    connection.add_policy("example.most", "^example[.]", operator=True, max_count=5000)

    connection.declare_queue("example.ticks.ibm")  # two fit: the one of the higher priority is its own
    connection.declare_queue("example.own", max_count=20)  # what it names itself goes before
    connection.declare_queue("example.greedy", max_count=1_000_000)  # but for an operator's

    print(f"{'queue':<20}{'policy':<16}{'at most':>8}  when it is full")
    for name in ("orders", "ticks.ibm", "own", "greedy"):
        queue = connection.queue(f"example.{name}")
        definition = queue["definition"]
        print(
            f"{queue['name']:<20}{queue.get('policy') or '-':<16}{definition['max_count']:>8}"
            f"  {definition.get('overflow', 'reject')}"
        )

    session = connection.session()
    sender = session.sender("example.ticks.ibm")
    for tick in range(1, 101):
        sender.send(f"{tick}")
    sender.sync()
    waiting = connection.queue("example.ticks.ibm")[
        "messages"
    ]  # who browses behind that sees nothing that has just gone
    ticks = [message.body.decode() for message in session.browse("example.ticks.ibm")]
    print(f"of 100 ticks {waiting} wait:", *ticks)

    connection.add_policy("example.ticks", "^example[.]ticks[.]", max_count=2, overflow="ring", priority=10)
    sender.send("101")
    sender.sync()  # what is sent after the command comes behind it in the queue
    print("at most 2 now:", *[message.body.decode() for message in session.receiver("example.ticks.ibm", timeout=1)])
    connection.delete_policy("example.ticks")
    print("without that policy:", connection.queue("example.ticks.ibm")["policy"])

    for name in ("orders", "ticks.ibm", "own", "greedy"):
        connection.delete_queue(f"example.{name}")
    connection.delete_policy("example.small")
    connection.delete_policy("example.most", operator=True)
