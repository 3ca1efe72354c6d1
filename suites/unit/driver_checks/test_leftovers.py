"""Objects of killed runs in a cluster, and their removal."""

import fcntl
from pathlib import Path

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NODES, SLICES
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.driver_checks.subject.driver_pod import (
    RUN_LABEL,
    LabelledClient,
    is_left,
    remove_labelled,
    run_name,
)
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.targets.api_servers.serving import api_server
from drahealth.suites.unit.driver_checks.runs import run_with
from drahealth.suites.unit.driver_checks.test_laboratory import NoRecords


@pytest.mark.parametrize(
    ("make", "expected"),
    [("nothing", True), ("unlocked", True), ("locked", False), ("unreadable", False)],
)
def test_objects_are_left_if_the_run_directory_is_not_locked(tmp_path: Path, make: str, expected: bool) -> None:
    folder = tmp_path / "dh-1"
    label = run_name(folder)
    if make != "nothing":
        folder.mkdir()
    if make == "unreadable":
        (folder / "lock").mkdir()
    if make in ("unlocked", "locked"):
        (folder / "lock").touch()
    with (folder / "lock" if make == "locked" else Path(__file__)).open() as lock:
        if make == "locked":
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_left(label, tmp_path) == expected


@pytest.mark.parametrize("label", ["", "other.dh-1", "{}.", "{}.../x", "{}"])
def test_objects_of_other_machines_stay(tmp_path: Path, label: str) -> None:
    mine = run_name(tmp_path / "dh-1").partition(".")[0]
    assert not is_left(label.format(mine), tmp_path)


async def test_next_run_removes_objects_of_a_killed_run(tmp_path: Path) -> None:
    async with api_server("memory", tmp_path) as server:
        assert isinstance(server.api, ApiServer)
        client = await LabelledClient.from_kubeconfig(await server.kubeconfig())
        assert isinstance(client, LabelledClient)
        try:
            for folder, name in (("dh-dead", "drahealth-a-main"), ("dh-other", "drahealth-b-main")):
                client.run = run_name(tmp_path / folder)
                await client.create(NODES, {"metadata": {"name": name}})
                spec = {
                    "driver": "gpu.example.com",
                    "nodeName": name,
                    "pool": {"name": name, "resourceSliceCount": 1},
                    "devices": [],
                }
                await server.api.create(SLICES, {"metadata": {"name": name}, "spec": spec})
            await server.api.create(NODES, {"metadata": {"name": "mine"}})
            dead = run_name(tmp_path / "dh-dead")
            removed = await remove_labelled(client, [], lambda label: label == dead)
        finally:
            await client.close()
        assert removed == ["ResourceSlice drahealth-a-main", "Node drahealth-a-main"]
        assert [one["metadata"]["name"] for one in await server.api.list(NODES)] == ["drahealth-b-main", "mine"]
        assert len(await server.api.list(SLICES)) == 1


async def test_cluster_of_the_user_is_cleaned_before_a_run(tmp_path: Path) -> None:
    async with api_server("memory", tmp_path) as server:
        label = run_name(tmp_path / "dh-dead")
        await server.api.create(NODES, {"metadata": {"name": "drahealth-a-main", "labels": {RUN_LABEL: label}}})
        given = run_with({"api-server": {"kubeconfig": await server.kubeconfig()}})
        async with laboratory(given, ["main"], tmp_path / "run", JumpClock(), NoRecords()) as found:
            names = [one["metadata"]["name"] for one in await server.api.list(NODES)]
            assert names == [found["main"].places.node_name]
