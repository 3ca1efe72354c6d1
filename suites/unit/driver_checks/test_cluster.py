"""The user's cluster as the API server of started drivers: a run leaves no objects in it."""

import asyncio
import fcntl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NODES, SLICES, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.proto.events import ExperimentEnded
from drahealth.suites.driver_checks.experiments import Incomplete, Process
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.slice_watch import watched_slices
from drahealth.suites.driver_checks.subject.cluster import cluster
from drahealth.suites.driver_checks.subject.driver_pod import (
    RUN_LABEL,
    LabelledClient,
    is_left,
    remove_labelled,
    run_name,
)
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.api_servers import api_server
from drahealth.suites.unit.answering_server import kubeconfig_of
from drahealth.suites.unit.driver_checks.runs import run_with
from drahealth.suites.unit.driver_checks.test_laboratory import NoRecords
from drahealth.suites.unit.driver_checks.test_objects import CONFIG, DEFINITION, GADGET, GADGETS
from drahealth.suites.unit.manager.rig import until


@asynccontextmanager
async def subjects(
    root: Path, *labels: Process, objects: tuple[Object, ...] = ()
) -> AsyncGenerator[tuple[ApiServer, Mapping[Process, Subject]], None]:
    """A cluster, which is left at the end, and the subjects of a run in it."""
    async with api_server("memory", root) as server:
        assert isinstance(server.api, ApiServer)
        kubeconfig = await server.kubeconfig()
        run = run_with({"api-server": {"kubeconfig": kubeconfig}}, objects=objects)
        async with laboratory(run, labels, root / "run", JumpClock(), NoRecords()) as found:
            yield server.api, found


def slice_of(node: str) -> Object:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": node or "all", "resourceSliceCount": 1},
        "devices": [],
    }
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


async def test_each_process_has_a_node_of_its_own_in_the_cluster(tmp_path: Path) -> None:
    async with subjects(tmp_path, "main", "restarted") as (api, found):
        names = {one.places.node_name for one in found.values()}
        assert (names, len(names)) == ({one["metadata"]["name"] for one in await api.list(NODES)}, 2)
    assert await api.list(NODES) == []


async def test_objects_of_a_run_are_removed_and_others_stay(tmp_path: Path) -> None:
    placed = {**CONFIG, "metadata": {"name": "gpus-{node_name}"}}
    async with api_server("memory", tmp_path) as server:
        assert isinstance(server.api, ApiServer)
        api = server.api
        await api.create(await api.kind_of(CONFIG), {**CONFIG, "metadata": {"name": "gpus", "namespace": "default"}})
        await api.create(SLICES, slice_of("other"))
        given = (CONFIG, placed, DEFINITION, GADGET)
        kubeconfig = await server.kubeconfig()
        run = run_with({"api-server": {"kubeconfig": kubeconfig}}, objects=given)
        async with laboratory(run, ["main"], tmp_path / "run", JumpClock(), NoRecords()) as found:
            await api.create(SLICES, slice_of(found["main"].places.node_name))
            assert len(await api.list(await api.kind_of(CONFIG))) == 2
            assert len(await api.list(GADGETS)) == 1
        left = [one["metadata"]["name"] for one in await api.list(await api.kind_of(CONFIG))]
        assert (left, await api.list(GADGETS)) == (["gpus"], [])
        assert [one["metadata"]["name"] for one in await api.list(SLICES)] == ["other-gpus"]


async def test_process_owns_only_slices_of_its_node(tmp_path: Path) -> None:
    async with subjects(tmp_path, "main") as (_, found):
        mine, driver = slice_of(found["main"].places.node_name), "gpu.example.com"
        nowhere = {"spec": {"driver": driver, "allNodes": True}}
        owned = [found["main"].owns(one, driver) for one in (mine, slice_of("other"), nowhere)]
        assert owned == [True, False, False]


async def test_slices_of_no_node_are_not_judged(tmp_path: Path) -> None:
    async with subjects(tmp_path, "main") as (api, found):
        spec = {**slice_of("")["spec"], "allNodes": True, "nodeName": None, "devices": [{"name": "gpu"}]}
        await api.create(SLICES, {"metadata": {"name": "everywhere"}, "spec": spec})
        lab = Lab(found["main"], lambda _: None, Facts(), run_with())
        async with watched_slices(lab, "gpu.example.com") as watched:
            waiting = asyncio.create_task(watched.complete("gpu.example.com"))
            clock = lab.subject.clock
            assert isinstance(clock, JumpClock)
            await until(lambda: watched._without_node)
            while not waiting.done():
                clock.jump(1)
                await asyncio.sleep(0)
            with pytest.raises(Incomplete, match="without a node name"):
                waiting.result()


@pytest.mark.parametrize("label", ["pod", "pod-broken", "kubelet", "kubelet-broken"])
async def test_pods_have_an_api_server_of_their_own(tmp_path: Path, label: Process) -> None:
    async with subjects(tmp_path, label) as (api, found):
        assert (await api.list(NODES), found[label].shares_api) == ([], False)


async def test_missing_result_about_pods_names_the_other_api_server(tmp_path: Path) -> None:
    command = ("sh", "-c", "exit 3")
    async with api_server("memory", tmp_path) as server:
        kubeconfig, only = await server.kubeconfig(), frozenset({"pod-status", "registration"})
        run = run_with({"api-server": {"kubeconfig": kubeconfig}}, command, level="core", only=only)
        evidence = await run_experiments(run)
    reasons = {one.experiment: one.what.reason for one in evidence.of(ExperimentEnded)}
    named = {name: "cluster of the kubeconfig" in reasons[name] for name in only}
    assert named == {"pod-status": True, "registration": False}


async def test_unreachable_cluster_is_an_error_of_the_environment(tmp_path: Path) -> None:
    async with api_server("memory", tmp_path) as server:
        kubeconfig = await server.kubeconfig()
    with pytest.raises(HarnessError, match="cannot reach the API server"):
        async with cluster(kubeconfig, tmp_path):
            raise AssertionError


async def test_unreadable_kubeconfig_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none"):
        async with cluster(tmp_path / "none", tmp_path):
            raise AssertionError


@pytest.mark.parametrize(
    ("forbidden", "words"),
    [
        ({"nodes"}, "create nodes, delete nodes"),
        ({"configmaps"}, "create configmaps, delete configmaps"),
        ({"resourceclaims/status"}, "update resourceclaims/status"),
    ],
)
async def test_missing_permissions_are_named(tmp_path: Path, forbidden: set[str], words: str) -> None:
    async with restricted(tmp_path, forbidden) as kubeconfig:
        with pytest.raises(ConfigurationError, match=f"no permission to {words}"):
            async with cluster(kubeconfig, tmp_path, [CONFIG]):
                raise AssertionError


@asynccontextmanager
async def restricted(root: Path, forbidden: set[str]) -> AsyncGenerator[Path, None]:
    """The kubeconfig of a server that answers questions about permissions."""

    async def discovery(request: web.Request) -> web.Response:
        names = {"configmaps": "ConfigMap", "resourceslices": "ResourceSlice"}
        found = [{"name": name, "kind": kind, "namespaced": False} for name, kind in names.items()]
        return web.json_response({"resources": found})

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        name = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        return web.json_response({"status": {"allowed": name not in forbidden}})

    app = web.Application()
    app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    app.router.add_get("/api/v1", discovery)
    app.router.add_get("/apis/{group}/{version}", discovery)
    async with kubeconfig_of(app, root) as kubeconfig:
        yield kubeconfig


# Objects of killed runs in a cluster, and their removal.


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
