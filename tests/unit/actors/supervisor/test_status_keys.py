"""The keys of a whole status, as `mantamq status --json` prints them and clients are told: they only grow."""

from __future__ import annotations

from typing import Any

from mantamq.actors.config import EventsConfig
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.wire.client_frames import Command, Open, Opened, Reply

from tests.unit.actors.supervisor.test_supervised_cluster import Story
from tests.unit.live_cluster import connection
from tests.unit.ray_in_memory import nodes_in_memory

CLUSTER = [
    "cluster",
    "namespace",
    "stage",
    "uptime_s",
    "brokers",
    "members",
    "brokers_in_cluster",
    "brokers_taking_clients",
    "change",
    "authenticated",
    "supervisor",
    "healthy",
    "unhealthy",
    "lost",
    "warnings",
    "moved",
    "alerts",
    "actors",
]
SUPERVISOR = ["pid", "host", "name", "number", "confirmed"]
MEMBER = [
    "name",
    "role",
    "pid",
    "node",
    "host",
    "loop",
    "address",
    "alive",
    "peers",
    "clients",
    "version",
    "links",
    "client_versions",
    "refused",
    "refused_clients",
    "machine",
]
SEQUENCER = [
    "ballot",
    "role",
    "members",
    "leaving",
    "out",
    "absent",
    "seq",
    "flowStopped",
    "flowStoppedCount",
    "flow",
    "waiting",
    "duty",
    "streams",
]
STREAM = ["end", "commit", "ready", "lag", "blank", "missing", "voters", "changing"]
BROKER = [
    "broker",
    "members",
    "connections",
    "queues",
    "inc",
    "blank",
    "voters",
    "leaving",
    "left",
    "cut_off",
    "wiring_index",
    "uncommitted_bytes",
    "withheld_bytes",
    "unconfirmed_ms",
    "waiting",
    "waiting_more",
    "waiting_by",
    "waiting_role",
    "waiting_heard_ms",
    "leader_silent_ms",
    "sequencers",
    "supervisor",
    "flowStopped",
    "flowStoppedCount",
    "flow",
    "condemned",
    "ballot",
    "leader",
    "attached",
    "replicas",
    "homeless",
]
CAPTURE = ["facts", "facts_dropped"]
QUEUE = [
    "messages",
    "available",
    "acquired",
    "dead_lettering",
    "bytes",
    "owner",
    "grant",
    "handovers",
    "enqueued",
    "dequeued",
    "accepted",
    "discarded",
    "dead_lettered",
    "expired",
    "consumers",
    "applied",
    "blank",
    "update",
    "replica",
    "acquires",
    "releases",
    "bytes_in",
    "bytes_out",
    "discarded_ring",
    "discarded_last_value",
    "discarded_purge",
    "discarded_subscriber",
    "discarded_too_often",
    "dead_expired",
    "dead_too_often",
    "dead_pushed_out",
    "dead_deleted",
    "age_ms",
    "duplicates",
    "delayed",
    "moved",
]
DEFINITION = ["name", "id", "durable", "alternate", "arguments", "kind", "definition", "kept_by"]
TAP = ["streams", "untold", "events", "dropped", "directory", "rows", "unwritten", "error"]


async def asked(address: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a broker tells a client of itself, and of a queue that is declared here."""
    async with connection(address) as far:
        far.say(Open("c"))
        await far.hear(Opened)
        answers = []
        for number, name, arguments in (
            (1, "declare_queue", {"name": "q"}),
            (2, "status", {}),
            (3, "queue", {"name": "q"}),
        ):
            far.say(Command(number, name, arguments))
            answers.append((await far.hear(Reply)).value)
        return answers[1], answers[2]


async def test_the_keys_of_a_whole_status_and_their_order(tmp_path: Any) -> None:
    with nodes_in_memory():
        story = Story()
        await story.begin(events=EventsConfig(directory=str(tmp_path)))
        broker, queue = await asked(story.ray.named["b1"].actor.addresses["clients"])
        status = await story.supervisor("status")
        by_role = {actor["role"]: actor for actor in status["actors"]}
        await story.ray.gone()
    assert list(status) == CLUSTER and list(status["supervisor"]) == SUPERVISOR
    for role, actor in by_role.items():
        assert list(actor) == MEMBER + ["moves"] * (role == "BrokerNode"), role
        assert all(list(link) == ["version", "inc"] for link in actor["links"].values())
        assert list(actor["refused_clients"]) == ["count", "last"]
    machines = {role: actor["machine"] for role, actor in by_role.items()}
    (leading,) = [
        a["machine"] for a in status["actors"] if a["role"] == "Sequencer" and a["machine"]["role"] == "leading"
    ]
    assert list(leading) == SEQUENCER and list(leading["duty"]) == ["name", "turn", "silent_ms"]
    assert {tuple(stream) for stream in leading["streams"].values()} == {tuple(STREAM)}
    assert list(machines["BrokerNode"]) == list(broker) == [*BROKER, *CAPTURE, "stored"]
    assert list(broker["supervisor"]) == ["name", "number"]
    assert list(machines["EventTap"]) == TAP
    assert {tuple(q) for a in status["actors"] if a["role"] == "QueueReplica" for q in a["machine"].values()} == {
        tuple(QUEUE)
    }
    assert list(queue) == [*DEFINITION, *QUEUE, "held_by"]
    assert ClusterStatus.read(status).plain() == status
