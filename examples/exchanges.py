"""Exchanges that lead to exchanges, and a queue that numbers its messages: delays of one airport, in one place.

python examples/exchanges.py                    # in a cluster of its own
python examples/exchanges.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.delays", sequence_key="number")
    connection.declare_queue("example.rest")
    connection.declare_exchange("example.others", "fanout")
    connection.bind("example.others", "example.rest")
    # Nobody sends to this one, and it goes with the last of its bindings.
    connection.declare_exchange("example.jfk", "topic", internal=True, auto_delete=True)
    connection.bind("example.jfk", "example.delays", key="*.late")
    # What reaches no queue, by whatever way, goes to the alternate exchange.
    connection.declare_exchange("example.flights", "topic", alternate="example.others")
    connection.bind_exchange("example.flights", "example.jfk", key="JFK.*")

    session = connection.session()
    sender = session.sender("example.flights")
    for flight, subject in (("AA 1", "JFK.late"), ("UA 2", "JFK.early"), ("DL 3", "LAX.late"), ("B6 4", "JFK.late")):
        sender.send(Message(flight, subject=subject))
    sender.sync()

    for queue in ("example.delays", "example.rest"):
        for message in session.browse(queue):
            number = message.properties.get("number", "-") if message.properties else "-"
            print(f"{queue:<15} {number:>2}  {message.body.decode()}  {message.subject}")

    for queue in ("example.delays", "example.rest"):
        connection.delete_queue(queue)
    for exchange in ("example.flights", "example.others"):
        connection.delete_exchange(exchange)
    left = [one["name"] for one in connection.exchanges() if one["name"].startswith("example.")]
    print(f"exchanges left: {len(left)}")
