"""Suggestions for unknown names."""

import pytest

from drahealth.fakes.hints import near


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("x", [], "none exist"),
        ("nic", ["gpu"], "valid: gpu"),
        ("injct", ["inject", "clear"], "did you mean inject? valid: inject, clear"),
        ("Healty", ["Healthy", "Unhealthy"], "did you mean Healthy? valid: Healthy, Unhealthy"),
        ("gpu-9", ["gpu-0", "split"], "valid: gpu-0, split"),
        ("gup-7", [f"gpu-{number}" for number in range(30)], "did you mean gpu-7 or gpu-27 or gpu-17?"),
        ("x", [str(number) for number in range(30)], f"valid: {', '.join(map(str, range(24)))} and 6 more"),
    ],
)
def test_clearly_closest_name_is_suggested(name: str, known: list[str], hint: str) -> None:
    assert near(name, known) == hint


def test_hint_names_the_page_of_a_long_list() -> None:
    known = [f"gpu-{number}" for number in range(30)]
    assert near("x", known, "docs/gpus.md") == "docs/gpus.md lists all names"
    assert near("gup-7", known, "docs/gpus.md").startswith("did you mean gpu-7")
    assert near("x", ["gpu"], "docs/gpus.md") == "valid: gpu"


def test_hint_is_fast_for_many_and_long_names() -> None:
    assert near("gpu" * 100_000, (f"gpu-{number}" for number in range(100_000))).startswith("valid: gpu-0, gpu-1")
