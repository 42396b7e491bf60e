"""What a broker keeps to start the next supervisor travels as bytes, and costs nothing before it is needed."""

from __future__ import annotations

import pickle
import subprocess
import sys

from mantamq.actors.ray_control.placement import Placement
from mantamq.actors.supervisor.supervisor import Supervisor
from mantamq.actors.supervisor.supervisor_watch import WatchConfig


def test_a_watch_carries_the_class_of_the_next_supervisor() -> None:
    watch = WatchConfig(
        placement=Placement("here"), state=b"state", rank=1, brokers=("b1", "b2"), successor=pickle.dumps(Supervisor)
    )
    found = pickle.loads(pickle.dumps(watch))
    assert (found.placement, found.state, found.rank, found.brokers) == (Placement("here"), b"state", 1, ("b1", "b2"))
    assert pickle.loads(found.successor) is Supervisor


def test_a_broker_does_not_import_what_a_supervisor_needs() -> None:
    code = (
        "import sys; import mantamq.actors.members.broker_node as node; "
        "names = [name.rsplit('.', 1)[-1] for name in sys.modules if '.actors.supervisor.' in name]; "
        "print(*sorted(names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["supervisor_watch"]
