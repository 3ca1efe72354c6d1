"""A driver in a Pod created by drahealth: its manifest, its Pod, and the removal of its objects."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NAMESPACES, NODES, PODS, SLICES, ApiError, Object, WatchEvent
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.events import ProcessExited, SignalSent
from drahealth.suites.driver_checks.driver_run import DriverRun, plan
from drahealth.suites.driver_checks.experiments import IN_A_POD
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.profile.model import ClusterSection
from drahealth.suites.driver_checks.subject.driver_pod import (
    RUN_LABEL,
    InCluster,
    other_image,
    pinned,
    run_name,
    why_not_ready,
)
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers import api_server
from drahealth.suites.unit.driver_checks.test_laboratory import NoRecords
from drahealth.suites.unit.driver_checks.test_objects import CONFIG
from drahealth.suites.unit.endings import PATIENCE

NODE = "kind-worker"
MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: driver, namespace: gpus}
data: {mode: mig}
---
apiVersion: v1
kind: Pod
metadata: {name: driver, namespace: gpus, labels: {app: gpu}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - {name: sidecar, image: "example.com/sidecar:1"}
  - {name: plugin, image: "example.com/driver:1", args: ["--node={node_name}"]}
"""
CLUSTER = 'cluster = { kubeconfig = "kubeconfig", node = "kind-worker", root = "node" }\n'
PROFILE = 'format = "driver-profile/v1"\n[driver]\nname = "gpu.example.com"\npod = "driver.yaml"\n' + CLUSTER


def run_of(folder: Path, more: str = "", *, text: str = PROFILE, manifest: str = MANIFEST) -> DriverRun:
    (folder / "driver.yaml").write_text(manifest)
    (folder / "gpu.toml").write_text(text + more)
    return read_profile(folder / "gpu.toml")


# -- the profile


def test_profile_starts_the_pod_in_a_cluster(tmp_path: Path) -> None:
    found = run_of(tmp_path, 'container = "plugin"\n')
    declared = found.in_cluster
    assert declared
    assert (declared.name, declared.cluster.node, declared.cluster.root) == ("Pod gpus/driver", NODE, tmp_path / "node")
    assert (declared.container, declared.grace, found.profile.sequential) == ("plugin", 5, True)
    assert [one["kind"] for one in found.objects] == ["Namespace", "ConfigMap"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("", PROFILE.replace('pod = "driver.yaml"', 'command = ["./driver"]')),
        ("", PROFILE.replace('node = "kind-worker", ', "")),
        ("", PROFILE.replace("root", "roots")),
        ('container = "none"\n', PROFILE),
        ('grace = "5s"\n', PROFILE),
        ('environment = { A = "b" }\n', PROFILE),
        ('kind = "device-plugin"\n', PROFILE.replace('name = "gpu.example.com"\n', "")),
        ('[api-server]\nkind = "memory"\n', PROFILE),
        ("[sandbox]\n", PROFILE),
        ("[abilities]\nrolling-update = true\n", PROFILE),
        ('[[fault]]\nname = "a"\nbreak = { environment = { A = "b" } }\nheal = "none"\n', PROFILE),
    ],
)
def test_profile_with_a_wrong_cluster_is_rejected(tmp_path: Path, more: str, text: str) -> None:
    with pytest.raises(FileError):
        run_of(tmp_path, more, text=text)


def test_experiments_that_need_the_process_do_not_run(tmp_path: Path) -> None:
    found = plan(run_of(tmp_path))
    assert {one.name for one, reason in found if reason == IN_A_POD} >= {"refused-registration", "api-server-down"}
    assert {one.name for one, reason in found if not reason} >= {"registration", "end", "driver-restart", "claims"}


