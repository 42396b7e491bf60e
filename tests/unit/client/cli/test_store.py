"""`mantamq store`: on the directories that it is shown, and what it says of wrong ones."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mantamq.client.cli import app, console
from mantamq.client.cli.bar import Bar
from mantamq.client.cli.sheets import byte_count, span
from mantamq.store.files import RealFiles
from mantamq.store.identity import FILE
from rich.progress import DownloadColumn

from tests.store.offline.made_up_stores import CLUSTER_ID, QUEUE, make_store


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Three stores, of which b3 is in use."""
    for broker in ("b1", "b2", "b3"):
        directory = make_store(RealFiles(), broker, str(tmp_path), release=broker != "b3")
        kept.append(directory)
    return str(tmp_path)


kept: list[Any] = []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Run `mantamq store` with these words: exit code, what it printed, what it said."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["mantamq", "store", *words])
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_the_list_fits_eighty_columns(run, data):
    code, shown, _ = run("list", data)
    assert code == 0 and max(map(len, shown.splitlines()[1:6])) <= 80
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("b") and ":" not in line] == [
        ["b1", "dirty", CLUSTER_ID], ["b2", "dirty", CLUSTER_ID], ["b3", "in", "use"],
    ]  # fmt: skip
    assert "b3: in use by b3.store, process" in shown


def test_the_list_for_scripts_has_all(run, data):
    found = json.loads(run("list", data, "--json")[1])
    assert [one["broker"] for one in found] == ["b1", "b2", "b3"]
    assert {"base", "end", "used_bytes", "oldest_us"} <= found[0]["logs"][0].keys()
    assert found[2]["holder"] and not found[0]["holder"]


