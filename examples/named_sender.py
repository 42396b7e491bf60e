"""A named sender: an import is killed in the midst of its file, and the next one goes on where the queue says.

python examples/named_sender.py                    # in a cluster of its own
python examples/named_sender.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import multiprocessing
import os
import signal
import sys

from mantamq.client import connect

LINES = [f"line {number}" for number in range(1, 2001)]


def import_file(address: str, killed_at: int) -> None:
    """A program of its own. Line n of the file has number n, in whichever life it is sent."""
    with connect(address) as connection:
        sender = connection.session().sender("example.lines", name="import of lines.txt")
        print("an import begins" if not sender.last_completed else "the next one goes on", flush=True)
        for number, line in enumerate(LINES, 1):
            sender.send(line, number=number)  # what the queue has had is not sent again
            if number == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)  # who knows which lines have arrived?
        sender.sync()
        print(f"complete up to line {sender.last_completed}; the queue had some of it already: {sender.repeated > 0}")


def main() -> None:
    with connect(sys.argv[1] if len(sys.argv) > 1 else "local") as connection:
        connection.declare_queue("example.lines")
        programs = multiprocessing.get_context("spawn")
        for killed_at in (1500, 0):
            program = programs.Process(target=import_file, args=(connection.address, killed_at))
            program.start()
            program.join()
            if program.exitcode == -signal.SIGKILL:
                print("it is killed")

        arrived = [message.body for message in connection.session().browse("example.lines")]
        print(f"{len(arrived)} lines; each once and in order: {arrived == [line.encode() for line in LINES]}")
        connection.delete_queue("example.lines")


if __name__ == "__main__":
    main()
