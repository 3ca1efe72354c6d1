"""`drahealth check` and `drahealth certify` on the sample device plugin of Kubernetes.

It always uses /var/lib/kubelet/device-plugins and /var/run/cdi, so each of its processes has a sandbox.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DRAHEALTH = Path(sys.executable).with_name("drahealth")
PROFILE = """\
format = "driver-profile/v1"
[driver]
kind = "device-plugin"
command = ["{command}"]
working-directory = "/"  # the private /tmp hides those below /tmp
environment = {{ CDI_ENABLED = "1" }}
[sandbox]
private = ["/tmp"]  # it creates a file for each allocated device there
"""

PASSES = ("DEVPLUGIN-28", "DEVPLUGIN-29", "DEVPLUGIN-32", "DEVPLUGIN-35")
"""CDI devices, and Pods on the reference and on a real kubelet."""


def test_sample_device_plugin_is_certified(tmp_path: Path) -> None:
    profile = tmp_path / "sample.toml"
    profile.write_text(PROFILE.format(command=os.environ["SAMPLE_DEVICE_PLUGIN"]))
    done = subprocess.run(
        [DRAHEALTH, "certify", "--level", "full", profile], capture_output=True, text=True, check=False
    )
    report: dict[str, Any] = json.loads((tmp_path / "certificate" / "report.json").read_text())
    verdicts = {one["id"]: one["verdict"] for one in report["requirements"]}
    # It does not notice that its socket was removed, unless kubelet.sock is created, too (README.md)
    assert (done.returncode, _of(verdicts, "FAIL")) == (0, {"DEVPLUGIN-20"}), done.stdout
    assert not _of(verdicts, "NOT_TESTED", "ERROR"), done.stdout
    assert {verdicts[name] for name in PASSES} == {"PASS"}, done.stdout


def _of(verdicts: dict[str, str], *wanted: str) -> set[str]:
    return {name for name, verdict in verdicts.items() if verdict in wanted}
