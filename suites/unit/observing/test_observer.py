"""What an observer needs of a cluster: permissions, slices, and a DeviceClass; each lack is one sentence."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.commands.observe import asked_for
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.observing.observer import PERMISSIONS, Asked, claim_of, class_for, observe, pod_on
from drahealth.suites.unit.answering_server import kubeconfig_of

ASKED = Asked("gpu.example.com", 5.0, "default")
RESOURCE = "/apis/resource.k8s.io/v1"


def device_class(name: str, driver: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def slice_of(driver: str, **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": "one"}, "spec": {"driver": driver, **spec}}


def cluster(*, denied: str = "", slices: list[dict[str, Any]] | None = None, classes: int = 1) -> web.Application:
    """A cluster of one node without one permission, such as `create pods`."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        allowed = f"{asked['verb']} {asked['resource']}" != denied
        return web.json_response({"status": {"allowed": allowed}})

    def listing(items: list[dict[str, Any]]) -> Any:
        async def answer(_: web.Request) -> web.Response:
            return web.json_response({"items": items, "metadata": {"resourceVersion": "1"}})

        return answer

    found = [slice_of("gpu.example.com", nodeName="node")] if slices is None else slices
    app = web.Application()
    app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    app.router.add_get(f"{RESOURCE}/resourceslices", listing(found))
    app.router.add_get("/api/v1/nodes", listing([{"metadata": {"name": "node"}}]))
    named = [device_class(f"class-{number}", "gpu.example.com") for number in range(classes)]
    app.router.add_get(f"{RESOURCE}/deviceclasses", listing(named))
    return app


async def refusal(app: web.Application, folder: Path) -> str:
    """The sentence with which an observer does not start."""
    async with kubeconfig_of(app, folder) as path:
        api = await KubeClient.from_kubeconfig(path)
        try:
            with pytest.raises(HarnessError) as caught:
                await observe(api, ASKED, lambda _: None)
        finally:
            await api.close()
    return str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"denied": "create pods"}, "missing permissions in namespace default: create pods"),
        ({"slices": []}, "no ResourceSlice is of the driver gpu.example.com; no driver publishes devices"),
        ({"slices": [slice_of("gpu.example.org", nodeName="node")]}, "valid: gpu.example.org"),
        ({"slices": [slice_of("gpu.example.com", allNodes=True)]}, "the devices of gpu.example.com belong to no node"),
        ({"slices": [slice_of("gpu.example.com", nodeName="old")]}, "are not in the cluster"),
        ({"classes": 0}, "no DeviceClass selects devices of gpu.example.com; pass one with --device-class"),
        ({"classes": 2}, "DeviceClasses class-0, class-1 select devices of gpu.example.com"),
    ],
)
async def test_each_lack_of_the_cluster_is_one_sentence(wrong: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    assert sentence in await refusal(cluster(**wrong), tmp_path)


async def test_a_cluster_without_the_api_is_one_sentence(tmp_path: Path) -> None:
    assert "observe needs Kubernetes 1.34 or newer" in await refusal(web.Application(), tmp_path)


def test_a_class_with_the_name_of_the_driver_is_preferred() -> None:
    classes = [device_class("gpu.example.com", "gpu.example.com"), device_class("other", "gpu.example.com")]
    assert class_for("gpu.example.com", classes, "") == "gpu.example.com"
    assert class_for("gpu.example.com", classes, "other") == "other"
    with pytest.raises(ConfigurationError, match="did you mean other"):
        class_for("gpu.example.com", classes, "othr")


def test_the_claim_belongs_to_the_pod_so_that_it_goes_with_it() -> None:
    pod = pod_on("node", "drahealth-observe-1-0", ASKED, 0.0)
    pod["metadata"]["uid"] = "u"
    (owner,) = claim_of(pod, ASKED, "gpu")["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": "drahealth-observe-1-0", "uid": "u"}
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == "drahealth-observe-1-0"


@pytest.mark.parametrize(
    ("driver", "duration", "sentence"),
    [
        ("GPU", "60s", "--driver must be the name of a driver"),
        ("gpu.example.com", "60", "--for: invalid duration '60'"),
        ("gpu.example.com", "10s..20s", "--for must be one duration"),
        ("gpu.example.com", "8d", "--for must be between 1s and 7d"),
    ],
)
def test_a_wrong_option_is_one_sentence(driver: str, duration: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        asked_for(driver, duration, "default", "", "image", "")


def test_the_page_lists_the_permissions_that_an_observer_uses() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "drivers.md").read_text()
    block = page.split("```yaml\n")[-1].split("```")[0]
    everywhere, here = (
        {(r, v) for rule in one["rules"] for r in rule["resources"] for v in rule["verbs"]}
        for one in yaml.safe_load_all(block)
    )
    used = {(one.kind.plural, verb) for one in PERMISSIONS for verb in one.verbs}
    assert everywhere | here == used
    assert here == {(kind, verb) for kind, verb in used if verb in ("create", "delete")}
