"""Priorities: an alarm that comes last is handled first.

python examples/priorities.py                    # in a cluster of its own
python examples/priorities.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.tasks", priorities=10)
    session = connection.session()

    tasks = [("report 1", 1), ("order 1", 5), ("report 2", 1), ("order 2", 5), ("alarm", 9)]
    sender = session.sender("example.tasks")
    for body, priority in tasks:
        sender.send(Message(body, priority=priority))
    sender.sync()

    print(f"{'sent':<10} {'handled':<10} priority")
    receiver = session.receiver("example.tasks", capacity=10)
    for body, _ in tasks:
        message = receiver.fetch(timeout=10)
        print(f"{body:<10} {message.body.decode():<10} {message.priority}")
        session.acknowledge(message)
    session.sync()

    connection.delete_queue("example.tasks")
