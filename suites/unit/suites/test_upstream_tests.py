"""The tests of the KEP and of Kubernetes, and the marks of their counterparts, match."""

from pathlib import Path

import pytest

from drahealth.suites.unit.upstream_tests import NotCollected, counterparts, upstream_tests


@pytest.fixture(scope="module")
def ours() -> dict[str, list[str]]:
    return counterparts()


def test_every_row_has_a_counterpart_or_a_reason(ours: dict[str, list[str]]) -> None:
    rows = upstream_tests().values()
    assert {row.id for row in rows if not row.not_ours} - ours.keys() == set()
    assert {row.id for row in rows if row.not_ours} & ours.keys() == set()


def test_every_mark_names_a_row(ours: dict[str, list[str]]) -> None:
    assert ours.keys() - upstream_tests().keys() == set()


def test_every_row_has_a_sentence() -> None:
    rows = upstream_tests().values()
    assert [row.id for row in rows if not row.asserts.endswith(".") or not row.where] == []
    assert [row.id for row in rows if row.not_ours and not row.not_ours.endswith(".")] == []
    assert {row.since for row in rows} == {"text", "1.34", "1.35", "1.36", "1.37", "m"}


MARKED = """
import pytest
from drahealth.suites.run.scenario import scenario

@pytest.mark.counterpart("A", "B")
@pytest.mark.parametrize("x", [1, 2])
def test_with_parameters(x): ...

@pytest.mark.counterpart("B")
class TestClass:
    def test_in_a_class(self): ...

@scenario("STATUS-01", counterpart_of=("B",))
async def test_a_story(): ...

def test_of_our_own(): ...
"""


def test_marks_are_found_by_collecting(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = counterpart(id): as ours\n")
    found = {name: [test.partition("::")[2] for test in tests] for name, tests in counterparts(tmp_path).items()}
    assert found == {
        "A": ["test_with_parameters"],
        "B": ["test_with_parameters", "TestClass::test_in_a_class", "test_a_story"],
    }


def test_failed_test_collection_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_the_kind\ncounterpart = ()\n")
    with pytest.raises(NotCollected, match="nothing_of_the_kind"):
        counterparts(tmp_path)
