"""Moves: what waits goes on to another queue, and dead letters go back to where they died, once that works again.

python examples/moves.py                    # in a cluster of its own
python examples/moves.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys
import time

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_exchange("example.lost", "fanout")
    connection.declare_queue("example.dead")
    connection.bind("example.lost", "example.dead")
    connection.declare_queue("example.orders", alternate="example.lost")
    connection.declare_queue("example.large")
    session = connection.session()

    queues = ("orders", "large", "dead")

    def show(step: str) -> None:
        """One line: in which queue which orders wait."""
        columns: list[str] = []
        for name in queues:
            connection.queue(f"example.{name}")  # who browses behind that sees nothing that has just gone
            columns.append(" ".join(message.body.decode() for message in session.browse(f"example.{name}")))
        print(f"{step:<34}" + "".join(f"{orders or '-':<14}" for orders in columns).rstrip())

    print(f"{'':<34}" + "".join(f"{name:<14}" for name in queues).rstrip())

    sender = session.sender("example.orders")
    for number, pieces in enumerate((1, 80, 3, 95, 2), 1):
        sender.send(Message(f"{number}", properties={"pieces": pieces}))
    sender.sync()
    show("five orders")

    moved = connection.move("example.orders", "example.large", selector="pieces > 50")
    show(f"move: {moved.moved} of more than 50 pieces")

    with session.receiver("example.orders", capacity=2) as worker:
        for _ in range(2):
            session.reject(worker.fetch(timeout=10))  # the warehouse does not answer
        session.sync()
    while connection.queue("example.dead")["messages"] < 2:
        time.sleep(0.02)  # rejected is one thing, and come to the dead letters' queue another
    show("two are rejected")

    moved = connection.redrive("example.dead")
    show(f"redrive: {moved.moved} are back")

    moved = connection.move("example.orders", "example.large", count=1)
    show(f"move: the first {moved.moved}")
    discarded = connection.purge("example.orders", selector="pieces < 3")
    show(f"purge: {discarded} of less than 3 pieces")

    for name in queues:
        connection.purge(f"example.{name}")  # or else they would be dead letters
        connection.delete_queue(f"example.{name}")
    connection.delete_exchange("example.lost")
