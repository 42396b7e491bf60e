"""How long queues and messages live: what nobody uses goes, and so do what is too old and what was one connection's.

python examples/lives.py                    # in a cluster of its own
python examples/lives.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import sys
import time

from mantamq.client import Connection, connect

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"


def gone(connection: Connection, queue: str) -> str:
    """Wait until it is; a queue goes some milliseconds after its time, and never before."""
    while queue in [one["name"] for one in connection.queues()]:
        time.sleep(0.02)
    return "gone"


with connect(ADDRESS) as connection:
    session = connection.session()
    print(f"{'queue':<18}{'made with':<40}then")

    connection.declare_queue("example.prices", message_ttl_s=0.5)
    sender = session.sender("example.prices")
    for price in ("101.5", "101.7", "101.4"):
        sender.send(price)
    sender.sync()
    while connection.queue("example.prices")["messages"]:
        time.sleep(0.02)
    print(f"{'example.prices':<18}{'message_ttl_s=0.5':<40}its messages are too old: gone")

    connection.declare_queue("example.visit", auto_delete=True, auto_delete_timeout_s=0)
    with session.receiver("example.visit"):
        assert connection.queue_exists("example.visit")
    went = gone(connection, "example.visit")
    print(f"{'example.visit':<18}{'auto_delete=True, ..._timeout_s=0':<40}its last consumer has gone: {went}")

    connection.declare_queue("example.idle", expires_s=0.5)
    print(f"{'example.idle':<18}{'expires_s=0.5':<40}nobody has used it: {gone(connection, 'example.idle')}")

    with connect(ADDRESS) as other:
        other.declare_queue("example.mine", exclusive=True)
    print(f"{'example.mine':<18}{'exclusive=True':<40}its connection is closed: {gone(connection, 'example.mine')}")

    connection.delete_queue("example.prices")
