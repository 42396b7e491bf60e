"""Every sentence of the README's "What holds" names the tests that keep it, and they are there."""

from __future__ import annotations

import pytest

from tests.readme import (
    ON_DISK,
    ON_LOGS,
    ON_PAGE,
    PROMISES,
    ROOT,
    SURVIVED,
    blocks,
    commands,
    paragraph,
    rows,
    sentences,
    text,
    unkept,
)

README = """
## What holds

- **One.** Two are `named`: yes,
  and so on. *Three* holds.

## What does not hold

- Four.
"""
KEPT = {
    "One.": ["tests/unit/test_a.py::test_a"],
    "Two are": ["tests/unit/test_a.py::test_a"],
    "Three": ["t.py::test_b"],
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_a.py").write_text("def test_a():\n    pass\n")
    (tmp_path / "t.py").write_text("async def test_b(x):\n    pass\n")
    return tmp_path


def test_every_promise_is_kept_by_a_test():
    assert len(sentences(text())) > 15
    assert unkept(text(), PROMISES) == []


def test_what_survives_what_is_kept_by_tests():
    said = rows(text())
    assert len(said) == 5
    assert unkept(text(), SURVIVED, said=said) == []


def test_what_is_said_of_stores_is_kept_by_tests():
    said = paragraph(text(), "On disk.")
    assert len(said) > 8
    assert unkept(text(), ON_DISK, said=said) == []


def test_what_is_said_of_the_page_is_kept_by_tests():
    said = paragraph(text(), "The page.")
    assert len(said) >= 7
    assert unkept(text(), ON_PAGE, said=said) == []


def test_what_is_said_of_logs_is_kept_by_tests():
    said = paragraph(text(), "Logs.")
    assert len(said) == 2
    assert unkept(text(), ON_LOGS, said=said) == []


def test_tables_and_paragraphs_are_read():
    readme = "\n## What holds\n\n| what | a |\n|---|---|\n| `one` | x |\n| two: *b* | y |\n\n## More\n\n| z |\n"
    assert rows(readme) == ["one", "two: b"]
    readme += "\n**On disk.** Is `it`? It\nis.\n\n- *Why.* So.\n- Never.\n\nOther.\n"
    assert paragraph(readme, "On disk.") == ["Is it?", "It is.", "Why.", "So.", "Never."]


def test_a_kept_promise_passes(root):
    assert sentences(README) == ["One.", "Two are named: yes, and so on.", "Three holds."]
    assert unkept(README, KEPT, root) == []


@pytest.mark.parametrize(
    ("promises", "wrong"),
    [
        ({k: v for k, v in KEPT.items() if k != "Three"}, "no test is named for: Three holds."),
        (KEPT | {"Three": []}, "no test is named for: Three"),
        (KEPT | {"Three": ["t.py::test_c"]}, "there is no t.py::test_c"),
        (KEPT | {"Three": ["u.py::test_b"]}, "there is no u.py::test_b"),
        (KEPT | {"Five": ["t.py::test_b"]}, "the README does not say, or says twice: Five"),
    ],
)
def test_a_promise_without_a_test_is_found(root, promises, wrong):
    assert unkept(README, promises, root) == [wrong]


def test_blocks_and_commands():
    readme = "a\n```\nx one        y < two  # why\nz\n```\n```python\nf()\n```\n"
    assert blocks(readme, "python") == ["f()\n"]
    assert [commands(block) for block in blocks(readme, "")] == [["x one", "y < two", "z"]]


def test_python_blocks_compile():
    found = blocks(text(), "python")
    assert len(found) >= 3
    for number, block in enumerate(found):
        compile(block, str(ROOT / f"README.md block {number}"), "exec")
