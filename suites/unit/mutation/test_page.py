"""What is kept of the mutation score, and the modules that it leaves out."""

import json

from mutation.hand import LEFT_OUT, ROOT, changed_modules, read_hand
from mutation.operators import OPERATORS
from mutation.page import page

KEPT = json.loads((ROOT / "ci" / "mutants" / "score.json").read_text())


def test_the_kept_score_names_parts_and_operators_that_exist() -> None:
    parts = {one.part for one in read_hand(ROOT / "ci" / "mutants" / "hand")}
    assert (set(KEPT["hand"]["groups"]) - parts, set(KEPT["automatic"]["groups"]) - set(OPERATORS)) == (set(), set())


def test_the_page_has_the_figures_of_the_kept_score() -> None:
    assert "Caught: 248 of 251" in page(KEPT, ["STATUS-01"])


def test_each_module_without_changes_exists_and_has_a_reason() -> None:
    assert [path for path, reason in LEFT_OUT.items() if not ((ROOT / path).is_file() and reason)] == []
    assert LEFT_OUT.keys() & set(changed_modules()) == set()
