"""State files, also of other releases, and recorded processes that have ended."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from drahealth.fakes.program.errors import CommandError
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kind import ownership
from drahealth.suites.targets.progress import silent
from drahealth.suites.up_command.node_commands import down, next_lines, status_of
from drahealth.suites.up_command.node_folder import (
    FORMAT,
    NodeFolder,
    NodeState,
    ProcessIdentity,
    folders,
    further_folders,
    read_state,
    write_state,
)
from drahealth.suites.up_command.options import UpOptions, check_files, gates_of, planned
from drahealth.suites.up_command.starting import prepare

OWN = ProcessIdentity.own()
STATE = NodeState(DEFAULT_VERSION, {"Some": True}, "ready", process=OWN)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (json.dumps({"format": FORMAT + 1, "drahealth": "9.0"}), "newer drahealth .9.0"),
        ("{", "cannot be read"),
        (json.dumps({"format": FORMAT}), "damaged"),
        ("[]", "damaged"),
    ],
)
def test_unreadable_or_newer_state_file_is_rejected(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ConfigurationError, match=hint):
        read_state(tmp_path)


@pytest.mark.parametrize(
    "other", [replace(OWN, boot="an earlier boot"), replace(OWN, started=OWN.started + 1), replace(OWN, pid=2**22 + 1)]
)
def test_reused_process_id_is_not_the_recorded_process(other: ProcessIdentity) -> None:
    assert (OWN.runs(), other.runs()) == (True, False)


@pytest.fixture
def folder() -> Iterator[NodeFolder]:
    """The folder of a node, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dh-n", dir="/tmp") as base:
        made = NodeFolder("a", Path(base))
        made.make()
        yield made


def test_a_node_of_an_earlier_boot_is_shown_as_killed(folder: NodeFolder) -> None:
    write_state(folder.path, replace(STATE, process=replace(OWN, boot="an earlier boot")))
    assert status_of(folder).phase == "killed"


