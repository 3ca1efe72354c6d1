"""`drahealth check` and `judge` as processes: a wrong driver never passes, and no process is left."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from drahealth.suites.driver_checks.evidence import EvidenceWriter, read_evidence
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND, Done
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.html_parts import Parts

LEAVES_A_CHILD = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
FLOODS = "while True: print('x' * 10000)"
TEN_SOCKETS = """
import socket, sys, time
kept = [socket.socket(socket.AF_UNIX) for _ in range(10)]
for number, one in enumerate(kept):
    one.bind("%s/%d.sock" % (sys.argv[1], number))
    one.listen()
time.sleep(600)
"""


def drahealth(*arguments: str, folder: Path | None = None) -> Done:
    return command_process.run(COMMAND, *arguments, folder=folder)


def environments() -> list[bytes]:
    """The environments of all processes that can be read."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "code", ["raise SystemExit(1)", "import time; time.sleep(600)", LEAVES_A_CHILD, FLOODS, TEN_SOCKETS]
)
def test_program_without_a_driver_never_conforms_and_leaves_no_process(tmp_path: Path, code: str) -> None:
    report, mark = tmp_path / "report.json", f"mark-{os.getpid()}-{tmp_path.name}"
    words = [sys.executable, "-c", code, "{registry_dir}"]
    done = drahealth("check", "--deadline=3", f"--env=MARK={mark}", f"--report={report}", "--", *words)
    found = json.loads(report.read_text())
    assert (done.returncode, found["verdict"]) in [(1, "fails"), (4, "incomplete")], done.stderr
    assert [one for one in environments() if mark.encode() in one] == []


WRITES_ITS_FOLDER = """
import os, sys, time
draft = f"{sys.argv[1]}.{os.getpid()}"  # several processes of the driver write: never an empty file
with open(draft, "w") as file:
    file.write(sys.argv[2])
os.replace(draft, sys.argv[1])
time.sleep(600)
"""


