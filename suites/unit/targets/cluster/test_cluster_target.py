"""A cluster of others: what is asked of it before anything is made, and each lack is one sentence."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from aiohttp import web

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.cluster import target
from drahealth.suites.targets.cluster.facts import Facts, why_unused
from drahealth.suites.targets.cluster.installation import holder, is_live, permissions
from drahealth.suites.targets.cluster.options import OPTIONS, ClusterOptions
from drahealth.suites.targets.cluster.target import ClusterConfiguration, plan
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.target import BELONGS, Placement
from drahealth.suites.unit.answering_server import kubeconfig_of

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def node(name: str, version: str = "v1.37.2", **spec: object) -> dict[str, Any]:
    info = {"nodeInfo": {"kubeletVersion": version}}
    return {"metadata": {"name": name, "labels": {"gpu": "fake"}}, "spec": spec, "status": {**READY, **info}}


def cluster(
    *,
    nodes: list[dict[str, Any]] | None = None,
    denied: str = "",
    dra: bool = True,
    metrics: str = "",
    gates: Mapping[str, bool] = MappingProxyType({}),
    version: str = "v1.37.2-eks-1",
) -> web.Application:
    """An API server without one permission, such as `create pods/exec`."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        return web.json_response({"status": {"allowed": f"{asked['verb']} {resource}" != denied}})

    def answer(content: Mapping[str, Any]) -> Any:
        async def answered(_: web.Request) -> web.Response:
            return web.json_response(content)

        return answered

    async def its_metrics(_: web.Request) -> web.Response:
        return web.Response(text=metrics)

    app = web.Application()
    app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    app.router.add_get("/version", answer({"gitVersion": version}))
    app.router.add_get("/metrics", its_metrics)
    if dra:
        app.router.add_get("/apis/resource.k8s.io/v1", answer({"resources": []}))
    found = [node("one")] if nodes is None else nodes
    app.router.add_get("/api/v1/nodes", answer({"items": found, "metadata": {"resourceVersion": "1"}}))
    configz = {"kubeletconfig": {"syncFrequency": "1m30s", "featureGates": dict(gates)}}
    app.router.add_get("/api/v1/nodes/one/proxy/configz", answer(configz))
    return app


def options(**given: str) -> ClusterOptions:
    return ClusterOptions.of(Values({name.replace("_", "-"): text for name, text in given.items()}, OPTIONS))


async def configured(app: web.Application, folder: Path, **given: str) -> ClusterConfiguration:
    """The configuration of a run, which asks the cluster in a loop of its own."""
    async with kubeconfig_of(app, folder) as path:
        texts = {name.replace("_", "-"): text for name, text in given.items()}
        known = {"kubeconfig": str(path), "driver-image": "localhost/driver:1"}
        return await asyncio.to_thread(ClusterConfiguration.of, Values({**known, **texts}, OPTIONS))


async def test_the_cluster_says_which_kubelets_a_run_judges(tmp_path: Path) -> None:
    found = await configured(cluster(), tmp_path)
    assert (found.profile.name, found.facts.kubelets) == ("v1.37", {"one": "1.37.2"})
    assert (found.facts.sync_frequency, Capability.RESTART_KUBELET in found.missing) == (90.0, True)


async def test_a_command_of_the_user_restarts_kubelets(tmp_path: Path) -> None:
    found = await configured(cluster(), tmp_path, restart_kubelet_command="ssh $NODE reboot")
    assert Capability.RESTART_KUBELET not in found.missing


