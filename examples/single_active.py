"""A single active consumer: of two workers one gets everything, in order, and when it stops the other goes on.

python examples/single_active.py                    # in a cluster of its own
python examples/single_active.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Empty, Receiver, connect

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"


def received(receiver: Receiver) -> list[str]:
    """The bodies of what comes; nothing for half a second: that was all."""
    bodies: list[str] = []
    while True:
        try:
            bodies.append(receiver.fetch(timeout=0.5).body.decode())
        except Empty:
            return bodies


with connect(ADDRESS) as connection:
    connection.declare_queue("example.steps", single_active=True)
    session = connection.session()
    sender = session.sender("example.steps")
    one, two = session.receiver("example.steps"), session.receiver("example.steps")

    print(f"{'':<18} {'one':<6} two")
    for step in range(1, 4):
        sender.send(f"{step}")
    sender.sync()
    print(f"{'both are there':<18} {' '.join(received(one)) or '-':<6} {' '.join(received(two)) or '-'}")

    session.acknowledge()
    session.sync()
    one.close()
    for step in range(4, 7):
        sender.send(f"{step}")
    sender.sync()
    print(f"{'one has gone':<18} {'':<6} {' '.join(received(two))}")

    session.acknowledge()
    session.sync()
    two.close()
    connection.delete_queue("example.steps")
