"""`drahealth certify --kubelet`, and `verify` of its certificate."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.suites.commands.certificate_files import HISTORIES, KUBELET_FILES, RUN, STATEMENT, Signer, sign
from drahealth.suites.commands.certify_kubelet import plan_lines
from drahealth.suites.commands.verify_run import files_of, verify
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.result_files import REPORT
from drahealth.suites.unit.command_process import COMMAND, run
from drahealth.suites.unit.report.kubelet_runs import ISSUE, finished, written
from drahealth.suites.unit.report.test_statement import keys


def verified(folder: Path, *, require_certified: bool = False) -> int:
    return verify(*files_of(folder, None), Signer(), require_certified=require_certified)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A certificate of a kubelet with a known issue."""
    written(tmp_path / "certificate", finished({"STATUS-13": ISSUE}))
    return tmp_path / "certificate"


def test_a_certificate_of_a_kubelet_is_verified(folder: Path) -> None:
    assert verified(folder, require_certified=True) == 0


def test_a_kubelet_that_is_not_certified_is_told_apart(tmp_path: Path) -> None:
    written(tmp_path, finished({"STATUS-01": {"outcome": "failed", "broken": ("STATUS-01",)}}))
    assert (verified(tmp_path), verified(tmp_path, require_certified=True)) == (0, 5)


@pytest.mark.parametrize("name", [RUN, REPORT, STATEMENT, f"{HISTORIES}/a.jsonl"])
def test_an_edited_file_is_not_verified(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text().replace("a history", "no history").replace("STATUS-13", "STATUS-07"))
    assert verified(folder) == 1


def test_a_missing_history_is_not_verified(folder: Path) -> None:
    (folder / HISTORIES / "a.jsonl").unlink()
    assert verified(folder) == 1


def test_a_report_that_waives_what_the_evidence_does_not_is_not_verified(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    report["certificate"]["judged_by"] = "kep"
    (folder / REPORT).write_text(json.dumps(report))
    assert verified(folder) == 1


def test_a_certificate_by_another_ledger_is_not_verified_in_full(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    report["certificate"]["ledger_sha256"] = "ab" * 32
    (folder / REPORT).write_text(json.dumps(report))
    (folder / STATEMENT).unlink()
    assert verified(folder) == 4


def test_a_signed_certificate_of_a_kubelet_is_verified_with_the_key(folder: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = keys(folder.parent, "mine", Ed25519PrivateKey.generate())
    sign(folder, private, None)
    assert verify(*files_of(folder, None), Signer(key=public)) == 0


def test_a_certificate_without_the_file_of_the_kubelet_cannot_be_signed(tmp_path: Path) -> None:
    written(tmp_path, finished(), artifact="", artifact_sha256="")
    with pytest.raises(ConfigurationError, match="names no digest of the kubelet"):
        sign(tmp_path, tmp_path / "key.pem", None)


@pytest.mark.parametrize(
    "words",
    [
        ["--level=full"],
        ["--judge-by=me"],
        ["one", "two"],
        ["./no-such-kubelet"],
        ["--requirement=PLUGIN-05"],
        ["--target=moon"],
        ["--target=reference", "--profile=v0.1"],
        ["--target=reference", "./kubelet"],
    ],
)
def test_wrong_usage_gets_one_sentence(words: list[str], tmp_path: Path) -> None:
    done = run(COMMAND, "certify", "--kubelet", *words, folder=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines()), [*tmp_path.iterdir()]) == (2, 1, [])


@pytest.mark.parametrize("words", [["--target=kubelet"], ["-n2"], ["--judge-by=kep"]])
def test_options_of_kubelets_need_the_mode(words: list[str]) -> None:
    done = run(COMMAND, "certify", *words, "driver.toml")
    assert (done.returncode, "pass --kubelet" in done.stderr) == (2, True)


def test_the_plan_names_what_no_scenario_can_judge() -> None:
    _, *others = plan_lines({"target": "kubelet", "kubernetes": "1.37.2"})
    assert [line.split()[3] for line in others] == ["GATE-08"]


@pytest.mark.long
def test_the_reference_is_certified_and_verified(tmp_path: Path) -> None:
    done = run(COMMAND, "certify", "--kubelet", "--target=reference", "-n2", folder=tmp_path)
    folder = tmp_path / "kubelet-certificate"
    assert (done.returncode, ", profile kep, " in done.stdout) == (0, True), done.stdout[-2000:]
    assert {path.name for path in folder.iterdir()} == {*KUBELET_FILES} - {STATEMENT}
    assert verified(folder, require_certified=True) == 0


def test_an_interrupted_certification_writes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMMAND, "certify", "--kubelet", "--target=reference", "-n1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stderr
        assert any("PASS" in line for line in program.stdout)
        program.send_signal(signal.SIGINT)
        program.stdout.read()
        last = program.stderr.read().splitlines()[-1]
    assert (program.returncode, "there is no certificate" in last, [*tmp_path.iterdir()]) == (3, True, [])
