"""Initial values: who comes late has the last price at once, and sees by the numbers that nothing is missing behind it.

python examples/initial_values.py                    # in a cluster of its own
python examples/initial_values.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    # It numbers what goes through it, and keeps the last.
    connection.declare_exchange("example.ticker", "fanout", sequence=True, initial=True)
    session = connection.session()
    sender = session.sender("example.ticker")

    def publish(*prices: int) -> None:
        for price in prices:
            sender.send(Message(str(price)))
        sender.sync()

    def open_dashboard(name: str) -> None:
        connection.declare_queue(name)
        connection.bind("example.ticker", name)

    dashboards = ("example.early", "example.late")
    open_dashboard("example.early")
    publish(101, 102, 103)
    open_dashboard("example.late")
    publish(104, 105)

    print(f"{'dashboard':<14} {'number':>6} {'price':>6}")
    for name, count in zip(dashboards, (5, 3), strict=True):
        receiver = session.receiver(name)
        before = 0
        for _ in range(count):
            message = receiver.fetch(timeout=10)
            number = message.properties["qpid.msg_sequence"]
            missing = "  some are missing before it" if before and number != before + 1 else ""
            print(f"{name:<14} {number:>6} {message.body.decode():>6}{missing}")
            before = number
            session.acknowledge(message)
        receiver.close()
    session.sync()

    for name in dashboards:
        connection.delete_queue(name)
    connection.delete_exchange("example.ticker")
