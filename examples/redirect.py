"""A redirected queue: what is sent to it comes into another one, while its consumers finish what it holds.

python examples/redirect.py                    # in a cluster of its own
python examples/redirect.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Empty, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_exchange("example.all", "fanout")
    for name in ("example.old", "example.new"):
        connection.declare_queue(name)
    connection.bind("example.all", "example.old")
    session = connection.session()

    def show(step: str) -> None:
        """One line: in which queue which orders wait."""
        columns: list[str] = []
        for name in queues:
            connection.queue(f"example.{name}")  # who browses behind that sees nothing that has just gone
            columns.append(" ".join(message.body.decode() for message in session.browse(f"example.{name}")))
        print(f"{step:<28}" + "".join(f"{orders or '-':<12}" for orders in columns).rstrip())

    queues = ("old", "new")
    print(f"{'':<28}" + "".join(f"{name:<12}" for name in queues).rstrip())

    sender, everybody = session.sender("example.old"), session.sender("example.all/")  # they notice nothing of it
    for number in (1, 2, 3):
        sender.send(f"{number}")
    sender.sync()
    show("three orders")

    connection.redirect_queue("example.old", "example.new")
    sender.send("4")
    sender.sync()
    everybody.send("5")
    everybody.sync()
    show("redirected: two more")

    with session.receiver("example.old", capacity=10) as receiver:
        try:
            while True:
                session.acknowledge(receiver.get())
        except Empty:  # the cluster's word that nothing is left, nor will come
            session.sync()
    show("the old one is finished")

    connection.end_redirect("example.old")
    sender.send("6")
    sender.sync()
    show("it has ended: one more")
    moved = connection.move("example.new", "example.old")
    show(f"move: {moved.moved} come back")

    for name in queues:
        connection.delete_queue(f"example.{name}")
    connection.delete_exchange("example.all")
