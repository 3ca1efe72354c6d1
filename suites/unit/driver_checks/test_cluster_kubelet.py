"""The kubelet of a driver's node in a cluster: its requirements for Pods with claims."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.manager.releases import DEFAULT_VERSION, NEWEST
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.real_kubelet import CLAIMS_FILE, cluster_kubelet, pause_images
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.unit.answering_server import kubeconfig_of
from drahealth.suites.unit.driver_checks.runs import run_with

NODE = "kind-worker"
PAUSE = "registry.k8s.io/pause:3.10"
IMAGES = [{"names": ["example.com/pausing:1"]}, {"names": ["registry.k8s.io/pause@sha256:ab", PAUSE]}]


def node(version: str = f"v{DEFAULT_VERSION}", images: object = IMAGES) -> Object:
    return {"metadata": {"name": NODE}, "status": {"nodeInfo": {"kubeletVersion": version}, "images": images}}


def gate(on: bool) -> str:
    return f'kubernetes_feature_enabled{{name="ResourceHealthStatus",stage="BETA"}} {on:d}\n'


@asynccontextmanager
async def lab(
    root: Path, found: Object, kubelet: str | None = gate(True), server: str = gate(True)
) -> AsyncGenerator[Lab, None]:
    """A driver on a node of a cluster that serves this Node, and these metrics."""

    async def get_node(request: web.Request) -> web.Response:
        return web.json_response(found)

    async def metrics(request: web.Request) -> web.Response:
        text = server if request.path == "/metrics" else kubelet
        return web.Response(status=403) if text is None else web.Response(text=text)

    app = web.Application()
    app.router.add_get(f"/api/v1/nodes/{NODE}", get_node)
    app.router.add_get(f"/api/v1/nodes/{NODE}/proxy/metrics", metrics)
    app.router.add_get("/metrics", metrics)
    places = Places(root, root / "reg", root / "plugins", root / "cdi", None, NODE)
    async with kubeconfig_of(app, root) as kubeconfig:
        client = await KubeClient.from_kubeconfig(kubeconfig)
        try:
            subject = Subject("kubelet", places, JumpClock(), lambda _: None, api=client)
            yield Lab(subject, lambda _: None, Facts(), run_with())
        finally:
            await client.close()


async def test_pods_run_on_the_kubelet_of_the_node(tmp_path: Path) -> None:
    (tmp_path / CLAIMS_FILE).write_text("{}")
    async with lab(tmp_path, node()) as given:
        found = await cluster_kubelet(given)
    assert (found.node_name, found.profile.release, found.root, found.image) == (NODE, NEWEST.release, tmp_path, PAUSE)


@pytest.mark.parametrize(("version", "profile"), [("v1.36.2", "v1.36"), ("v1.36.5", "v1.36.4"), ("v1.37.1", "v1.37")])
async def test_a_kubelet_is_judged_by_its_patch_level(tmp_path: Path, version: str, profile: str) -> None:
    (tmp_path / CLAIMS_FILE).write_text("{}")
    async with lab(tmp_path, node(version)) as given:
        found = await cluster_kubelet(given)
    assert found.profile.name == profile


@pytest.mark.parametrize("version", ["v1.35.8", "v1.34.0", "v1.31.0", ""])
async def test_other_releases_are_not_applicable(tmp_path: Path, version: str) -> None:
    async with lab(tmp_path, node(version)) as given:
        with pytest.raises(NotApplicable, match=f"version {version}"):
            await cluster_kubelet(given)


@pytest.mark.parametrize(("kubelet", "server"), [(False, True), (True, False)])
async def test_feature_gate_that_is_off_is_not_applicable(tmp_path: Path, kubelet: bool, server: bool) -> None:
    async with lab(tmp_path, node(), gate(kubelet), gate(server)) as given:
        with pytest.raises(NotApplicable, match="ResourceHealthStatus"):
            await cluster_kubelet(given)


async def test_unknown_feature_gates_are_not_tested(tmp_path: Path) -> None:
    async with lab(tmp_path, node(), kubelet=None) as given:
        with pytest.raises(Incomplete, match="kubelet"):
            await cluster_kubelet(given)


async def test_missing_checkpoint_is_not_tested(tmp_path: Path) -> None:
    async with lab(tmp_path, node()) as given:
        with pytest.raises(Incomplete, match=CLAIMS_FILE):
            await cluster_kubelet(given)


async def test_missing_image_is_not_tested(tmp_path: Path) -> None:
    (tmp_path / CLAIMS_FILE).write_text("{}")
    async with lab(tmp_path, node(images=IMAGES[:1])) as given:
        with pytest.raises(Incomplete, match="pause"):
            await cluster_kubelet(given)


def test_pause_images_are_found_by_the_image_name() -> None:
    assert list(pause_images(node())) == [PAUSE]
    assert list(pause_images({"status": {}})) == []
