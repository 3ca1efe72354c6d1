"""docs/mutants.md: its parts that do not depend on results."""

import pytest

from mutation.hand import LEFT_OUT, ROOT, changed_modules
from mutation.page import Score, page

WRITTEN = page(Score({}, (), {}), Score({}, (), {}), "all changes", [])
PUBLISHED = (ROOT / "docs" / "mutants.md").read_text()


def section(text: str, title: str) -> str:
    return next(part for part in text.split("\n## ") if part.startswith(f"{title}\n"))


@pytest.mark.parametrize("title", ["Outcomes", "Modules without changes"])
def test_the_published_page_has_the_present_tables(title: str) -> None:
    assert section(PUBLISHED, title) == section(WRITTEN, title)


def test_each_module_without_changes_exists_and_has_a_reason() -> None:
    assert [path for path, reason in LEFT_OUT.items() if not ((ROOT / path).is_file() and reason)] == []
    assert LEFT_OUT.keys() & set(changed_modules()) == set()
