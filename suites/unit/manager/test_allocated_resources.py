"""Devices in a whole Pod status: regular containers, init containers, and unused devices."""

import pytest

from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.proto.values import AllocatedResources, ClaimUse, PodClaims
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import Node


async def used_everywhere(node: Node) -> PodClaims:
    """Three prepared claims of a pod: one of its container, one of its init container, one of none."""
    await node.run_driver(devices=("gpu-0", "gpu-1", "gpu-2"))
    names = ("main", "first", "idle")
    claims = [await node.claim(name, f"gpu-{number}") for number, name in enumerate(names)]
    await node.manager.prepare("pod", claims)
    main, first, idle = (ClaimUse(claim.ref.name, claim.ref.uid, listed=False) for claim in claims)
    return PodClaims({"main": [main], "other": []}, {"first": [first]}, [idle])


def names(shown: AllocatedResources) -> tuple[dict[str, list[str]], list[str]]:
    containers = {name: [entry.name for entry in entries] for name, entries in shown.containers.items()}
    return containers, [entry.name for entry in shown.pod]


@pytest.mark.counterpart("alpha2/status-pod-level")
async def test_kep_shows_devices_of_containers_init_containers_and_pod(node: Node) -> None:
    uses = await used_everywhere(node)
    shown = node.manager.allocated_resources_status("pod", uses)
    assert names(shown) == ({"first": ["claim:first/gpu"], "main": ["claim:main/gpu"]}, ["claim:idle/gpu"])


@pytest.mark.parametrize(
    ("profile", "containers"),
    [
        (NEWEST, {"main": ["claim:main"]}),
        (PROFILES["v1.36"], {"main": ["claim:main"]}),
        (PROFILES["v1.35"], {}),
        (PROFILES["v1.34"], {"main": ["claim:main"]}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_releases_show_regular_containers_alone(
    make_node: MakeNode, profile: Profile, containers: dict[str, list[str]]
) -> None:
    node = make_node(profile)
    await node.start()
    uses = await used_everywhere(node)
    assert names(node.manager.allocated_resources_status("pod", uses)) == (containers, [])


async def test_allocated_resources_status_is_kept_after_unprepare(node: Node) -> None:
    uses = await used_everywhere(node)
    before = node.manager.allocated_resources_status("pod", uses)
    await node.manager.unprepare("pod")
    assert node.manager.allocated_resources_status("pod", uses) == before


async def test_disabled_gate_gives_an_empty_allocated_resources_status(make_node: MakeNode) -> None:
    node = make_node(KEP, Gates(False, False))
    await node.start()
    uses = await used_everywhere(node)
    assert node.manager.allocated_resources_status("pod", uses) == AllocatedResources()