async def test_gates_of_the_api_server_decide_what_is_applicable(tmp_path: Path) -> None:
    off = 'kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0\n'
    found = await configured(cluster(metrics=off), tmp_path)
    assert found.missing[Capability.TAINT_DEVICES] == "the feature gate DRADeviceTaints of the API server is off"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"dra": False}, "does not serve resource.k8s.io/v1; use Kubernetes 1.34 or newer with DRA enabled"),
        ({"nodes": []}, "can be used: there are no nodes"),
        ({"nodes": [node("one", unschedulable=True)]}, "one: it is cordoned"),
        ({"nodes": [node("one"), node("two", "v1.36.4")]}, "behave differently: 1.36.4, 1.37.2"),
        ({"nodes": [node("one", "v1.30.0")]}, "does not support Kubernetes 1.30.0"),
        (
            {"metrics": 'kubernetes_feature_enabled{name="ResourceHealthStatus",stage="BETA"} 0\n'},
            "the feature gate ResourceHealthStatus of http",
        ),
        ({"gates": {"ResourceHealthStatus": False}}, "ResourceHealthStatus of the kubelets of one is off"),
        ({"version": "v1.35.8"}, "is off by default in Kubernetes 1.35.8, and http"),
    ],
)
async def test_each_lack_of_the_cluster_is_one_sentence(wrong: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as refused:
        await configured(cluster(**wrong), tmp_path)
    assert sentence in str(refused.value)


def test_a_cluster_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        '{"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}], "users": [{"name": "u", "user": '
        '{"token": "t"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], '
        '"current-context": "x"}'
    )
    with pytest.raises(HarnessError, match=r"^http://127.0.0.1:9 answered: .*; check the address"):
        ClusterConfiguration.of(Values({"kubeconfig": str(path), "driver-image": "a"}, OPTIONS))


def test_a_missing_context_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text('{"clusters": [], "users": [], "contexts": [], "current-context": ""}')
    with pytest.raises(ConfigurationError, match="; pass --kubeconfig and --context"):
        ClusterConfiguration.of(Values({"kubeconfig": str(path), "context": "no", "driver-image": "a"}, OPTIONS))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"driver_image": "a", "push_to": "b.example/c"}, "--driver-image and --push-to exclude each other"),
        ({"driver_image": "a", "driver_base": "b"}, "--driver-base and --driver-image exclude each other"),
        ({"node_selector": "gpu"}, "--node-selector must be KEY=VALUE"),
        ({"tolerations": ":NoSchedule"}, "--tolerations must be KEY"),
        ({"tolerations": "a=b:Never"}, "--tolerations must be KEY"),
        ({"namespace": "My_"}, "--namespace must be lower-case"),
        ({"kubelet_dir": "kubelet"}, "--kubelet-dir must be an absolute path"),
        ({"pull_config": __file__}, "--pull-config must be a JSON file with `auths`"),
    ],
)
def test_a_wrong_option_is_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        options(**given)


def test_a_run_without_an_image_is_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="pass --driver-image, --push-to or --load-command"):
        ClusterConfiguration.of(Values({}, OPTIONS))


def test_several_kubeconfigs_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "a:b")
    with pytest.raises(ConfigurationError, match="KUBECONFIG names several files: a:b; pass one of them"):
        ClusterConfiguration.of(Values({"driver-image": "a"}, OPTIONS))


AUTHS = {"https://a.example:5000/v2/": {"auth": "eA=="}, "https://index.docker.io/v1/": {"auth": "eQ=="}}


@pytest.mark.parametrize(
    ("image", "kept"),
    [
        ("a.example:5000/team/driver:1", "https://a.example:5000/v2/"),
        ("team/driver", "https://index.docker.io/v1/"),
    ],
)
def test_a_secret_has_only_the_credentials_for_the_image(image: str, kept: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": AUTHS, "credsStore": "desktop"}))
    assert json.loads(options(pull_config=str(config)).docker_config(image)) == {"auths": {kept: AUTHS[kept]}}


def test_missing_credentials_for_the_image_are_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {**AUTHS, "b.example": {}}}))
    with pytest.raises(ConfigurationError, match=r"has no credentials for b\.example"):
        options(pull_config=str(config)).docker_config("b.example/driver")


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def test_a_node_with_another_operating_system_is_not_used() -> None:
    found = node("one")
    found["status"]["nodeInfo"]["operatingSystem"] = "windows"
    assert why_unused(found, options()) == "its operating system is windows"