# -- the manifest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [{"matchFields": "only"}]),
        ([{"matchExpressions": [1]}, {}], [{"matchExpressions": [1], "matchFields": "only"}, {"matchFields": "only"}]),
    ],
)
def test_only_this_node_gets_the_pod(given: Any, expected: Any) -> None:
    only = [{"key": "metadata.name", "operator": "In", "values": [NODE]}]
    wanted = [{key: only if value == "only" else value for key, value in term.items()} for term in expected]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": given}}}
    spec = {"affinity": affinity} if given else {}
    found = pinned(daemon_set(spec), NODE, {})["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == wanted


def test_workload_and_its_pod_have_the_labels() -> None:
    given = daemon_set({})
    found = pinned(given, NODE, {RUN_LABEL: "a"})
    assert found["metadata"] == {"name": "driver", "namespace": "default", "labels": {RUN_LABEL: "a"}}
    assert found["spec"]["template"]["metadata"]["labels"] == {"app": "gpu", RUN_LABEL: "a"}
    assert given == daemon_set({})


def test_directories_of_the_node_are_below_its_root() -> None:
    cluster = ClusterSection(kubeconfig=Path("k"), node=NODE, root=Path("/proc/7/root"))
    places = InCluster(daemon_set({}), cluster).places("gpu.example.com")
    assert places.registry_dir == Path("/proc/7/root/var/lib/kubelet/plugins_registry")
    assert places.cdi_dirs == (Path("/proc/7/root/run/cdi"), Path("/proc/7/root/etc/cdi"))
    socket = Path("/var/lib/kubelet/plugins/gpu/dra.sock")
    assert places.outside(socket) == Path("/proc/7/root/var/lib/kubelet/plugins/gpu/dra.sock")
    assert places.placeholders()["driver_dir"] == "/var/lib/kubelet/plugins/gpu.example.com"


DIGEST, OTHER = "ab" * 32, "cd" * 32


@pytest.mark.parametrize(
    ("asked", "image", "is_other"),
    [
        ("example.com/driver:1", f"example.com/driver@sha256:{DIGEST}", False),
        ("example.com/driver:1", f"example.com/driver@sha256:{OTHER}", True),
        (f"example.com/driver@sha256:{OTHER}", f"example.com/driver@sha256:{OTHER}", True),
        (f"example.com/driver:1@sha256:{DIGEST}", f"example.com/driver@sha256:{OTHER}", False),  # of one platform
        ("example.com/driver:1", f"sha256:{OTHER}", False),
        ("example.com/driver:1", "", False),
    ],
)
def test_image_that_ran_is_compared_with_the_declared_digest(asked: str, image: str, is_other: bool) -> None:
    statuses = [{"name": "sidecar", "imageID": "other@sha256:00"}, {"name": "driver", "imageID": image}]
    pod = {"spec": {"containers": [{"name": "driver", "image": asked}]}, "status": {"containerStatuses": statuses}}
    declared = InCluster({}, ClusterSection(kubeconfig=Path("k"), node=NODE), digest=DIGEST)
    assert bool(other_image(pod, declared)) == is_other


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, "its phase is Pending"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
            "Unschedulable: full",
        ),
        (
            {"containerStatuses": [{"name": "plugin", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}]},
            "container plugin: ErrImageNeverPull",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "plugin",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"exitCode": 3, "message": "no GPU\n"}},
                    }
                ]
            },
            "container plugin: CrashLoopBackOff: back-off 10s; it exited with code 3: no GPU",
        ),
    ],
)
def test_status_gives_the_reason_for_a_pod_not_ready(status: Object, expected: str) -> None:
    assert why_not_ready({"status": status}) == expected


def daemon_set(spec: Object) -> Object:
    template = {"metadata": {"labels": {"app": "gpu"}}, "spec": {"containers": [{"name": "plugin"}], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "driver"},
        "spec": {"template": template},
    }


# -- the Pod


