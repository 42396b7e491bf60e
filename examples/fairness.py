"""Fairness: a burst of one tenant keeps the other waiting for no more than its own turn.

python examples/fairness.py                    # in a cluster of its own
python examples/fairness.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.jobs", fair_key="tenant")
    session = connection.session()

    sent = {"large": 1000, "small": 3}
    sender = session.sender("example.jobs")
    for tenant, count in sent.items():
        for number in range(count):
            sender.send(Message(f"job {number}", properties={"tenant": tenant}))
    sender.sync()

    places: dict[str, list[int]] = {tenant: [] for tenant in sent}
    receiver = session.receiver("example.jobs", capacity=100)
    for place in range(1, sum(sent.values()) + 1):
        message = receiver.fetch(timeout=10)
        places[message.properties["tenant"]].append(place)
        session.acknowledge(message)
    session.sync()

    print(f"{'tenant':<7} {'jobs':>5}  its first three were handled as number")
    for tenant, its in places.items():
        print(f"{tenant:<7} {len(its):>5}  {' '.join(str(place) for place in its[:3])}")

    connection.delete_queue("example.jobs")