@pytest.mark.parametrize(("given", "used"), [({}, False), ({"driver_image": "driver:1"}, True)], ids=["built", "named"])
def test_a_node_with_another_architecture_needs_an_image_with_a_name(given: dict[str, str], used: bool) -> None:
    found = node("one")
    found["status"]["nodeInfo"]["architecture"] = "s390x"
    assert (why_unused(found, options(**given)) == "") is used


@pytest.mark.parametrize(
    ("given", "spec", "why"),
    [
        ({}, {}, ""),
        ({"node_selector": "gpu=real"}, {}, "it does not have the labels of --node-selector"),
        ({"node_selector": "gpu=fake"}, {}, ""),
        ({}, {"taints": [TAINT]}, "it has the taint gpu:NoSchedule"),
        ({"tolerations": "gpu"}, {"taints": [TAINT]}, ""),
        ({"tolerations": "gpu=yes:NoSchedule"}, {"taints": [TAINT]}, ""),
        ({"tolerations": "gpu=no,gpu:NoExecute"}, {"taints": [TAINT]}, "it has the taint gpu:NoSchedule"),
        ({}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, ""),
    ],
)
def test_a_node_is_used_if_its_labels_and_taints_allow_it(
    given: dict[str, str], spec: dict[str, Any], why: str
) -> None:
    assert why_unused(node("one", **spec), options(**given)) == why


@pytest.mark.parametrize(
    ("name", "age", "live"),
    [
        ("elsewhere/1/1/boot-1", 10, True),
        ("elsewhere/1/1/boot-1", 100, False),
        (holder(), 100, True),
        ("/".join((*holder().split("/")[:2], "1", holder().split("/")[3])), 10, False),
        ("/".join((*holder().split("/")[:3], "boot-1")), 10, True),
        ("", 10, True),
    ],
    ids=["other-machine", "other-machine-silent", "here", "ended-here", "other-boot", "unnamed"],
)
def test_a_run_holds_its_cluster_while_it_exists(name: str, age: float, live: bool) -> None:
    lease = {"spec": {"holderIdentity": name, "renewTime": "1970-01-01T00:16:40.000000Z"}}
    assert is_live(lease, 1000 + age) is live


async def test_a_plan_lists_the_permissions_and_marks_the_missing_one(tmp_path: Path) -> None:
    async with kubeconfig_of(cluster(denied="create pods/exec"), tmp_path) as path:
        lines, may = await asyncio.to_thread(plan, options(kubeconfig=str(path)))
    marks = [line[:2] for line in lines if line[:4] in ("ok  ", "no  ", "--  ")]
    assert (may, marks.count("no"), len(marks)) == (False, 1, len(list(permissions(options()))))
    assert "no  create, get pods/exec" in lines


async def test_an_optional_permission_does_not_stop_a_run(tmp_path: Path) -> None:
    async with kubeconfig_of(cluster(denied="get nodes/proxy"), tmp_path) as path:
        lines, may = await asyncio.to_thread(plan, options(kubeconfig=str(path)))
    assert (may, [line[:2] for line in lines if "nodes/proxy" in line]) == (True, ["--"])


def test_pods_of_scenarios_get_what_the_cluster_asks_for(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"auths": {}}')
    given = options(tolerations="gpu=yes", pull_config=str(config), namespace="mine")
    made = target.ClusterTarget(None, Facts("", "1.37.2", {"one": "1.37.2"}).profile(), given)  # type: ignore[arg-type]
    pod = {
        "tolerations": [{"operator": "Equal", "key": "gpu", "value": "yes"}],
        "imagePullSecrets": [{"name": "drahealth-pull"}],
    }
    assert made.placement == Placement("mine-", pod, {**BELONGS, "drahealth/run": "mine"})