def test_without_a_directory_it_is_that_of_up(run, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    assert f"there is no {tmp_path}/data" in run("list")[2]


@pytest.mark.parametrize("verb", ["list", "dump", "verify"])
@pytest.mark.parametrize("made", [None, "folder", "file"])
def test_a_wrong_directory_is_one_line(run, tmp_path, verb, made):
    path = tmp_path / "x"
    if made == "folder":
        path.mkdir()
    elif made == "file":
        path.write_text("")
    code, shown, said = run(verb, str(path))
    assert code == 1 and not shown and len(said.splitlines()) == 1
    assert "name " in said


def test_the_dump_has_a_line_for_each_record(run, data):
    code, shown, said = run("dump", f"{data}/b1")
    assert code == 0 and not said
    assert len(shown.splitlines()) == 9
    assert "Message-Start + Enqueue" in shown and "Message-Start (moved)" in shown
    only = run("dump", f"{data}/b1", "--log", "messages", "--stream", QUEUE, "--bodies", "--json")[1]
    rows = [json.loads(line) for line in only.splitlines()]
    assert {row["stream"] for row in rows} == {QUEUE}
    assert [one["body"] for row in rows for one in row.get("messages", ())] == [
        "body 1 of b1", "body 2 of b1", "body 3 of b1", "body 1 of b1",
    ]  # fmt: skip
    bodies = run("dump", f"{data}/b1", "--bodies")[1]
    assert '\'body 2 of b1\' {"subject": "news"}' in bodies
    lsn = rows[-1]["lsn"]
    assert len(run("dump", f"{data}/b1", "--log", "messages", "--from-lsn", str(lsn))[1].splitlines()) == 1


def test_a_dump_of_a_store_in_use_says_what_it_may_miss(run, data):
    code, shown, said = run("dump", f"{data}/b3")
    assert code == 0 and len(shown.splitlines()) == 9
    assert "in use by b3.store" in said and "may be missing" in said


def test_a_dump_is_of_one_store_and_of_a_log_that_there_is(run, data):
    assert run("dump", data)[0] == 1 and "name one of them" in run("dump", data)[2]
    assert run("dump", f"{data}/b1", "--log", "wrong")[0] == 2


def test_verify_says_whole_by_its_exit_code(run, data):
    assert run("verify", data)[0] == 0
    assert json.loads(run("verify", data, "--json")[1])["whole"] is True


def test_verify_names_what_is_damaged(run, data):
    (path,) = Path(f"{data}/b2/messages").glob("0*.log")
    at = json.loads(run("dump", f"{data}/b2", "--log", "messages", "--json")[1].splitlines()[2])["lsn"]
    whole = bytearray(path.read_bytes())
    whole[at % len(whole) + 60] ^= 1
    path.write_bytes(whole)
    code, shown, _ = run("verify", data)
    assert code == 1
    assert "b2 messages: not as it was written" in shown and f"damage at {at}" in shown and QUEUE in shown
    assert "b1 messages: 6 records of 1 streams" in shown
    code, shown, _ = run("verify", data, "--json")
    assert code == 1 and [one["store"] for one in json.loads(shown)["parts"] if one["wrong"]] == ["b2"]


def test_a_newer_store_is_refused_with_what_to_do(run, data):
    (Path(data) / "b1" / FILE).write_text('{"format": 7}')
    assert "run that version, or a newer one" in " ".join(run("list", data)[1].split())
    assert run("verify", data)[0] == 1
    assert "run that version, or a newer one" in run("dump", f"{data}/b1")[2]


def test_what_is_short_shows_no_bar():
    with Bar("b1", DownloadColumn(True)) as bar:
        bar.show("tx", 1, 2)
        assert bar._bar is None


def test_sizes_and_times_for_people():
    assert [byte_count(n) for n in (12, 2048, 5 << 20, 3 << 30)] == ["12 B", "2.0 KiB", "5.0 MiB", "3.0 GiB"]
    assert [span(n) for n in (5.9, 90, 7200, 90000)] == ["5 s", "1.5 min", "2.0 h", "1.0 d"]


def test_the_command_line_imports_no_store_before_it_is_asked():
    code = "import sys, mantamq.client.cli.app; assert not [m for m in sys.modules if m.startswith('mantamq.store')]"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- recover


@pytest.fixture
def lost(tmp_path: Path) -> str:
    """Three stores that nobody uses."""
    for broker in ("b1", "b2", "b3"):
        make_store(RealFiles(), broker, str(tmp_path))
    return str(tmp_path)


def on_terminal(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    stdin = io.StringIO("\n".join(lines) + "\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(type(console.err), "is_terminal", property(lambda self: True))


def test_recover_says_what_is_kept_and_what_may_be_missing(run, lost):
    code, shown, said = run("recover", lost, "--from", "b2", "--yes")
    assert code == 0
    assert "Completed messages, accepts and declarations may be missing" in said
    assert "1 durable queues" in said and "Moved aside" in said and "b1, b3" in said
    assert "mantamq up" in shown and "broker add" in shown
    assert sorted(os.listdir(lost)) == ["aside", "b2"]


def test_recover_for_scripts(run, lost):
    code, shown, said = run("recover", lost, "--from", "b2", "--yes", "--json")
    found = json.loads(shown)
    assert code == 0 and not said
    assert found["broker"] == "b2" and found["durable"] == ["orders"] and len(found["aside"]) == 2
    assert json.loads(run("list", lost, "--json")[1])[0]["cluster"] == found["cluster"] != CLUSTER_ID


@pytest.mark.parametrize("answers", [["n"], ["y", "b1"], ["y", ""], []])
def test_recover_asks_twice_and_any_other_answer_changes_nothing(run, lost, monkeypatch, answers):
    on_terminal(monkeypatch, *answers)
    before = {path: path.read_bytes() for path in Path(lost).rglob("*") if path.is_file()}
    code, _, said = run("recover", lost, "--from", "b2")
    assert code == 1 and "nothing was changed" in said
    assert sorted(os.listdir(lost)) == ["b1", "b2", "b3"]
    assert [one["state"] for one in json.loads(run("list", lost, "--json")[1])] == ["dirty"] * 3
    assert {path: path.read_bytes() for path in Path(lost).rglob("*") if path.is_file()} == before


def test_recover_asks_for_the_name(run, lost, monkeypatch):
    on_terminal(monkeypatch, "y", "b2")
    assert run("recover", lost, "--from", "b2")[0] == 0
    assert sorted(os.listdir(lost)) == ["aside", "b2"]


def test_recover_in_a_script_wants_yes(run, lost):
    code, _, said = run("recover", lost, "--from", "b2")
    assert code == 1 and "--yes" in said and len(os.listdir(lost)) == 3


def test_recover_while_a_broker_runs_is_refused(run, data):
    code, _, said = run("recover", data, "--from", "b2", "--yes")
    assert code == 1 and "b3.store" in said and "mantamq down" in said
    assert sorted(os.listdir(data)) == ["b1", "b2", "b3"]
