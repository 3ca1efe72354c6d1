"""The output and the errors of `drahealth faults` and `drahealth plan`."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from drahealth.fakes.faults.catalogue import CATALOGUES, catalogue, policies
from drahealth.suites.command import app
from drahealth.suites.errors import ConfigurationError

TIMELINE = """
format: fault-timeline/v1
name: off the bus
seed: 7
timeline:
  - {at: 5s, inject: xid/79, device: gpu-0}
  - {after: 20s..40s, recover: reboot, device: gpu-0}
"""


def told(*arguments: str) -> Result:
    """Run the command. Raises its errors."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "40"})


def test_a_fault_is_shown_with_its_health_by_each_policy() -> None:
    lines = [" ".join(line.split()) for line in told("faults", "show", "xid/63").stdout.splitlines()]
    assert lines[0] == "xid/63 (nvidia, memory): a bad row was recorded for remapping"
    assert {"nvidia-plugin Unhealthy", "nvidia-catalogue Healthy", "nvsentinel Healthy"} <= set(lines)


def test_faults_of_every_vendor_are_listed() -> None:
    shown = told("faults", "list").stdout
    assert all(name in shown for name in ("xid/79", "cper/fatal", "memory/critical", "link/polling", "chip/bad"))


@pytest.mark.parametrize("words", [("faults", "list"), ("driver", "serve")])
def test_the_help_names_each_catalogue(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}).stdout
    assert set(CATALOGUES) <= set(re.findall(r"\w+", shown))


def test_without_a_terminal_each_fault_has_its_own_line() -> None:
    lines = [" ".join(line.split()) for line in told("faults", "list", "--catalogue", "nvidia").stdout.splitlines()]
    assert lines[0] == "nvidia"
    assert [line.split()[0] for line in lines[2:-2]] == list(catalogue("nvidia"))
    assert "xid/79 bus the GPU does not answer on PCIe device reboot 3m..25m" in lines


def test_faults_are_listed_as_json() -> None:
    listed = json.loads(told("faults", "list", "--json").stdout)
    assert (list(listed["catalogues"]), listed["policies"]) == (list(CATALOGUES), list(policies()))
    assert listed["catalogues"]["tpu"][0] == {
        **asdict(found := next(iter(catalogue("tpu").values()))),
        "takes": str(found.takes),
    }


def test_a_fault_is_shown_as_json() -> None:
    shown = json.loads(told("faults", "show", "xid/63", "--json").stdout)
    assert [(found["catalogue"], found["id"], found["takes"]) for found in shown["faults"]] == [
        ("nvidia", "xid/63", "5s..60s")
    ]
    assert (shown["policies"]["nvidia-plugin"], shown["policies"]["nvsentinel"]) == ("Unhealthy", "Healthy")


def test_a_difference_is_shown_as_json() -> None:
    differ = json.loads(told("faults", "diff", "nvidia-plugin", "eks", "--json").stdout)
    assert (differ["policies"], differ["compared"], len(differ["differing"])) == (["nvidia-plugin", "eks"], 50, 15)
    assert differ["differing"]["xid/144"]["health"] == {"nvidia-plugin": "Unhealthy", "eks": "Healthy"}


def test_two_policies_differ_by_faults() -> None:
    lines = told("faults", "diff", "nvidia-plugin", "eks").stdout.splitlines()
    assert (lines[0].split()[-2:], lines[-1]) == (["nvidia-plugin", "eks"], "15 of 50 faults have different health")


def test_a_policy_does_not_differ_from_itself() -> None:
    assert told("faults", "diff", "eks", "eks").stdout == "0 of 50 faults have different health\n"


def test_a_plan_is_json_lines_and_deterministic(tmp_path: Path) -> None:
    file = tmp_path / "bus.timeline.yaml"
    file.write_text(TIMELINE)
    lines = told("plan", str(file)).stdout.splitlines()
    assert [json.loads(line).get("at") for line in lines] == [None, 5.0, pytest.approx(35, abs=10)]
    again, other = (told("plan", str(file), "--seed", seed).stdout.splitlines() for seed in ("7", "8"))
    assert again == lines != other


def test_a_plan_uses_the_devices_of_its_inventory(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text("format: inventory/v1\ndevices: [{name: npu}]\n")
    file = tmp_path / "npu.timeline.yaml"
    file.write_text(TIMELINE.replace("gpu-0", "npu").replace("seed: 7", "use: {inventory: devices.yaml}"))
    assert [json.loads(line).get("device") for line in told("plan", str(file)).stdout.splitlines()][1:] == ["npu"] * 2
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml cannot be read"):
        told("plan", str(file), "--inventory", "nowhere.yaml")


def test_the_schema_of_timelines_is_printed() -> None:
    assert json.loads(told("plan", "--schema").stdout)["required"] == ["format", "name", "timeline"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("faults", "list", "--catalogue", "acme"), "unknown catalogue 'acme'; valid: nvidia, amd"),
        (("faults", "show", "xid/78"), "no catalogue has the fault 'xid/78'; did you mean xid/79"),
        (("faults", "show", "xid/78", "--catalogue", "nvidia"), "unknown fault 'xid/78' in the catalogue nvidia; did"),
        (("faults", "diff", "eks", "gke"), "unknown policy 'gke'; "),
        (("plan",), "missing argument FILE; "),
        (("plan", "/nowhere"), "/nowhere cannot be read: No such file or directory"),
    ],
)
def test_unknown_names_give_an_error(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        told(*arguments)
    assert str(refused.value).startswith(words)
