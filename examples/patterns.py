"""Queues and exchanges on demand: whoever attaches to a name that fits a pattern makes what is not there.

python examples/patterns.py                    # in a cluster of its own
python examples/patterns.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys

from mantamq.client import NotFound, connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.add_pattern("example.jobs", "^example[.]jobs[.]", queue={"max_count": 1000})
    connection.add_pattern(
        "example.hasty", "^example[.]jobs[.]hasty", queue={"max_count": 3, "overflow": "ring"}, priority=1
    )
    connection.add_pattern("example.news", "^example[.]news[.]", exchange={"type": "topic"})

    session = connection.session()
    for name in ("example.jobs.mail", "example.jobs.hasty"):
        sender = session.sender(name)  # nobody has declared it
        for number in range(1, 6):
            sender.send(f"{number}")
        sender.sync()
        definition = connection.queue(name)["definition"]  # who browses behind that sees nothing that has just gone
        found = [message.body.decode() for message in session.browse(name)]
        print(f"{name}: at most {definition['max_count']}, now {' '.join(found)}")

    reader = session.receiver("example.jobs.readers")  # a receiver makes a queue as well
    news = session.sender("example.news.eu")  # and a sender an exchange, where the pattern is one of exchanges
    connection.bind("example.news.eu", "example.jobs.readers", "weather.#")
    news.send_to("rain", ["weather.today"])
    message = reader.fetch(10)
    print("the reader gets:", message.body.decode())
    session.acknowledge(message)
    session.sync()

    try:
        session.receiver("example.elsewhere")
    except NotFound as error:
        print("what no pattern fits:", error)

    for pattern in ("example.jobs", "example.hasty", "example.news"):
        connection.delete_pattern(pattern)
    connection.delete_exchange("example.news.eu")
    for name in ("example.jobs.mail", "example.jobs.hasty", "example.jobs.readers"):
        connection.delete_queue(name)
