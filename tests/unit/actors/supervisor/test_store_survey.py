"""Where stores are: what nodes say of their directories, each store found once, and nothing changed by a look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from mantamq.actors.supervisor.store_survey import look_into, sorted_out
from mantamq.protocol.supervisor.layout import Node
from mantamq.store.files import RealFiles
from mantamq.store.identity import StoreIdentity, StoreState, open_store

N1, N2, N3 = (Node(f"n{number}", f"10.0.0.{number}", {}) for number in (1, 2, 3))


def store(
    data: Path, broker: str, node: str = "10.0.0.1", cluster: str = "c", status: StoreState = StoreState.DIRTY
) -> int:
    directory = open_store(RealFiles(), str(data), broker)
    life = directory.begin(1_000, cluster=cluster, store=f"store of {broker}", node=node, status=status)
    directory.release()
    return life


def files(data: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in data.rglob("*") if path.is_file()}


def said(system: str, **stores: dict[str, Any]) -> dict[str, Any]:
    return {"system": system, "error": None, "stores": stores}


def one(file: str, life: int = 1, node: str = "10.0.0.1", cluster: str = "c") -> dict[str, Any]:
    identity = StoreIdentity(store="s", cluster=cluster, status=StoreState.DIRTY, life=life, node=node)
    return {"identity": msgspec.to_builtins(identity), "file": file}


def test_a_directory_says_what_it_holds_and_stays_as_it_is(tmp_path: Path) -> None:
    life = store(tmp_path, "b1")
    store(tmp_path, "b3", cluster="d")
    (tmp_path / "b2").mkdir()
    (tmp_path / "b4").mkdir()
    (tmp_path / "b4" / "store.json").write_text("{")
    (tmp_path / "b5").mkdir()
    (tmp_path / "b5" / "store.json").write_text('{"format": 99}')
    before = files(tmp_path)
    found = sorted_out([(N1, look_into(str(tmp_path)))])
    assert files(tmp_path) == before
    assert [one.broker for one in found.stores] == ["b1", "b3", "b4", "b5"], "an empty folder is no store"
    by = {one.broker: one for one in found.stores}
    identity = by["b1"].identity
    assert identity is not None and (identity.cluster, identity.life, by["b1"].code) == ("c", life, "")
    assert (by["b4"].identity, by["b4"].code, by["b5"].code) == (None, "store-damaged", "store-format")
    assert "newer mantamq (format 99" in by["b5"].text
    assert found.free == () and found.nodes == (N1,)


def test_what_a_start_that_came_to_nothing_has_left_is_no_store(tmp_path: Path) -> None:
    store(tmp_path, "b1", status=StoreState.FOUNDING)
    found = sorted_out([(N1, look_into(str(tmp_path)))])
    assert (found.stores, found.unusable) == ((), ())
    assert [one.broker for one in found.founding] == ["b1"], "it may be of a cluster that others know of"


def test_a_directory_that_is_not_there_is_free_and_one_that_is_a_file_is_not(tmp_path: Path) -> None:
    found = sorted_out([(N1, look_into(f"{tmp_path}/not/yet"))])
    assert (found.stores, found.free, found.unusable) == ((), (N1,), ())
    assert os.listdir(tmp_path) == [], "a look makes no directory"
    (tmp_path / "file").write_text("")
    found = sorted_out([(N1, look_into(f"{tmp_path}/file"))])
    [(node, code, text)] = found.unusable
    assert (node, code) == (N1, "store-unusable") and "is not a directory" in text and found.free == ()


def test_nodes_that_see_the_same_files_have_each_store_once_best_where_it_was() -> None:
    both = said("fs", b1=one("1", node="10.0.0.2"), b2=one("2", node="10.0.0.1"))
    found = sorted_out([(N1, both), (N2, both)])
    assert [(one.broker, one.node) for one in found.stores] == [("b1", N2), ("b2", N1)]
    assert found.free == ()
    empty = said("other")
    assert sorted_out([(N1, both), (N2, empty), (N3, empty)]).free == (N2,), "one word for each file system"


def test_a_copy_is_another_store() -> None:
    found = sorted_out([(N1, said("fs1", b1=one("1", life=5))), (N2, said("fs2", b1=one("1 too", life=7)))])
    assert [one.node for one in found.of("b1")] == [N2, N1], "the one that was used last comes first"
