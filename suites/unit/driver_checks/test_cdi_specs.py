"""CDI specs: which a container runtime accepts."""

import json
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.inventory import devices
from drahealth.proto.events import CdiSpec
from drahealth.suites.driver_checks.cdi_specs import read_specs

SPEC: dict[str, Any] = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/gpu",
    "devices": [{"name": "gpu-0", "containerEdits": {"env": ["GPU=0"]}}],
}
FULL = {
    "env": ["A=", "B=c=d"],
    "deviceNodes": [
        {"path": "/dev/gpu0", "hostPath": "/dev/g", "type": "c", "major": 1, "permissions": "rw", "uid": 0}
    ],
    "mounts": [{"hostPath": "/lib/a", "containerPath": "/a", "options": ["ro", "bind"], "type": ""}],
    "hooks": [{"hookName": "createContainer", "path": "/bin/hook", "args": ["hook"], "timeout": 5}],
    "additionalGids": [44],
    "intelRdt": {"closID": "a"},
    "netDevices": [{"hostInterfaceName": "eth1", "name": "eth0"}],
}


def read(folder: Path, text: str, name: str = "spec.json") -> list[CdiSpec]:
    (folder / name).write_text(text)
    return list(read_specs(folder))


def edited(**edits: Any) -> dict[str, Any]:
    return {**SPEC, "devices": [{"name": "gpu-0", "containerEdits": edits}]}


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        edited(**FULL),
        {**SPEC, "cdiVersion": "1.1.0", "annotations": {"example.com/a": "b"}, "containerEdits": FULL},
        {**SPEC, "kind": "example.com/gpu.v2"},
    ],
)
def test_valid_spec_lists_its_devices(tmp_path: Path, spec: Any) -> None:
    assert read(tmp_path, json.dumps(spec)) == [CdiSpec("spec.json", "", (f"{spec['kind']}=gpu-0",))]


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ([], "Input should be"),
        ({**SPEC, "cdiVersion": "2"}, "cdiVersion"),
        ({**SPEC, "kind": "gpu"}, "kind"),
        ({"kind": "example.com/gpu", "devices": []}, "cdiVersion"),
        ({**SPEC, "devices": {}}, "devices"),
        ({**SPEC, "devices": 2 * SPEC["devices"]}, "Value error, duplicate device name gpu-0"),
        ({**SPEC, "devices": [{"name": "-gpu", "containerEdits": {"env": ["A=1"]}}]}, "devices.0.name"),
        ({**SPEC, "devices": [{"name": "gpu-0"}]}, "devices.0.containerEdits"),
        ({**SPEC, "version": "1"}, "version"),
        (edited(), "devices.0"),
        (edited(env=[]), "devices.0"),
        (edited(env=["A"]), "devices.0.containerEdits.env.0"),
        (edited(env=[1]), "devices.0.containerEdits.env.0"),
        (edited(mounts=[{"hostPath": "/a"}]), "devices.0.containerEdits.mounts.0.containerPath"),
        (edited(hooks=[{"hookName": "later", "path": "/a"}]), "devices.0.containerEdits.hooks.0.hookName"),
        (edited(deviceNodes=[{"path": ""}]), "devices.0.containerEdits.deviceNodes.0.path"),
        (
            edited(deviceNodes=[{"path": "/a", "permissions": "x"}]),
            "devices.0.containerEdits.deviceNodes.0.permissions",
        ),
    ],
)
def test_invalid_spec_has_a_problem_and_no_devices(tmp_path: Path, spec: Any, where: str) -> None:
    (found,) = read(tmp_path, json.dumps(spec))
    assert found.problem.startswith(where)
    assert found.devices == ()


@pytest.mark.parametrize("text", ["", "\0", "{", "a: [", "%", "&a [*a]", "!!python/object:os.system {}", "[" * 1000])
def test_garbage(tmp_path: Path, text: str) -> None:
    (found,) = read(tmp_path, text, "spec.yaml")
    assert (found.problem != "", found.devices) == (True, ())


def test_yaml_spec_is_read(tmp_path: Path) -> None:
    text = "cdiVersion: 0.6.0\nkind: example.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n    env: [A=1]\n"
    assert read(tmp_path, text, "spec.yaml") == [CdiSpec("spec.yaml", "", ("example.com/gpu=0",))]


def test_other_files_are_ignored(tmp_path: Path) -> None:
    assert read(tmp_path, "garbage", "spec.json.tmp") == []


def test_missing_directory_has_no_specs(tmp_path: Path) -> None:
    assert read_specs(tmp_path / "cdi") == ()


def test_unreadable_file_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "spec.json").symlink_to("nowhere")
    assert [spec.problem for spec in read_specs(tmp_path)] == ["cannot be read: No such file or directory"]


def test_device_in_two_files_is_a_problem_of_both(tmp_path: Path) -> None:
    read(tmp_path, json.dumps(SPEC), "a.json")
    assert {spec.problem for spec in read(tmp_path, json.dumps(SPEC), "b.json")} == {
        "device example.com/gpu=gpu-0 is also defined in another file"
    }


def test_specs_of_the_fake_driver_are_valid(tmp_path: Path) -> None:
    devices.write(tmp_path, "example.com/gpu", "claim", "uid", {"gpu-0": None})
    assert [(spec.problem, spec.devices) for spec in read_specs(tmp_path)] == [("", ("example.com/gpu=gpu-0",))]


def test_device_of_two_directories_is_no_conflict(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
        (folder / "gpu.json").write_text(json.dumps(SPEC))
    assert [spec.problem for spec in read_specs(*folders)] == ["", ""]
