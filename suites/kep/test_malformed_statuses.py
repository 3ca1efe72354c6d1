"""KEP-4680, ResourceStatus and ResourceHealth: statuses that have another shape than the API."""

from typing import Any

from drahealth.fakes.cluster.api import PODS, ApiError
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("API-01")
async def test_the_api_server_refuses_entries_with_values_of_a_wrong_type(node: Node) -> None:
    node.unjudged.add("STATUS-18")  # the scenario itself writes wrong statuses
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    [entry, *_] = (await pod.object())["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    element = entry["resources"][0]
    wrong: dict[str, Any] = {
        "a list that is a text": "Healthy",
        "an entry that is a text": ["Healthy"],
        "a name that is a number": [{**entry, "name": 1}],
        "devices that are a text": [{**entry, "resources": "Healthy"}],
        "a device that is a text": [{**entry, "resources": ["Healthy"]}],
        "an id that is a number": [{**entry, "resources": [{**element, "resourceID": 1}]}],
        "a health that is a number": [{**entry, "resources": [{**element, "health": 1}]}],
    }
    for what, entries in wrong.items():
        with node.judging("API-01", f"{what} is refused"):
            answer = await _answer(node, await pod.object(), entries)
            node.check(answer == 400, "the API server refuses the status with 400 Bad Request", answer)
    with node.judging("API-01", "a message that is a number is refused"):
        answer = await _answer(node, await pod.object(), [{**entry, "resources": [{**element, "message": 1}]}])
        node.check(answer == 400, "the API server refuses the status with 400 Bad Request", answer)


async def _answer(node: Node, pod: dict[str, Any], entries: Any) -> int:
    """The status code for a write with these entries in the first container status."""
    # Without resourceVersion: a write of the kubelet meanwhile is no conflict.
    metadata = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
    first, *others = pod["status"]["containerStatuses"]
    statuses = [{**first, "allocatedResourcesStatus": entries}, *others]
    try:
        await node.target.api.replace_status(
            PODS, {**pod, "metadata": metadata, "status": {**pod["status"], "containerStatuses": statuses}}
        )
    except ApiError as error:
        return error.status
    return 200
