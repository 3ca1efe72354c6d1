"""`drahealth certify`, `verify` and `diff` as processes."""

import fcntl
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from drahealth.suites.commands.certificate_files import FILES, certificate_folder
from drahealth.suites.commands.ending import signals_held
from drahealth.suites.driver_checks.evidence import read_evidence
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.result_files import EVIDENCE, REPORT
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND, Done
from drahealth.suites.unit.driver_checks.certificates import core_run, written
from drahealth.suites.unit.report.test_check_report import leave_sockets


def drahealth(*arguments: str | Path, folder: Path | None = None) -> Done:
    return command_process.run(COMMAND, *map(str, arguments), folder=folder)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The driver profile of a program that is no driver."""
    path = tmp_path / "gpu.toml"
    command = json.dumps([sys.executable, "-c", "import time; time.sleep(600)"])
    about = f"command = {command}\nartifact = {json.dumps(__file__)}\n"
    path.write_text(f'format = "driver-profile/v1"\n[driver]\n{about}')
    return path


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The certificate of a healthy driver."""
    written(tmp_path / "certificate", core_run())
    return tmp_path / "certificate"


# -- certify


def test_program_that_is_no_driver_is_not_certified(profile: Path) -> None:
    done = drahealth("certify", profile, "--deadline=3")
    report = json.loads((profile.parent / "certificate" / REPORT).read_text())
    assert (done.returncode, report["certificate"]["certified"]) == (4, False), done.stderr
    assert (report["conditions"]["profile"], report["conditions"]["level"]) == ("gpu", "core")
    assert {path.name for path in (profile.parent / "certificate").iterdir()} == set(FILES)


def test_report_of_a_run_is_verified_by_its_evidence(profile: Path) -> None:
    drahealth("certify", profile, "--deadline=2")
    folder = profile.parent / "certificate"
    done = drahealth("verify", folder / REPORT, folder / EVIDENCE)
    assert done.returncode == 0, done.stdout


def test_directory_of_a_certificate_is_verified(certificate: Path) -> None:
    done = drahealth("verify", certificate)
    assert (done.returncode, "gpu.example.com" in done.stdout) == (0, True), done.stdout + done.stderr


