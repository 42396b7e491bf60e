"""A ring: a ticker that nobody reads for a while costs no more than its newest five prices.

python examples/ring.py                    # in a cluster of its own
python examples/ring.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.ticks", max_count=5, overflow="ring")
    session = connection.session()

    sender = session.sender("example.ticks")
    for number in range(1, 101):
        sender.send(Message(f"{100 + number / 10:.1f}", properties={"tick": number}))
    sender.sync()

    print(f"100 ticks were sent. These {connection.queue('example.ticks')['messages']} wait:")
    print(f"{'tick':>6} {'price':>7}")
    for message in session.browse("example.ticks"):
        print(f"{message.properties['tick']:>6} {message.body.decode():>7}")

    connection.delete_queue("example.ticks")
