"""`drahealth check` on the Go drivers, with both API servers, and `drahealth certify` on one."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).resolve().parent / "filehealth"
DRAHEALTH = Path(sys.executable).with_name("drahealth")
PLACES = (
    *("--node-name", "{node_name}", "--kubeconfig", "{kubeconfig}", "--registrar-dir", "{registry_dir}"),
    *("--plugin-dir", "{driver_dir}", "--cdi-dir", "{cdi_dir}"),
)
TEST_DRIVER = (
    *("--kubeconfig", "{kubeconfig}", "kubelet-plugin", "--node-name", "{node_name}", "--datadir", "{plugins_dir}"),
    *("--plugin-registration-path", "{registry_dir}", "--cdi-dir", "{cdi_dir}"),
)
OTHER_APIS = {"HEALTH-03", "HEALTH-17"}
"""Requirements of health APIs that the helper does not serve."""
TAINTS = {"TAINT-03", "TAINT-09"}
"""Requirements of a driver that publishes taints, at level check."""


class Checked(NamedTuple):
    """The result of a check."""

    exit_code: int
    verdicts: dict[str, str]
    """By requirement."""
    output: str

    def of(self, *verdicts: str) -> set[str]:
        """The requirements with these verdicts."""
        return {name for name, verdict in self.verdicts.items() if verdict in verdicts}


def check(folder: Path, options: Sequence[str], driver: Sequence[str]) -> Checked:
    """Checks a driver. Meanwhile the health in `folder`/health changes every half second."""
    report, health = folder / "report.json", folder / "health"
    command = [str(DRAHEALTH), "check", "--report", str(report), *options, "--", *driver]
    with (folder / "output").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        for change in itertools.count():
            health.write_text(f"gpu-1 Unhealthy XID {change}\n" if change % 2 else "")
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
                break
    found = json.loads(report.read_text())["requirements"] if report.exists() else []
    verdicts = {one["id"]: one["verdict"] for one in found}
    return Checked(process.returncode, verdicts, (folder / "output").read_text())


@pytest.mark.parametrize("api_server", ["memory", "real"])
def test_driver_on_the_helper_conforms(api_server: str, tmp_path: Path) -> None:
    driver = (os.environ["FILEHEALTH"], *PLACES, "--health-file", str(tmp_path / "health"))
    done = check(tmp_path, ["--api-server", api_server], driver)
    assert (done.exit_code, set(done.verdicts) - done.of("PASS")) == (0, OTHER_APIS | TAINTS), done.output


@pytest.mark.parametrize("level", ["core", "full"])
def test_driver_with_fixed_paths_runs_pods_in_a_sandbox(level: str, tmp_path: Path) -> None:
    profile = tmp_path / "filehealth.toml"
    profile.write_text(f'format = "driver-profile/v1"\n[driver]\ncommand = ["{os.environ["FILEHEALTH"]}"]\n[sandbox]\n')
    only = {"core": ("POD-01", "POD-03"), "full": ("POD-11", "POD-13")}[level]  # on the reference, on a real kubelet
    words = ["certify", "--level", level, *(f"--requirement={name}" for name in only), str(profile)]
    done = subprocess.run([DRAHEALTH, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("service", "applicable"), [("off", set()), ("unimplemented", {"HEALTH-01"})])
def test_driver_without_health_conforms(service: str, applicable: set[str], tmp_path: Path) -> None:
    done = check(tmp_path, [], (os.environ["FILEHEALTH"], *PLACES, "--health-service", service))
    health = {name for name in done.verdicts if name.startswith("HEALTH-")}
    assert (done.exit_code, done.of("NOT_APPLICABLE")) == (0, health - applicable | TAINTS), done.output


@pytest.mark.parametrize("api_server", ["memory", "real"])
def test_test_driver_of_kubernetes_reports_no_devices(api_server: str, tmp_path: Path) -> None:
    options = ["--api-server", api_server, "--driver-name", "test-driver.cdi.k8s.io"]
    done = check(tmp_path, options, (os.environ["DRA_TEST_DRIVER"], *TEST_DRIVER))
    # It has no device in its reports, and prepares a device for two claims (README.md)
    assert (done.exit_code, done.of("FAIL", "ERROR")) == (1, {"HEALTH-02", "PLUGIN-19"}), done.output


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_example_of_go_test_passes() -> None:
    environment = {
        **os.environ,
        "PATH": f"{DRAHEALTH.parent}:{os.environ['PATH']}",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -buildvcs=false",
    }
    command = ["go", "test", "-count=1", "-v", "-run", "TestConformance", "."]
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "--- PASS: TestConformance" in done.stdout) == (0, True), done.stdout


def test_written_driver_profile_certifies_the_driver_on_the_helper(tmp_path: Path) -> None:
    profile, report = tmp_path / "filehealth.toml", tmp_path / "certificate" / "report.json"
    subprocess.run(
        [DRAHEALTH, "certify", "--init", "--out", profile, "--", os.environ["FILEHEALTH"], *PLACES], check=True
    )
    done = subprocess.run([DRAHEALTH, "certify", profile], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    verified = subprocess.run([DRAHEALTH, "verify", report, report.with_name("evidence.jsonl")])
    assert (json.loads(report.read_text())["certificate"]["certified"], verified.returncode) == (True, 0)
