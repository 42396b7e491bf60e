"""Which disk a figure is of is told, and what is kept in memory is no figure of a disk."""

import os

import pytest
from mantamq.benchmarks.disk import CACHE_MS, Disk, look


def test_a_disk_is_named_with_the_time_of_its_flush(tmp_path):
    found = look(str(tmp_path))
    assert 0 < found.p50_ms <= found.p99_ms
    assert found.file_system and f"{found.p50_ms:.3f}" in found.text() and str(tmp_path) in found.text()


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no tmpfs here")
def test_memory_is_refused():
    with pytest.raises(RuntimeError, match=r"in memory .*--data"):
        look("/dev/shm")


@pytest.mark.parametrize("p50_ms, told", [(CACHE_MS / 2, "from a cache"), (CACHE_MS * 2, "reached the medium")])
def test_a_flush_faster_than_any_medium_is_told_apart(p50_ms, told):
    text = Disk("/data", "ext4", "vda", "write back", p50_ms, 2 * p50_ms).text()
    assert told in text and "'write back'" in text
