"""The chart on a real API server: accepted objects, permissions of the driver, and uninstallation.

No pod is started: nodes are selected by a label that none has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.cri import CriServer
from drahealth.fakes.cluster.kube_connection import KubeConnection, access
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet import ensure as binaries
from drahealth.suites.targets.kubelet.cluster import LocalCluster
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.unit.endings import PATIENCE

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[2] / "fakes" / "chart"
DEMO = (HERE / "demo.yaml").read_text()

Render = Callable[..., list[Object]]

NAMESPACE = "fakes"
DRIVER = f"system:serviceaccount:{NAMESPACE}:fake-drahealth-driver"
NOWHERE = {"nodeSelector": {"nodes": "none"}}
VARIANTS: list[dict[str, Any]] = [
    {},
    {
        "seamlessUpdate": True,
        "healthAnnotations": True,
        "metricsPort": 9464,
        "resources": {"limits": None},
        "priorityClassName": "",
        "tolerations": [],
    },
    {"deviceClasses": [], "admissionPolicy": False, "serviceAccount": {"create": False, "name": "default"}},
    {"inventory": ""},
    {"inventory": "format: inventory/v1\nplugins:\n  - {resource: example.com/gpu, devices: [{name: gpu}]}\n"},
]
_WHERE = {
    "ServiceAccount": ("serviceaccounts", True),
    "ConfigMap": ("configmaps", True),
    "Pod": ("pods", True),
    "DaemonSet": ("daemonsets", True),
    "DeviceClass": ("deviceclasses", False),
    "ResourceClaimTemplate": ("resourceclaimtemplates", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "ValidatingAdmissionPolicy": ("validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": ("validatingadmissionpolicybindings", False),
}


class Server:
    """An API server, as its administrator or as somebody else."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def call(self, method: str, path: str, body: Object | None = None, **how: str) -> Object:
        """One call; `how` are its query, and `user` and `node` say as whom."""
        headers = {}
        if user := how.pop("user", ""):
            headers["Impersonate-User"] = user
        if node := how.pop("node", ""):
            headers["Impersonate-Extra-authentication.kubernetes.io%2fnode-name"] = node
        connection = KubeConnection(await access(self.kubeconfig, None), headers)
        try:
            return await connection.call(method, path, query=how, body=body)
        finally:
            await connection.close()

    async def create(self, obj: Object, **how: str) -> Object:
        """Makes an object of the chart's."""
        return await self.call("POST", _kind(obj).path(NAMESPACE), obj, **how)

    async def names(self, obj: Object) -> list[str]:
        """The names of all that there are of its kind."""
        return [found["metadata"]["name"] for found in (await self.call("GET", _kind(obj).path(NAMESPACE)))["items"]]


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Server]:
    run, containers = RunDirectory.create(), ContainerRuntime()
    runtime = CriServer(containers, run.path / "cri.sock", run.path / "containers")
    cluster = LocalCluster(binaries.ensure(DEFAULT_VERSION), run_dir=run, cri_socket=runtime.socket)
    await runtime.start()
    try:
        await cluster.start()
        server = Server(cluster.kubeconfig)
        await server.call("POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE}})
        yield server
    finally:
        await cluster.stop()
        await runtime.stop()
        await containers.close()


class Release:
    """The chart on that server, by Helm."""

    def __init__(self, helm: Any, server: Server) -> None:
        self._helm = helm
        self._where = ("--namespace", NAMESPACE, "--kubeconfig", str(server.kubeconfig))

    def install(self) -> None:
        done = self._helm.run("install", "fake", str(CHART), *self._where, values=NOWHERE)
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        done = self._helm.run("uninstall", "fake", "--ignore-not-found", "--wait", *self._where)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def release(server: Server, helm: Any) -> Iterator[Release]:
    """Nothing is installed yet; what is, is taken away."""
    release = Release(helm, server)
    yield release
    release.uninstall()


@pytest.mark.parametrize("values", VARIANTS, ids=["default", "little", "least", "no inventory", "device plugins"])
async def test_api_server_accepts_every_object_of_the_chart(
    server: Server, render: Render, values: dict[str, Any]
) -> None:
    objects = render(**values)
    (template,) = [found["spec"]["template"] for found in objects if found["kind"] == "DaemonSet"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "driver"}}
    for found in [*objects, pod]:
        made = await server.create(found, dryRun="All", fieldValidation="Strict")
        assert made["metadata"]["uid"]


async def test_api_server_accepts_every_object_of_the_demo(server: Server) -> None:
    for found in YAML(typ="safe", pure=True).load_all(DEMO):
        made = await server.create(found, dryRun="All", fieldValidation="Strict")
        assert made["metadata"]["uid"]


async def test_uninstalling_leaves_nothing(server: Server, release: Release, render: Render) -> None:
    objects = render()
    before = [await server.names(found) for found in objects]
    release.install()
    assert all([found["metadata"]["name"] in await server.names(found) for found in objects])
    release.uninstall()
    assert [await server.names(found) for found in objects] == before
    secrets = await server.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")
    assert secrets["items"] == []  # where Helm keeps what it knows of a release


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/nodes"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/apis/resource.k8s.io/v1/resourceclaims"),
        ("GET", DEVICE_CLASSES.path()),
        ("DELETE", SLICES.path()),
    ],
)
async def test_api_server_rejects_unneeded_requests_of_the_driver(
    server: Server, release: Release, method: str, path: str
) -> None:
    release.install()
    with pytest.raises(ApiError, match="is forbidden") as refused:
        await server.call(method, path, user=DRIVER, node="node-a")
    assert refused.value.status == 403


async def test_the_driver_writes_slices_of_its_own_node_alone(server: Server, release: Release) -> None:
    release.install()
    refusal = await _first_refusal(server, _slice("other", "node-b"))
    assert "the driver on node node-a may write slices of that node alone, not of node-b" in refusal
    await server.call("POST", SLICES.path(), _slice("mine", "node-a"), user=DRIVER, node="node-a")
    assert (await server.call("GET", SLICES.path(), user=DRIVER))["items"][0]["metadata"]["name"] == "mine"
    for node in ("node-b", ""):
        with pytest.raises(ApiError, match="may write slices of that node alone, not of node-a"):
            await server.call("DELETE", SLICES.path(None, "mine"), user=DRIVER, node=node)
    await server.call("DELETE", SLICES.path(None, "mine"), user=DRIVER, node="node-a")


async def _first_refusal(server: Server, slice_: Object) -> str:
    """What the API server says once it refuses the driver of node-a this: a policy holds a moment after it was made."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await server.call("POST", SLICES.path(), slice_, dryRun="All", user=DRIVER, node="node-a")
            except ApiError as refused:
                return str(refused)
            await asyncio.sleep(0.1)


def _slice(name: str, node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": {"name": name}, "spec": spec}


def _kind(obj: Object) -> Kind:
    plural, namespaced = _WHERE[obj["kind"]]
    return Kind(obj["kind"], plural, obj["apiVersion"], namespaced)
