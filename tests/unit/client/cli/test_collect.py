"""The archive for those who are to help: what is in it, and what is not."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from mantamq.client.cli import collect
from mantamq.client.cli.collect import HIDDEN, Sources
from mantamq.client.errors import NoCluster
from mantamq.protocol.errors import LocalError

from ... import made_up_status as made

ENVIRONMENT = {
    "MANTAMQ_TOKEN": "open sesame", "MANTAMQ_HOME": "/home/ann", "RAY_AUTH_TOKEN_PATH": "", "RAY_NAMESPACE": "n",
    "AWS_SECRET_ACCESS_KEY": "never-asked-for", "PATH": "/bin",
}  # fmt: skip


class Connected:
    def statistics(self) -> dict[str, Any]:
        return {"queues": [{"name": "orders", "note": "open sesame"}]}

    def definitions(self) -> dict[str, Any]:
        return {"queues": []}

    def __enter__(self) -> Connected:
        return self

    def __exit__(self, *_: object) -> None: ...


def sources(**changes: Any) -> Sources:
    remembered = {"address": "10.0.0.1:6379", "session": "session_1", "auth_token": "ray's own token"}
    given: dict[str, Any] = {
        "status": lambda: made.report(made.actors()), "connection": Connected, "events": lambda: '{"row": 1}\n',
        "remembered": remembered,
    }  # fmt: skip
    return Sources(**given | changes)


def files(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        found = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar}
        return {name: file.read().decode() for name, file in found.items() if file is not None}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("ray's own token\n")
    folder = tmp_path / "ray" / "session_1" / "logs"
    folder.mkdir(parents=True)
    pid = made.named(made.actors(), "b1").pid
    (folder / f"worker-ab12-01000000-{pid}.err").write_text(f"{'x' * collect.LOG_BYTES}open sesame at the end\n")
    (folder / "worker-ab13-01000000-99999.err").write_text("somebody else's\n")
    (folder / "raylet.out").write_text("postgresql://me:pa55@db/x\n")
    return tmp_path


def written(home: Path, one: Sources, token: str = "open sesame") -> tuple[dict[str, str], list[str]]:
    path = home / "help.tar.gz"
    missing = collect.collect(path, one, '[{"level": "ok"}]', token, ENVIRONMENT | {"RAY_TMPDIR": str(home / "ray")})
    return files(path), missing


def test_all_that_helps_is_in_it(home: Path):
    found, missing = written(home, sources())
    assert missing == [] and found.pop("missing.txt") == "nothing\n"
    assert json.loads(found["doctor.json"]) == [{"level": "ok"}]
    assert json.loads(found["status.json"])["cluster"] == "abc123"
    assert json.loads(found["statistics.json"])["queues"][0]["name"] == "orders"
    assert "mantamq" in json.loads(found["versions.json"])["packages"]
    assert found["events.jsonl"] == '{"row": 1}\n'
    names = {name for name in found if name.startswith("logs/")}
    assert len(names) == 2 and any(name.startswith("logs/b1-") for name in names)
    assert len(found[next(name for name in names if "b1-" in name)]) <= collect.LOG_BYTES + len(HIDDEN)


def test_no_secret_is_in_it(home: Path):
    found, _ = written(home, sources())
    whole = "\n".join(found.values())
    for secret in ("open sesame", "ray's own token", "never-asked-for", "pa55"):
        assert secret not in whole
    shown = json.loads(found["settings.json"])
    assert shown["environment"]["MANTAMQ_TOKEN"] == shown["remembered"]["auth_token"] == HIDDEN
    assert shown["environment"]["MANTAMQ_HOME"] == "/home/ann" and "PATH" not in shown["environment"]
    assert "postgresql://(hidden)@db/x" in found["logs/ray/raylet.out"]


def test_lines_of_json_are_objects_still_and_have_no_secret_as_json_writes_it(home: Path):
    token = 'open "sésame"'
    line = {"event": f"it came with {token}", "given": [token], "reason": "postgresql://me:pa55@db/x", "queue": "a\nb"}
    (log,) = (home / "ray").rglob("raylet.out")
    log.write_text(json.dumps(line) + "\n")
    found, _ = written(home, sources(), token)
    assert json.loads(found["logs/ray/raylet.out"]) == {
        "event": f"it came with {HIDDEN}", "given": [HIDDEN], "reason": f"postgresql://{HIDDEN}@db/x", "queue": "a\nb",
    }  # fmt: skip


def test_what_cannot_be_had_is_said_and_the_rest_is_there(home: Path):
    def nobody() -> Any:
        raise LocalError("there is no cluster")

    def no_broker() -> Any:
        raise NoCluster("no broker answers")

    found, missing = written(home, sources(status=nobody, connection=no_broker, events=nobody))
    assert [line.partition(":")[0] for line in missing] == [
        "events.jsonl", "statistics.json", "definitions.json", "status.json",
    ]  # fmt: skip
    assert "no broker answers" in found["missing.txt"]
    assert set(found) == {"doctor.json", "versions.json", "settings.json", "missing.txt"}


def test_a_file_that_is_there_is_not_overwritten(home: Path):
    (home / "help.tar.gz").write_text("mine")
    with pytest.raises(LocalError, match="name another file"):
        written(home, sources())
    assert (home / "help.tar.gz").read_text() == "mine"
