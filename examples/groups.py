"""Message groups: two workers share a queue, and the orders of each customer are handled one after another.

python examples/groups.py                    # in a cluster of its own
python examples/groups.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import random
import sys
import threading
import time

from mantamq.client import Message, connect

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"
CUSTOMERS = ("Ann", "Bob", "Cem", "Dot")

handled: list[tuple[str, int, str]] = []  # customer, number of the order, worker


def work(worker: str) -> None:
    with connect(ADDRESS) as connection:
        session = connection.session()
        # One order at a time, so that the other worker gets its share; nothing for a second: all is done.
        for message in session.receiver("example.orders", capacity=1, window="unaccepted", timeout=1):
            time.sleep(random.uniform(0, 0.02))  # the work: some orders take longer than others
            handled.append((message.properties["customer"], int(message.body), worker))
            session.acknowledge(message)
        session.sync()


with connect(ADDRESS) as connection:
    connection.declare_queue("example.orders", group_key="customer")
    sender = connection.session().sender("example.orders")
    for customer in CUSTOMERS:
        for number in range(1, 7):
            sender.send(Message(str(number), properties={"customer": customer}))
    sender.sync()

    workers = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()

    print(f"{'customer':<9} {'orders, as they were handled':<29} by worker")
    for customer in CUSTOMERS:
        its = [(number, worker) for name, number, worker in handled if name == customer]
        orders, hands = " ".join(str(number) for number, _ in its), " ".join(worker for _, worker in its)
        print(f"{customer:<9} {orders:<29} {hands}")

    connection.delete_queue("example.orders")