READY: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class FakeKubelet:
    """Gives each Pod a status, and ends deleted Pods with an exit code."""

    def __init__(self, api: ApiServer, status: Object, exit_code: int) -> None:
        self._api = api
        self._status = status
        self._exit_code = exit_code
        self._known: set[tuple[str, str]] = set()
        """The Pods that have the status, and those that have ended, by their UIDs."""

    async def run(self) -> None:
        """Follows the API server, until cancelled."""
        async for event in self._api.watch(PODS):
            with suppress(ApiError):  # the event is late: the Pod has changed
                await self._work(event)

    async def _work(self, event: WatchEvent) -> None:
        metadata = event.object["metadata"]
        if event.type == "DELETED":
            return
        if not event.object["spec"].get("nodeName"):
            await self._api.bind(metadata["name"], metadata["namespace"], NODE)
        elif "deletionTimestamp" in metadata:
            await self._end(event.object)
        elif self._is_new("status", metadata["uid"]):
            await self._api.replace_status(PODS, {**event.object, "status": self._status})

    def _is_new(self, what: str, uid: str) -> bool:
        is_new = (what, uid) not in self._known
        self._known.add((what, uid))
        return is_new

    async def _end(self, pod: Object) -> None:
        if self._is_new("end", pod["metadata"]["uid"]):
            ended = {"name": "plugin", "restartCount": 0, "state": {"terminated": {"exitCode": self._exit_code}}}
            patch = {"status": {**READY, "containerStatuses": [ended]}}  # without a revision, as a kubelet's
            await self._api.patch_status(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], patch)
        else:
            await self._api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace=0)


@asynccontextmanager
async def subject(
    root: Path, status: Object = READY, exit_code: int = 0, node: str = NODE
) -> AsyncGenerator[tuple[ApiServer, Subject, NoRecords], None]:
    """The driver of a profile, in a cluster with one node."""
    (root / "node/var/lib/kubelet/plugins_registry").mkdir(parents=True)
    (root / "api").mkdir()
    async with api_server("memory", root / "api") as server:
        assert isinstance(server.api, ApiServer)
        await server.api.kind_of(CONFIG)  # which serves the kind
        await server.api.create(NODES, {"metadata": {"name": node}})
        (root / "kubeconfig").write_text((await server.kubeconfig()).read_text())
        kubelet = asyncio.create_task(FakeKubelet(server.api, status, exit_code).run())
        records = Recorded()
        try:
            async with laboratory(run_of(root), ["main"], root / "run", JumpClock(), records) as found:
                yield server.api, found["main"], records
            assert await server.api.list(PODS) == []
            assert [one["metadata"]["name"] for one in await server.api.list(NAMESPACES)].count("gpus") == 0
        finally:
            await cancel_and_wait(kubelet)


class Recorded(NoRecords):
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.of_all: list[Any] = []
        """Those that belong to each running experiment."""

    def of_current(self, event: Any) -> None:
        self.events.append(event)

    def of_process(self, process: Any, event: Any) -> None:
        self.of_all.append(event)


async def test_driver_runs_in_a_pod_with_the_label_of_the_run(tmp_path: Path) -> None:
    async with subject(tmp_path) as (api, found, _):
        await found.start()
        pod = await api.get(PODS, "driver", "gpus")
        assert pod["metadata"]["labels"][RUN_LABEL] == run_name(tmp_path / "run")
        assert pod["spec"]["containers"][1]["args"] == [f"--node={NODE}"]
        assert (found.running, found.started_by_us, found.shares_api) == (True, True, True)


@pytest.mark.parametrize(("exit_code", "killed"), [(0, []), (137, ["SIGKILL"])])
async def test_sigterm_deletes_the_pod(tmp_path: Path, exit_code: int, killed: list[str]) -> None:
    async with subject(tmp_path, exit_code=exit_code) as (api, found, records):
        assert isinstance(records, Recorded)
        await found.start()
        await found.signal(signal.SIGTERM)
        await found.exited()
        assert await api.list(PODS) == []
        assert [one.signal for one in records.events if isinstance(one, SignalSent)] == ["SIGTERM"]
        assert [one.signal for one in records.of_all if isinstance(one, SignalSent)] == killed
        assert [one.exit_code for one in records.of_all if isinstance(one, ProcessExited)] == [exit_code]


