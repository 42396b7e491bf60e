"""De-duplication: a program that does not know what it had sent before it died sends it again, and it comes once.

python examples/duplicates.py                    # in a cluster of its own
python examples/duplicates.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"


def pay(first: int, last: int) -> None:
    """A program that sends payments, and may die in the midst of it. Each has an id that is its own for ever."""
    with connect(ADDRESS) as connection:
        sender = connection.session().sender("example.payments")
        for number in range(first, last + 1):
            sender.send(Message(f"pay {number}", message_id=f"payment {number}"))
        sender.sync()


with connect(ADDRESS) as connection:
    connection.declare_queue("example.payments", dedupe_window_s=3600)

    pay(1, 3)
    session = connection.session()
    with session.receiver("example.payments", capacity=1) as bank:
        session.acknowledge(bank.fetch(timeout=10))  # "pay 1" is done, and its id stays known
        session.sync()
    pay(1, 5)  # another one goes on, and begins where it can be sure

    payments = connection.queue("example.payments")
    print(f"sent: 8, duplicates: {payments['duplicates']}, waiting: {payments['messages']}")
    print("waiting:", *[message.body.decode() for message in session.browse("example.payments")], sep="\n  ")

    connection.delete_queue("example.payments")
