"""The starting files of `drahealth init`: each one loads, runs and has comments."""

from pathlib import Path

import pytest
import yaml

from drahealth.fakes import FakeDriver, load_inventory
from drahealth.suites import ReferenceNode
from drahealth.suites.commands.init import STARTERS, Starter
from drahealth.suites.unit.command_process import COMMAND, run


def written(kind: str, folder: Path) -> Path:
    path = folder / Starter.of(kind).file
    Starter.of(kind).write(path)
    return path


def test_init_writes_the_timeline_and_play_passes_it(tmp_path: Path) -> None:
    wrote = run(COMMAND, "init", "timeline", folder=tmp_path)
    assert wrote.stdout == "wrote gpu.timeline.yaml; next: drahealth play gpu.timeline.yaml\n"
    assert run(COMMAND, "play", "gpu.timeline.yaml", folder=tmp_path).returncode == 0


async def test_the_pod_runs_with_a_device_of_the_inventory(tmp_path: Path) -> None:
    claim, pod = yaml.safe_load_all(written("pod", tmp_path).read_text())
    inventory = load_inventory(written("inventory", tmp_path))
    async with ReferenceNode() as node, FakeDriver.for_node(node, inventory) as driver:
        await node.create({"kind": "DeviceClass", "metadata": {"name": driver.options.name}, "spec": {}})
        await node.create(claim)
        running = await node.run_pod(pod)
        await running.wait_for_health("gpu-0", "Healthy")


@pytest.mark.parametrize("kind", STARTERS)
def test_a_starter_has_comments_and_its_command(kind: str) -> None:
    comments = [line for line in Starter.of(kind).text().splitlines() if line.lstrip().startswith("#")]
    assert len(comments) >= 5
    assert any(f"drahealth {Starter.of(kind).used_by}" in line for line in comments[:3])


def test_an_existing_file_stays(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("mine")
    assert run(COMMAND, "init", "pod", folder=tmp_path).returncode == 2
    assert (tmp_path / "pod.yaml").read_text() == "mine"


def test_a_starter_can_go_to_standard_output(tmp_path: Path) -> None:
    done = run(COMMAND, "init", "pod", "-", folder=tmp_path)
    assert (done.stdout, list(tmp_path.iterdir())) == (Starter.of("pod").text(), [])


def test_an_unknown_kind_is_an_error_with_a_hint(tmp_path: Path) -> None:
    done = run(COMMAND, "init", "timelin", folder=tmp_path)
    assert (done.returncode, "did you mean timeline" in done.stderr) == (2, True)
