"""Delays: a reminder that comes later, and a job that fails and is tried again after a while, a longer one each time.

python examples/delays.py                    # in a cluster of its own
python examples/delays.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys
import time

from mantamq.client import connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
    connection.declare_queue("example.reminders")
    connection.declare_queue("example.jobs", retry_delay_s=[0.3, 0.6])
    session = connection.session()

    print(f"{'':<24}{'asked for':>9}{'came after':>12}")
    began = time.monotonic()
    reminders = session.sender("example.reminders")
    reminders.send_later("call Ann", delay=0.8)  # later for all
    reminders.send_later("call Bob", delay=0.4)
    reminders.send("call Cem")
    calls = session.receiver("example.reminders")
    for asked_s in (0, 0.4, 0.8):
        call = calls.fetch(timeout=10)
        print(f"{call.body.decode():<24}{asked_s:>7.1f} s{time.monotonic() - began:>10.2f} s")
        session.acknowledge(call)

    session.sender("example.jobs").send("print")
    jobs = session.receiver("example.jobs")
    for attempt, asked_s in enumerate((0, 0.3, 0.6, 0.6), 1):
        job = jobs.fetch(timeout=10)
        waited_s = time.monotonic() - began if attempt > 1 else 0
        print(f"{'print, attempt ' + str(attempt):<24}{asked_s:>7.1f} s{waited_s:>10.2f} s")
        if attempt < 4:
            session.release(job)  # the printer is out of paper: again, by the queue's own delays
            began = time.monotonic()
    session.release(job, delay=1)  # and by a delay that the consumer knows: it is said when there is paper
    began = time.monotonic()
    job = jobs.fetch(timeout=10)
    print(f"{'print, when told':<24}{1:>7.1f} s{time.monotonic() - began:>10.2f} s")
    session.acknowledge(job)
    session.sync()

    connection.delete_queue("example.reminders")
    connection.delete_queue("example.jobs")