def test_killed_check_leaves_no_folder_and_no_process(tmp_path: Path) -> None:
    written, mark = tmp_path / "folder", f"mark-{os.getpid()}-{tmp_path.name}"
    driver = [sys.executable, "-c", WRITES_ITS_FOLDER, str(written), "{kubelet_dir}"]
    words = [sys.executable, "-m", "drahealth", "check", f"--env=MARK={mark}", "--", *driver]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as check:
        try:
            until(written.exists)
        finally:
            check.kill()
    folder = Path(written.read_text())
    until(lambda: not folder.exists() and not folder.parent.exists())
    until(lambda: not any(mark.encode() in one for one in environments()))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + command_process.PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_reason_of_a_driver_that_hangs_has_the_last_line_of_its_output(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    script = "echo waiting for /dev/nvidiactl; exec sleep 600"
    drahealth("check", "--deadline=5", "--requirement=PLUGIN-02", f"--report={report}", "--", "sh", "-c", script)
    (found,) = json.loads(report.read_text())["requirements"]
    assert [one["seen"] for one in found["findings"] if "waiting for /dev/nvidiactl" in one["seen"]] != []


def test_waivers_that_are_removed_during_the_run_count(tmp_path: Path) -> None:
    waivers, report = tmp_path / "waivers.toml", tmp_path / "report.json"
    waivers.write_text(
        '[[waiver]]\nid = "PLUGIN-02"\nreason = "known"\nlink = "https://example.com/7"\n'
        'owner = "gpu-team"\nuntil = 2020-01-31\n'
    )
    options = ("--requirement=PLUGIN-02", f"--waivers={waivers}", f"--report={report}")
    done = drahealth("check", *options, "--", "rm", str(waivers))
    assert (done.returncode, waivers.exists(), report.exists()) == (1, False, True), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "--", "/no/such/driver"],
        ["check", "/no/such/reg.sock"],
        ["check", "--deadline=nan", "--", "true"],
        ["check", "--requirement=PLUGIN-00", "--", "true"],
        ["check", "--requirement=PLUGIN-00", "--plan", "--", "true"],
        ["check", "--report=/no/such/folder/report.json", "--", "true"],
        ["check", "--html=/no/such/folder/report.html", "--", "true"],
        ["check", "--evidence=/no/such/folder/evidence", "--", "true"],
        ["check", "--waivers=/no/such/file", "--", "true"],
        ["judge", "/no/such/file"],
        ["judge", "/dev/null"],
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(arguments: list[str]) -> None:
    done = drahealth(*arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_socket_that_is_no_plugin_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "reg.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        done = drahealth("check", "--deadline=3", str(path))
    assert done.returncode == 4, done.stderr


@pytest.mark.parametrize("folder", ["/", "/root"])
def test_check_works_in_a_top_folder_that_is_also_home(
    folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", folder)
    evidence = tmp_path / "evidence"
    done = drahealth(
        "check", "--requirement=PLUGIN-01", f"--evidence={evidence}", "--", "/bin/sh", "-c", "exit 1", folder=Path("/")
    )
    assert (done.returncode, read_evidence(evidence).complete) == (4, True), done.stderr


def test_secrets_of_the_command_line_are_not_shown(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    code = "import os, sys; print(sys.argv, open(os.environ['KUBECONFIG']).read().replace(chr(10), ' ')); sys.exit(1)"
    words = [sys.executable, "-c", code, "--token=s3cr3t-1", "--api-key", "s3cr3t-2"]
    done = drahealth(
        "check", "--requirement=PLUGIN-01", f"--evidence={evidence}", "--env=DB_PASS=s3cr3t-3", "--", *words
    )
    assert done.returncode == 4, done.stderr
    assert "s3cr3t" not in evidence.read_text() + done.stderr


def test_unexpected_exception_exits_with_3(evidence: Path) -> None:
    program = (
        f"import drahealth.suites.commands.check_run as program\nprogram.read_evidence = lambda path: 1 / 0\n{COMMAND}"
    )
    done = command_process.run(program, "judge", str(evidence))
    assert done.returncode == 3, done.stderr


def test_plan_starts_nothing() -> None:
    done = drahealth("check", "--plan", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Evidence of a healthy driver."""
    path = tmp_path / "evidence.jsonl"
    run = healthy_run()
    with closing(EvidenceWriter(run.header, path)) as writer:
        for record in run.records:
            writer.add(record.at, record.experiment, record.what)
        writer.finish()
    return path


def test_evidence_is_judged_again(evidence: Path, tmp_path: Path) -> None:
    done = drahealth("judge", str(evidence), f"--junitxml={tmp_path / 'junit.xml'}")
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert (done.returncode, suite.get("failures"), suite.get("errors")) == (0, "0", "0"), done.stdout


def test_page_of_judged_evidence_has_its_lanes(evidence: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = drahealth("judge", str(evidence), f"--html={file}")
    parts = Parts(file.read_text())
    assert (done.returncode, [one.text.split()[-1] for one in parts.of("h1")]) == (0, ["conforms"]), done.stderr
    assert len(parts.of("svg", "bar")) > 0


def test_cut_evidence_is_incomplete(evidence: Path, tmp_path: Path) -> None:
    evidence.write_bytes(b"".join(evidence.read_bytes().splitlines(keepends=True)[:-1]))
    done = drahealth("judge", str(evidence), f"--junitxml={tmp_path / 'junit.xml'}")
    assert (done.returncode, ET.parse(tmp_path / "junit.xml").getroot().get("errors")) == (4, "1")


def test_edited_evidence_is_rejected(evidence: Path) -> None:
    evidence.write_bytes(evidence.read_bytes().replace(b'"code":"OK"', b'"code":"ok"', 1))
    assert drahealth("judge", str(evidence)).returncode == 2


def test_partial_judgement_has_the_verdict_partial_run(evidence: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = drahealth("judge", str(evidence), "--requirement=PLUGIN-03", f"--report={report}")
    assert (done.returncode, json.loads(report.read_text())["verdict"]) == (0, "partial run: PLUGIN-03 met")