def test_baseline_of_the_same_driver_has_all_findings(profile: Path) -> None:
    drahealth("certify", profile, "--deadline=2")
    old = profile.parent / "certificate" / REPORT
    done = drahealth("certify", profile, "--deadline=2", f"--baseline={old}", f"--out={profile.parent / 'new'}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_requirement_gives_no_certificate(profile: Path) -> None:
    done = drahealth("certify", profile, "--deadline=2", "--requirement=PLUGIN-01")
    assert (done.returncode, (profile.parent / "certificate").exists()) == (4, False)


def test_plan_starts_nothing(profile: Path) -> None:
    done = drahealth("certify", "--plan", profile)
    assert (done.returncode, done.stderr, [path.name for path in profile.parent.iterdir()]) == (0, "", ["gpu.toml"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["certify"],
        ["certify", "gpu.toml", "other.toml"],
        ["certify", "nowhere.toml"],
        ["certify", "gpu.toml", "--level=gold"],
        ["certify", "gpu.toml", "--level=check"],
        ["certify", "gpu.toml", "--deadline=-1"],
        ["certify", "gpu.toml", "--api-server=fake"],
        ["certify", "gpu.toml", "--waivers=nowhere.toml"],
        ["certify", "gpu.toml", "--baseline=nowhere.json"],
        ["certify", "gpu.toml", "--baseline=gpu.toml"],
        ["certify", "gpu.toml", "--requirement=PLUGIN-00"],
        ["certify", "gpu.toml", "--registry-dir=."],
        ["certify", "gpu.toml", "--out=gpu.toml"],
        ["certify", "missing.toml"],
        ["certify", "--init", "--plan", "--", "./driver"],
        ["certify", "--init", "--out=gpu.toml"],
        ["certify", "--init", "--registry-dir=."],
        ["certify", "--init", "--kubeconfig=k", "--", "./driver"],
        ["certify", "--init", "--driver=nvidai"],
        ["certify", "gpu.toml", "--driver=nvidia"],
        ["verify", "nowhere.json", "gpu.toml"],
        ["verify", "gpu.toml", "gpu.toml"],
        ["verify", "gpu.toml"],
        ["verify", "."],
        ["verify", ".", "gpu.toml"],
        ["certify", "--init", "--", "./driver", "--dir={drvier_dir}"],
        ["diff", "gpu.toml", "gpu.toml"],
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(profile: Path, arguments: list[str]) -> None:
    (profile.parent / "missing.toml").write_text(profile.read_text().replace(sys.executable, "./no-driver"))
    done = drahealth(*arguments, folder=profile.parent)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert sorted(path.name for path in profile.parent.iterdir()) == ["gpu.toml", "missing.toml"]


def test_verify_names_the_directory_that_does_not_exist(tmp_path: Path) -> None:
    done = drahealth("verify", tmp_path / "nowhere")
    assert (done.returncode, str(tmp_path / "nowhere") in done.stderr) == (2, True), done.stderr


def test_all_mistakes_of_a_profile_are_printed(profile: Path) -> None:
    profile.write_text(profile.read_text() + "a = 1\nb = 2\n")
    done = drahealth("certify", profile)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2), done.stderr


# -- the directory of a certificate


def test_certificate_is_not_overwritten_silently(profile: Path, certificate: Path) -> None:
    before = (certificate / REPORT).read_bytes()
    done = drahealth("certify", profile, "--deadline=2")
    assert (done.returncode, (certificate / REPORT).read_bytes()) == (2, before)
    assert drahealth("certify", profile, "--deadline=2", "--overwrite").returncode == 4
    assert (certificate / REPORT).read_bytes() != before


def test_two_certifications_in_one_directory_are_an_error(profile: Path) -> None:
    out = profile.parent / "certificate"
    out.mkdir()
    with (out / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = drahealth("certify", profile, "--deadline=2")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_failed_run_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "certificate"

    def fail() -> None:
        with certificate_folder(out) as new:
            (new / REPORT).write_text("{}")
            raise ConfigurationError("no driver")

    with pytest.raises(ConfigurationError, match="no driver"):
        fail()
    assert not out.exists()


def test_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".new-killed").mkdir()
    with certificate_folder(tmp_path) as new:
        (new / REPORT).write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]


# -- verify and diff


def test_certificate_is_verified(certificate: Path) -> None:
    done = drahealth("verify", certificate / REPORT, certificate / EVIDENCE)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_edited_report_is_not_verified(certificate: Path) -> None:
    path = certificate / REPORT
    path.write_text(path.read_text().replace('"verdict": "PASS"', '"verdict": "STATIC"', 1))
    done = drahealth("verify", path, certificate / EVIDENCE)
    assert (done.returncode, done.stdout.count(": the report has STATIC, the evidence gives PASS")) == (1, 1), (
        done.stdout
    )


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.replace(b'"code":"OK"', b'"code":"ok"', 1),
        lambda data: data[: len(data) // 2],
        lambda data: data + b"{}\n",
        lambda data: b"\n".join(data.split(b"\n")[:-2]) + b"\n",
    ],
)
def test_edited_evidence_is_not_verified(certificate: Path, edit: Callable[[bytes], bytes]) -> None:
    path = certificate / EVIDENCE
    path.write_bytes(edit(path.read_bytes()))
    done = drahealth("verify", certificate / REPORT, path)
    assert (done.returncode, "not verified" in done.stdout) == (1, True), done.stdout


def test_evidence_of_another_run_is_not_verified(certificate: Path, tmp_path: Path) -> None:
    written(tmp_path / "other", core_run(leave_sockets))
    assert drahealth("verify", certificate / REPORT, tmp_path / "other" / EVIDENCE).returncode == 1


