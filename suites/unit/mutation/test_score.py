"""The results of trials, and the score."""

from pathlib import Path

import pytest

from mutation import faults
from mutation.hand import HandMutant
from mutation.operators import Mutation
from mutation.page import EquivalentError, Score, kept, page, read_equivalent
from mutation.running import Results, Trial


def mutation(number: int) -> Mutation:
    return Mutation("m.py", number, "f", number, "comparison", f"a{number} == b", f"a{number} != b")


def score(*outcomes: str, equivalent: tuple[int, ...] = ()) -> Score[Mutation]:
    every = tuple(mutation(number) for number, _ in enumerate(outcomes))
    pairs = [(one, outcome) for one, outcome in zip(every, outcomes, strict=True) if outcome]
    trials = {one.key: Trial(one.key, outcome, ("STATUS-01",)) for one, outcome in pairs}
    return Score(trials, every, {mutation(number).key: "no effect" for number in equivalent})


def test_the_share_leaves_out_equivalent_changes_and_those_without_a_result() -> None:
    found = score("killed", "survived", "survived", "", "hangs", equivalent=(2,))
    assert (found.share, found.counts["equivalent"], found.counts["missing"]) == (2 / 3, 1, 1)


def test_a_change_in_the_list_need_not_be_tried() -> None:
    assert score("", equivalent=(0,)).counts == {"equivalent": 1}


def test_a_change_in_the_list_that_a_scenario_noticed_is_killed() -> None:
    assert score("killed", equivalent=(0,)).counts == {"killed": 1}


def test_invalid_changes_are_excluded_from_the_score() -> None:
    found = score("killed", "no import", "does not apply", "survived")
    assert (found.share, [one.line for one in found.invalid()]) == (0.5, [1, 2])


def test_a_run_without_results_has_no_share() -> None:
    assert score("", "").share == 0


def test_the_page_names_parts_kills_and_survivors() -> None:
    one = HandMutant("no-clear", "streams", "It keeps the health.", "m.py", "a", "b")
    hand = Score({one.trial_key: Trial(one.trial_key, "survived")}, (one,), {})
    by_hand, automatic = kept(hand, lambda one: one.part), kept(score("killed", "survived"), lambda one: one.operator)
    model = {"seed": 1, **kept(Score({}, tuple(faults.sample(1, 1)), {}), lambda one: one.seam)}
    found = {"tried": "all changes", "hand": by_hand, "automatic": automatic, "faults": model}
    lines = page(found, ["STATUS-01", "STATUS-02"], ()).splitlines()
    wanted = {
        "| streams | 0 | 1 |",
        "| STATUS-01 | 0 | 1 | 0 |",
        "Requirements with 0 in all columns: STATUS-02.",
        f"- `{mutation(1)}`",
    }
    assert {*wanted, "- `no-clear`"} <= set(lines)


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    Results(file).add(Trial("a", "killed", ("STATUS-01",), "test_x"))
    with file.open("a") as open_file:
        open_file.write('{"key": "b", "outc')
    Results(file).add(Trial("c", "survived"))
    assert Results(file).by_key == {
        "a": Trial("a", "killed", ("STATUS-01",), "test_x"),
        "c": Trial("c", "survived"),
    }


@pytest.mark.parametrize("text", ["[[mutation]]\nchange = 'a'", "[[mutation]]\nchange = 'a'\nreason = ''", "=", "x"])
def test_an_invalid_list_of_equivalent_changes_is_rejected(text: str) -> None:
    with pytest.raises(EquivalentError):
        read_equivalent(text)
