"""`drahealth certify` on the Go driver, with its driver profile."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PROFILE = Path(__file__).resolve().parent / "filehealth" / "filehealth.toml"
DRAHEALTH = Path(sys.executable).with_name("drahealth")
TAINT = 'taint = { key = "filehealth.example.com/unhealthy", effect = "NoSchedule" }'


def certify(folder: Path, profile: str, *options: str) -> tuple[dict[str, Any], str]:
    """The report of a certification at level full, and what the command printed."""
    shutil.copy(os.environ["FILEHEALTH"], folder / "filehealth")
    (folder / PROFILE.name).write_text(profile)
    command = [DRAHEALTH, "certify", folder / PROFILE.name, "--level", "full", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "certificate" / "report.json").read_text()), done.stdout


def test_driver_on_the_helper_is_certified_at_level_full(tmp_path: Path) -> None:
    report, output = certify(tmp_path, PROFILE.read_text())
    faults = [one for one in report["requirements"] if one["family"] == "faults"]
    assert "certified full, filehealth.example.com, health v1" in output
    assert {finding["grade"] for one in faults for finding in one["findings"] if finding["verdict"] == "PASS"} == {
        "forced"
    }
    assert not [one["id"] for one in faults if one["verdict"] not in ("PASS", "STATIC", "NOT_APPLICABLE")]


def test_driver_that_taints_devices_is_certified_on_a_real_api_server(tmp_path: Path) -> None:
    tainting = PROFILE.read_text().replace('"--pod-uid"', '"--taints", "--pod-uid"')
    report, _ = certify(tmp_path, tainting.replace("settle =", f"{TAINT}\nsettle ="), "--api-server", "real")
    taints = {one["id"]: one["verdict"] for one in report["requirements"] if one["id"].startswith("TAINT-")}
    assert set(taints.values()) == {"PASS"}, taints