def test_a_folder_without_a_lock_is_no_node(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAHEALTH_STATE", str(folder.path.parent))
    before = folders()
    lock = folder.lock()
    assert (before, [each.name for each in folders()], lock is not None) == ([], ["a"], True)
    os.close(lock or 0)


def test_name_of_the_kind_records_is_rejected_for_a_node() -> None:
    with pytest.raises(ConfigurationError):
        NodeFolder(ownership.default_base().name)


def test_only_one_process_has_the_lock(folder: NodeFolder) -> None:
    lock = folder.lock()
    assert lock is not None
    assert folder.lock() is None
    os.close(lock)
    again = folder.lock()
    assert again is not None
    os.close(again)


def test_missing_options_default_to_those_of_the_earlier_start() -> None:
    assert planned(UpOptions(), STATE) == NodeState(DEFAULT_VERSION, {"Some": True})
    assert planned(UpOptions(gates={}), STATE) == NodeState(DEFAULT_VERSION)
    assert planned(UpOptions(reference=True), None) == NodeState("")


@pytest.mark.parametrize("given", [UpOptions("1.36.3"), UpOptions(reference=True)])
def test_the_data_of_another_release_are_rejected(given: UpOptions) -> None:
    with pytest.raises(ConfigurationError, match="--fresh"):
        planned(given, STATE)


@pytest.mark.parametrize(("given", "earlier", "nodes"), [(None, None, 1), (3, None, 3), (None, 2, 2), (2, 2, 2)])
def test_the_number_of_nodes_is_that_of_the_option_or_of_the_data(
    given: int | None, earlier: int | None, nodes: int
) -> None:
    data = replace(STATE, nodes=earlier) if earlier else None
    assert planned(UpOptions(nodes=given), data).nodes == nodes


@pytest.mark.parametrize(
    ("given", "earlier", "hint"),
    [
        (UpOptions(nodes=0), None, "between 1 and 20, got 0; .* memory"),
        (UpOptions(nodes=21), None, "between 1 and 20, got 21"),
        (UpOptions(nodes=2, reference=True), None, "exclude each other"),
        (UpOptions(nodes=3), replace(STATE, nodes=2), "the data of 2 nodes, not of 3; pass --fresh"),
    ],
)
def test_a_wrong_number_of_nodes_is_rejected(given: UpOptions, earlier: NodeState | None, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        planned(given, earlier)


def test_the_other_nodes_have_numbers_from_two(tmp_path: Path) -> None:
    assert [each.path for each in further_folders(NodeFolder("a", tmp_path), 3)] == [tmp_path / "a-2", tmp_path / "a-3"]


def test_a_name_that_gets_too_long_is_rejected_with_the_longest_one(tmp_path: Path) -> None:
    first = NodeFolder("a" * 18, tmp_path)
    assert len(further_folders(first, 9)) == 8
    with pytest.raises(ConfigurationError, match="at most 17 characters"):
        further_folders(first, 10)


def test_down_of_the_first_node_removes_the_others(folder: NodeFolder) -> None:
    joined = further_folders(folder, 2)[0]
    state = replace(STATE, process=None, nodes=2)
    for each, written in ((folder, state), (joined, state.of_joined(folder))):
        each.make()
        os.close(each.lock() or 0)
        write_state(each.path, written)
    assert (down(folder, keep=False), list(folder.path.parent.iterdir())) == (["a", "a-2"], [])


@pytest.mark.parametrize(
    "devices", ["devices: [{name: gpu, pool: a}]", "drivers: [{name: a.b, pool: a, devices: [{name: gpu}]}]"]
)
def test_a_pool_that_several_nodes_would_publish_is_rejected(tmp_path: Path, devices: str) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(f"format: inventory/v1\n{devices}\n")
    check_files(UpOptions(inventory=file), 1)
    with pytest.raises(CommandError, match=r"gpus.yaml: line 2: .*pool 'a' would be on each node"):
        check_files(UpOptions(inventory=file), 2)


def test_another_node_of_a_control_plane_does_not_start_alone(folder: NodeFolder) -> None:
    write_state(folder.path, replace(STATE, first="b"))
    with pytest.raises(ConfigurationError, match="one of the nodes of b; `drahealth up --name b` starts it"):
        prepare(folder, UpOptions(), fresh=True, progress=silent)


def test_nodes_that_do_not_fit_into_memory_are_rejected(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=200_000_000))
    with pytest.raises(HarnessError, match="3 nodes need 240 MB of memory beside the first node, and 200 MB are free"):
        prepare(folder, UpOptions(nodes=3), fresh=False, progress=silent)
    assert list(folder.path.parent.iterdir()) == []


def test_feature_gates_are_read() -> None:
    assert gates_of("A=true,B=False") == {"A": True, "B": False}


def test_the_next_commands_name_the_node_and_the_driver(tmp_path: Path) -> None:
    lines = next_lines(NodeFolder("a", tmp_path), [["x.example.com", "gpu-0"], ["y.example.com", "nic"]])
    assert lines[2:] == ["drahealth ctl --name a --driver x.example.com inject xid/48 gpu-0", "drahealth down --name a"]


def test_a_folder_with_a_long_path_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="DRAHEALTH_STATE"):
        NodeFolder("a", tmp_path / ("x" * 60)).make()


@pytest.mark.parametrize(
    ("given", "earlier", "words"),
    [
        (UpOptions(fleet=0), None, "--fleet must be between 1 and 10000, got 0"),
        (UpOptions(fleet=10001), None, "--fleet must be between 1 and 10000, got 10001"),
        (UpOptions(rack=4), None, "--nodes-per-rack needs --fleet"),
        (UpOptions(metrics_port=0), None, "--metrics-port needs --fleet"),
        (UpOptions(fleet=3, metrics_port=70000), None, "--metrics-port must be between 0 and 65535, got 70000"),
        (UpOptions(fleet=3, reference=True), None, "--reference and --fleet exclude each other"),
        (
            UpOptions(fleet=3),
            NodeState("1.37.2", fleet=4),
            "a fleet of 4 nodes, 16 in a rack",
        ),
    ],
)
def test_wrong_options_of_a_fleet_are_rejected(given: UpOptions, earlier: NodeState | None, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        planned(given, earlier)


def test_a_fleet_stays_with_the_data_of_its_start() -> None:
    state = planned(UpOptions(), NodeState("1.37.2", fleet=4, rack=2))
    assert (state.fleet, state.rack) == (4, 2)


def test_a_fleet_that_does_not_fit_into_memory_is_rejected(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000_000))
    with pytest.raises(HarnessError, match="1000 nodes of the fleet need 1000 MB"):
        prepare(folder, UpOptions(fleet=1000), fresh=False, progress=silent)
    assert list(folder.path.parent.iterdir()) == []


def test_an_inventory_with_device_plugins_is_rejected_for_a_fleet(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(
        "format: inventory/v1\ndevices: [{name: gpu}]\nplugins: [{resource: example.com/tpu, devices: [{name: tpu}]}]\n"
    )
    with pytest.raises(CommandError, match="a fleet has no device plugins"):
        check_files(UpOptions(inventory=path, fleet=2), 1, 2)
