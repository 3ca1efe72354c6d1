"""The table of mutants, and the judgement on the evidence of a mutant."""

import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from drahealth.proto.events import ProcessExited
from drahealth.suites.commands.selftest import choice, exit_code, proven_text, selftest
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
from drahealth.suites.driver_checks.mutants.driver import MUTANTS
from drahealth.suites.driver_checks.mutants.proving import Proof, experiments_of, needs_kubelet, proof_of, prove_one
from drahealth.suites.driver_checks.mutants.table import Mutant
from drahealth.suites.driver_checks.summary import proven
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run

SOCKETS = "driver-ends-without-sockets"


def test_mutants_name_checks() -> None:
    assert {check for mutant in MUTANTS.values() for check in mutant.caught_by} <= CHECKS.keys()


def test_a_mutant_has_a_fault_of_its_own_and_a_check() -> None:
    def is_complete(mutant: Mutant) -> bool:
        return mutant.fault.endswith(".") and bool(mutant.caught_by) and "__doc__" in vars(mutant.driver)

    assert [name for name, mutant in MUTANTS.items() if not is_complete(mutant)] == []


def test_proven_lists_for_each_check_the_mutants_of_the_table() -> None:
    declared = {check: sorted(m.name for m in MUTANTS.values() if check in m.caught_by) for check in CHECKS}
    assert proven() == declared, "run `drahealth selftest --write suites/driver_checks/proven.toml`"


def test_proven_file_matches_the_output_of_selftest() -> None:
    text = resources.files("drahealth.suites.driver_checks").joinpath("proven.toml").read_text()
    assert text == proven_text(proven()), "run `drahealth selftest NAME... --write suites/driver_checks/proven.toml`"


def test_only_some_mutants_of_level_full_need_a_real_kubelet() -> None:
    assert [needs_kubelet(name) for name in ("busy-while-watched", "reports-need-api-server", "healthy")] == [
        *(True, False, False)
    ]


def test_partial_selftest_keeps_the_entries_of_other_mutants(tmp_path: Path) -> None:
    path = tmp_path / "proven.toml"
    path.write_text('driver-ends-without-sockets = ["gone", "hangs-at-the-end", "wrong-type"]\n')
    assert selftest(["wrong-type"], sample=None, seed=None, as_json=True, write=path) == 0
    found = {check: mutants for check, mutants in tomllib.loads(path.read_text()).items() if mutants}
    assert found == {
        "driver-ends-without-sockets": ["hangs-at-the-end"],
        "get-info-describes-a-dra-driver": ["wrong-type"],
    }


def test_experiments_include_those_that_must_be_done_before() -> None:
    assert experiments_of(MUTANTS["empty-first-report"]) >= {"registration", "services", "watch", "slices"}


def test_mutant_that_violates_nothing_is_missed() -> None:
    assert [one.split(":")[0] for one in proof_of("leaves-sockets", healthy_run(), 1).missed_by] == [SOCKETS]
    assert proof_of("healthy", healthy_run(), 1).ok


def test_crashed_mutant_is_void_and_not_caught() -> None:
    evidence = healthy_run()
    exits = evidence.of(ProcessExited)
    crashed = {one.number: replace(one, what=replace(one.what, exit_code=1)) for one in exits}
    records = tuple(crashed.get(one.number, one) for one in evidence.records)
    proof = proof_of("leaves-sockets", replace(evidence, records=records), 1)
    assert (bool(proof.error), proof.caught_by, proof.ok) == (True, (), False)


@pytest.mark.parametrize("name", ["leaves-sockets", "unserved-version", "no-options-in-register"])
async def test_a_mutant_is_caught_by_its_check_alone(name: str) -> None:
    proof = await prove_one(name)
    assert proof == Proof(name, proof.seconds, MUTANTS[name].caught_by)


async def test_device_plugin_that_lists_a_broken_device_wrongly_is_caught() -> None:
    proof = await prove_one("unknown-is-healthy", FaultAdapters)
    assert proof == Proof("unknown-is-healthy", proof.seconds, MUTANTS["unknown-is-healthy"].caught_by)


def test_sample_contains_healthy_drivers_and_depends_on_the_seed() -> None:
    first = choice((), 5, 1)
    assert (len(first), first[:2], choice((), 5, 1)) == (7, ["healthy", "healthy-device-plugin"], first)
    assert choice((), 5, 2) != first


@pytest.mark.parametrize(
    ("names", "sample", "seed"), [(("leaves-socket",), None, None), (("wrong-pool",), 3, None), ((), None, 7)]
)
def test_contradictory_choices_are_rejected(names: tuple[str, ...], sample: int | None, seed: int | None) -> None:
    with pytest.raises(ConfigurationError):
        choice(names, sample, seed)


def test_exit_code_differs_for_wrong_and_void_or_missing_results() -> None:
    right, wrong, void = Proof("a", 1), Proof("b", 1, missed_by=("x",)), Proof("c", 1, error="crashed")
    assert exit_code([right], 1) == 0
    assert exit_code([right, wrong], 2) == 1
    assert [exit_code([right, wrong, void], 3), exit_code([right], 2)] == [3, 3]


def test_proven_is_sorted_toml_with_empty_lists() -> None:
    assert proven_text({"b": ["m"], "a": []}).endswith('\n\na = []\nb = ["m"]\n')
