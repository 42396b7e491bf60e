"""Last values: who reads the prices now gets the newest of each symbol, and none that is out of date.

python examples/last_values.py                    # in a cluster of its own
python examples/last_values.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.prices", last_value_key="symbol")
    session = connection.session()

    sender = session.sender("example.prices")
    for change in range(1, 31):
        for symbol, price in (("AMZN", 200), ("IBM", 300), ("ORCL", 100)):
            sender.send(Message(str(price + change), properties={"symbol": symbol}))
    sender.sync()

    print(f"90 prices were sent. These {connection.queue('example.prices')['messages']} wait:")
    print(f"{'symbol':<8} {'price':>5}")
    for message in session.browse("example.prices"):
        print(f"{message.properties['symbol']:<8} {message.body.decode():>5}")

    connection.delete_queue("example.prices")