async def test_pod_starts_again_after_its_end(tmp_path: Path) -> None:
    async with subject(tmp_path) as (api, found, _):
        await found.start()
        await found.signal(signal.SIGTERM)
        await found.exited()
        await found.start()
        assert (found.running, len(await api.list(PODS))) == (True, 1)


async def test_container_restart_is_an_unexpected_end(tmp_path: Path) -> None:
    async with subject(tmp_path) as (api, found, _):
        await found.start()
        pod = await api.get(PODS, "driver", "gpus")
        restarted = {"name": "plugin", "restartCount": 1, "lastState": {"terminated": {"exitCode": 3}}}
        await api.replace_status(PODS, {**pod, "status": {**READY, "containerStatuses": [restarted]}})
        async with asyncio.timeout(PATIENCE):
            assert (await found.ended_unexpectedly()).exit_code == 3


async def test_pod_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    waiting = {"name": "plugin", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no such image"}}}
    status = {"phase": "Pending", "conditions": [], "containerStatuses": [waiting]}
    async with subject(tmp_path, status) as (api, found, _):
        with pytest.raises(ConfigurationError, match="container plugin: ErrImageNeverPull: no such image"):
            await found.start()
        assert await api.list(PODS) == []


async def test_existing_pod_is_not_replaced(tmp_path: Path) -> None:
    async with subject(tmp_path) as (api, found, _):
        mine = {
            "metadata": {"name": "driver", "namespace": "gpus"},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        }
        await api.create(PODS, mine)
        with pytest.raises(ConfigurationError, match="already exists"):
            await found.start()
        assert len(await api.list(PODS)) == 1
        await api.delete(PODS, "driver", "gpus")


async def test_unknown_node_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"has no Node {NODE}"):
        async with subject(tmp_path, node="other"):
            raise AssertionError


async def test_only_one_run_uses_a_node(tmp_path: Path) -> None:
    async with subject(tmp_path):
        with pytest.raises(ConfigurationError, match="another run"):
            async with laboratory(run_of(tmp_path), ["main"], tmp_path / "run", JumpClock(), NoRecords()):
                raise AssertionError


async def test_unreachable_node_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="plugins_registry"):
        async with laboratory(run_of(tmp_path), ["main"], tmp_path / "run", JumpClock(), NoRecords()):
            raise AssertionError


async def test_new_slices_of_the_node_are_removed_and_others_stay(tmp_path: Path) -> None:
    def slice_of(driver: str, name: str) -> Object:
        spec = {"driver": driver, "nodeName": NODE, "pool": {"name": name, "resourceSliceCount": 1}, "devices": []}
        return {"metadata": {"name": name}, "spec": spec}

    async with api_server("memory", tmp_path) as server:
        await server.api.kind_of(CONFIG)
        await server.api.create(NODES, {"metadata": {"name": NODE}})
        await server.api.create(SLICES, slice_of("nic.example.com", "nics"))
        (tmp_path / "node/var/lib/kubelet/plugins_registry").mkdir(parents=True)
        (tmp_path / "kubeconfig").write_text((await server.kubeconfig()).read_text())
        async with laboratory(run_of(tmp_path), ["main"], tmp_path / "run", JumpClock(), NoRecords()):
            await server.api.create(SLICES, slice_of("gpu.example.com", "gpus"))
        assert [one["metadata"]["name"] for one in await server.api.list(SLICES)] == ["nics"]


async def test_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    async with subject(tmp_path, {"phase": "Pending", "conditions": []}) as (api, found, _):
        starting = asyncio.create_task(found.start())
        events = api.watch(PODS)
        await anext(events)
        await events.aclose()
        await cancel_and_wait(starting)
        assert not found.running