def test_differences_of_two_reports_are_printed(certificate: Path, tmp_path: Path) -> None:
    written(tmp_path / "other", core_run(leave_sockets))
    done = drahealth("diff", certificate / REPORT, tmp_path / "other" / REPORT)
    assert (done.returncode, done.stdout) == (1, "PLUGIN-18: PASS -> FAIL\n")
    assert drahealth("diff", certificate / REPORT, certificate / REPORT).returncode == 0


def test_reports_are_compared_by_the_directories_of_their_certificates(certificate: Path, tmp_path: Path) -> None:
    written(tmp_path / "other", core_run(leave_sockets))
    done = drahealth("diff", certificate, tmp_path / "other")
    assert (done.returncode, done.stdout) == (1, "PLUGIN-18: PASS -> FAIL\n")
    refused = drahealth("diff", certificate, tmp_path)
    assert (refused.returncode, f"cannot read {tmp_path / REPORT}" in refused.stderr) == (2, True)


def test_report_of_another_ledger_is_not_verified_in_full(certificate: Path) -> None:
    path = certificate / REPORT
    report = json.loads(path.read_text())
    report["certificate"]["ledger_sha256"] = "ab" * 32
    path.write_text(json.dumps(report))
    assert drahealth("verify", path, certificate / EVIDENCE).returncode == 4
    report["requirements"][0]["verdict"] = "STATIC"
    path.write_text(json.dumps(report))
    assert drahealth("verify", path, certificate / EVIDENCE).returncode == 1


def test_evidence_is_kept_if_drahealth_fails_to_report(profile: Path) -> None:
    program = f"import drahealth.suites.commands.certify_run as program\nprogram.page = lambda *_: 1 / 0\n{COMMAND}"
    done = command_process.run(program, "certify", str(profile), "--deadline=2")
    evidence = profile.parent / "certificate" / EVIDENCE
    assert (done.returncode, [path.name for path in evidence.parent.iterdir()]) == (3, [EVIDENCE]), done.stderr
    assert read_evidence(evidence).complete


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("moment", ["read_report", "run_with_progress", "page", "show"])
def test_interrupted_certification_exits_with_3_and_keeps_all_files(
    profile: Path, certificate: Path, moment: str, name: str
) -> None:
    before = {path.name: path.read_bytes() for path in certificate.iterdir()}
    program = (
        f"import os, signal\nimport drahealth.suites.commands.certify_run as program\nbefore = program.{moment}\n"
        f"program.{moment} = lambda *words: (os.kill(os.getpid(), signal.{name}), before(*words))[1]\n{COMMAND}"
    )
    options = ["--deadline=1", "--overwrite", f"--baseline={certificate / REPORT}"]
    done = command_process.run(program, "certify", str(profile), *options)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, "drahealth: interrupted")
    left = {path.name: path.read_bytes() for path in certificate.iterdir()}
    assert (left == before) == (moment != "show")
    assert left.keys() == (set(FILES) if moment == "show" else before.keys())


def test_interrupted_replacement_has_the_files_of_one_run(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_text("old")

    def replace() -> None:
        with certificate_folder(tmp_path, overwrite=True) as new:
            for name in (EVIDENCE, REPORT):
                (new / name).write_text("new")
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        replace()
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}


def test_signal_waits_for_the_replacement_of_all_files() -> None:
    moved = []

    def replace() -> None:
        with signals_held():
            for name in FILES:
                signal.raise_signal(signal.SIGINT)
                moved.append(name)

    with pytest.raises(KeyboardInterrupt):
        replace()
    assert moved == list(FILES)


def test_terminated_certification_is_incomplete_and_leaves_nothing(profile: Path) -> None:
    out = profile.parent / "certificate"
    command = [sys.executable, "-c", COMMAND, "certify", str(profile)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().split()[2:4] == ["level", "core:"]
        process.stderr.readline()  # the first experiment has begun
        process.terminate()
        process.communicate()
    assert process.returncode == 4
    assert {path.name for path in out.iterdir()} == set(FILES)
