"""Dead letters: what nobody can handle, comes too late or fails again and again is in one place, and says why.

python examples/dead_letters.py                    # in a cluster of its own
python examples/dead_letters.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import Message, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_exchange("example.lost", "fanout")
    connection.declare_queue("example.dead")
    connection.bind("example.lost", "example.dead")
    connection.declare_queue("example.jobs", alternate="example.lost", delivery_limit=2)
    session = connection.session()

    sender = session.sender("example.jobs")
    for body in ("pay", "??", "print"):
        sender.send(body)
    sender.send(Message("say good morning", ttl=0.1))
    sender.sync()

    letters = session.receiver("example.dead")
    found = [letters.fetch(10)]  # nobody has asked for it in time

    with session.receiver("example.jobs", capacity=1) as worker:
        while len(found) < 3:
            job = worker.fetch(10)
            if job.body == b"??":
                session.reject(job)  # nobody can make sense of it
            elif job.body == b"print":
                session.release(job)  # the printer is out of paper: again, and again
            else:
                session.acknowledge(job)
            session.sync()
            if job.body == b"??" or (job.body == b"print" and job.delivery_count == 2):
                found.append(letters.fetch(10))

    print(f"{'letter':<18}{'cause':<16}{'from':<14}came back")
    for letter in found:
        why = letter.properties
        print(
            f"{letter.body.decode():<18}{why['manta.death_cause']:<16}{why['manta.death_queue']:<14}"
            f"{why['manta.death_deliveries']}"
        )
    session.acknowledge()
    session.sync()

    connection.delete_queue("example.jobs")
    connection.delete_queue("example.dead")
    connection.delete_exchange("example.lost")
