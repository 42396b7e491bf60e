"""Which Ray nodes can run Java at all.

A Ray node looks for Java once, when it starts. One that found none *dies* with all its actors as soon as a Java process
joins it, and a broker's node must not die of a report: so this is asked before RayDP is let near the cluster.
"""

from __future__ import annotations

from typing import Any

_OPTION = "--java_worker_command="
ASK_S = 60.0


def takes_java(raylet: list[str]) -> bool:
    """Whether a raylet with this command line was started with a Java on its path."""
    return any(word.startswith(_OPTION) and word != _OPTION for word in raylet)


def without_java(resource: str) -> list[str]:
    """Addresses of the nodes that Java must not come near, of those Spark would use.

    Args:
        resource: the custom resource that Spark's actors ask for, "" for none. The driver's own node always counts.

    Raises:
        GetTimeoutError: a node does not answer.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    nodes = [node for node in nodes if node["NodeID"] == here or not resource or node["Resources"].get(resource)]
    ask: Any = ray.remote(num_cpus=0)(_mine_takes_java)
    asked = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    answers = ray.get(asked, timeout=ASK_S)
    return [node["NodeManagerAddress"] for node, yes in zip(nodes, answers, strict=True) if not yes]


def _mine_takes_java() -> bool:
    """Runs on a node: is its raylet such a one? A raylet that cannot be found is given the benefit of the doubt."""
    import psutil

    for process in psutil.Process().parents():
        if process.name() == "raylet":
            return takes_java(process.cmdline())
    return True
