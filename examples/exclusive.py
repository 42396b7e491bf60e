"""An exclusive receiver: it has its queue alone, and others are told so; whoever only looks may.

python examples/exclusive.py                    # in a cluster of its own
python examples/exclusive.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import InUse, connect

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"

with connect(ADDRESS) as connection:
    connection.declare_queue("example.ledger")
    session = connection.session()
    sender = session.sender("example.ledger")
    for entry in ("rent", "food", "tea"):
        sender.send(entry)
    sender.sync()

    keeper = session.receiver("example.ledger", exclusive=True)
    print("the keeper reads:", keeper.fetch(timeout=5).body.decode())
    try:
        session.receiver("example.ledger")
    except InUse as refused:
        print("another one:", refused)
    session.acknowledge()
    session.sync()
    keeper.close()

    print("who only looks:", *[message.body.decode() for message in session.browse("example.ledger")])
    with session.receiver("example.ledger") as another:
        print("another one, now:", another.fetch(timeout=5).body.decode())
        session.acknowledge()
        session.sync()
    connection.delete_queue("example.ledger")
