"""`drahealth certify` on the Go driver, with its driver profile."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROFILE = Path(__file__).resolve().parent / "filehealth" / "filehealth.toml"
DRAHEALTH = Path(sys.executable).with_name("drahealth")


def test_driver_on_the_helper_is_certified_at_level_full(tmp_path: Path) -> None:
    shutil.copy(os.environ["FILEHEALTH"], tmp_path / "filehealth")
    shutil.copy(PROFILE, tmp_path)
    command = [DRAHEALTH, "certify", tmp_path / PROFILE.name, "--level", "full"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "certificate" / "report.json").read_text())
    faults = [one for one in report["requirements"] if one["family"] == "faults"]
    assert (done.returncode, "certified full, filehealth.example.com, health v1" in done.stdout) == (0, True), (
        done.stdout
    )
    assert {finding["grade"] for one in faults for finding in one["findings"] if finding["verdict"] == "PASS"} == {
        "forced"
    }
    assert not [one["id"] for one in faults if one["verdict"] not in ("PASS", "STATIC", "NOT_APPLICABLE")]
