"""KEP-4680, ResourceStatus and ResourceHealth: statuses that the API server must refuse from any client."""

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.proto.values import MESSAGE_LIMIT, Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node

_FIELD = "allocatedResourcesStatus"
_ID = "gpu.example.com/pool/gpu-0"


@scenario("API-01")
async def test_the_api_server_refuses_entries_that_break_a_rule(node: Node) -> None:
    node.unjudged |= {"STATUS-07", "STATUS-18", "STATUS-20"}  # the scenario itself writes wrong statuses
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    healthy = {"resourceID": _ID, "health": "Healthy"}
    wrong = {
        "a claim that the container does not use": _entry("claim:other", healthy),
        "a resource that the container does not request": _entry("example.com/gpu", healthy),
        "a health that is none of the three": _entry(None, {**healthy, "health": "Degraded"}),
        "a device twice": _entry(None, healthy, healthy),
    }
    for what, entry in wrong.items():
        with node.judging("API-01", f"an entry with {what} is refused"):
            await _is_refused(node, await pod.object(), "containerStatuses", entry)
    with node.judging("API-01", "an entry with a message over 1024 bytes is refused"):
        too_long = _entry(None, {**healthy, "message": "m" * (MESSAGE_LIMIT + 1)})
        await _is_refused(node, await pod.object(), "containerStatuses", too_long)
    with node.judging("API-01", "an entry of an ephemeral container is refused"):
        await _is_refused(node, await pod.object(), "ephemeralContainerStatuses", _entry(None, healthy))


@scenario("API-01", "PODLEVEL-01")
async def test_the_api_server_refuses_entries_for_claims_that_the_pod_does_not_have(node: Node) -> None:
    node.unjudged.add("STATUS-18")  # the scenario itself writes wrong statuses
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    with node.judging("PODLEVEL-01", "an entry for a claim that is not of the pod is refused"):
        await _is_refused(node, await pod.object(), "", _entry("claim:other", {"resourceID": _ID, "health": "Healthy"}))


@scenario("API-02", needs=("kep-api",))
async def test_patches_merge_entries_by_their_names(node: Node) -> None:
    node.unjudged |= {"STATUS-18", "STATUS-19"}  # the scenario itself writes wrong and unchanged statuses
    driver = await node.driver(devices=3)
    unused, used = [await node.claim(driver) for _ in range(2)], await node.claim(driver)
    pod = await node.running_pod(used["gpu"], unused=unused)
    await pod.shows((await node.allocated(used))[0], Health.HEALTHY)
    identity = {"metadata": {"name": pod.name, "namespace": node.namespace}}
    with node.judging("API-02", "a patch of the pod's own field keeps the entries with other names"):
        names = _names(await pod.object())
        node.check(len(names) == 2, "an entry of the pod for each unused claim", names)
        patch = {**identity, "status": {_FIELD: [{"name": names[0]}]}}
        patched = [
            _names(await node.target.api.patch_status(PODS, pod.name, node.namespace, patch)),
            _names(await node.target.api.apply_status(PODS, patch, "a client")),
        ]
        node.check(patched == [names, names], f"the entries {names} after each patch", patched)
    with node.judging("API-02", "server-side apply refuses two entries with one name"):
        status = (await pod.object())["status"]["containerStatuses"][0]
        twice = {"containerStatuses": [{**status, _FIELD: status[_FIELD] * 2}]}
        try:
            await node.target.api.apply_status(PODS, {**identity, "status": twice}, "a client")
            answer = "it was accepted"
        except ApiError as error:
            answer = str(error)
        node.check("duplicate entries for key" in answer, "an error that names the key", answer)


def _names(pod: Object) -> list[str]:
    """The names of the entries in the pod's own field."""
    return [entry["name"] for entry in pod["status"].get(_FIELD) or ()]


def _entry(name: str | None, *resources: Object) -> Object:
    """An entry; None stands for the name of the first entry that the pod has."""
    return {**({"name": name} if name else {}), "resources": list(resources)}


async def _is_refused(node: Node, pod: Object, field: str, entry: Object) -> None:
    """Write the status with this entry in a container status, or in the pod's own field."""
    # Without resourceVersion: a write of the kubelet meanwhile is no conflict.
    metadata = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
    status = pod["status"]
    first = status["containerStatuses"][0]
    named = {"name": first["allocatedResourcesStatus"][0]["name"], **entry}
    if field == "ephemeralContainerStatuses":
        made = {"name": "debug", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        changed = {field: [{**made, "allocatedResourcesStatus": [named]}]}
    elif field:
        changed = {field: [{**first, "allocatedResourcesStatus": [named]}]}
    else:
        changed = {"allocatedResourcesStatus": [named]}
    try:
        await node.target.api.replace_status(PODS, {**pod, "metadata": metadata, "status": {**status, **changed}})
        answer = "it was accepted"
    except ApiError as error:
        answer = str(error)
        if error.status == 422:
            return
    node.check(False, "the API server refuses the status with 422 Invalid", answer)
