"""The health part of a container's status."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.cache import UNKNOWN, Reading
from drahealth.manager.device_status import cut, entries, is_shown, resource_id
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.proto.values import ClaimUse, DeviceId, Health, PreparedDevice, ResourceHealth, ResourceStatus

HEALTHY, UNHEALTHY, UNKNOWN_HEALTH = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN


def device(name: str, *requests: str, cdi: Sequence[str] = ()) -> PreparedDevice:
    return PreparedDevice(DeviceId("gpu.example.com", "node-a", name), requests, tuple(cdi))


def status(
    uses: Sequence[ClaimUse],
    devices: Mapping[str, Sequence[PreparedDevice]],
    health: Mapping[str, Reading] | None = None,
    profile: Profile = KEP,
    **gates: bool,
) -> list[dict[str, object]]:
    """The entries as the API spells them; `devices` by claim uid, `health` by the device's name."""
    known = health or {}
    shown = entries(uses, lambda uid: devices.get(uid, ()), lambda d: known.get(d.device, UNKNOWN), profile, **gates)
    return [entry.to_json() for entry in shown]


def names(shown: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {entry["name"]: [r["resourceID"].rpartition("/")[2] for r in entry["resources"]] for entry in shown}


@pytest.mark.counterpart(
    "kep/manager-status", "alpha2/status-format", "TestUpdateAllocatedResourcesStatus", "TestToResourceHealthStatus"
)
def test_an_entry_names_the_claim_and_lists_its_devices_with_their_health() -> None:
    health = {"gpu-0": Reading(UNHEALTHY, "xid 79"), "gpu-1": Reading(HEALTHY)}
    assert status([ClaimUse("gpus", "c")], {"c": [device("gpu-0"), device("gpu-1")]}, health) == [
        {
            "name": "claim:gpus",
            "resources": [
                {"resourceID": "gpu.example.com/node-a/gpu-0", "health": "Unhealthy", "message": "xid 79"},
                {"resourceID": "gpu.example.com/node-a/gpu-1", "health": "Healthy"},
            ],
        }
    ]


@pytest.mark.counterpart("TestToResourceHealthStatus")
def test_unreported_device_is_unknown() -> None:
    assert entries([ClaimUse("gpus", "c")], lambda _: [device("gpu-0")], lambda _: UNKNOWN, KEP) == (
        ResourceStatus("claim:gpus", (ResourceHealth("gpu.example.com/node-a/gpu-0", UNKNOWN_HEALTH),)),
    )


@pytest.mark.counterpart("kep/manager-status", "TestUpdateAllocatedResourcesStatus")
def test_entry_of_a_request_lists_its_devices() -> None:
    devices = {"c": [device("gpu-0", "big"), device("nic-0", "net"), device("any-0"), device("both-0", "net", "big")]}
    uses = [ClaimUse("gpus", "c", "big"), ClaimUse("gpus", "c", "net")]
    assert names(status(uses, devices)) == {
        "claim:gpus/big": ["gpu-0", "any-0", "both-0"],
        "claim:gpus/net": ["nic-0", "any-0", "both-0"],
    }


def test_whole_claim_has_an_entry_per_request_except_in_releases() -> None:
    devices = {"c": [device("gpu-0", "big"), device("nic-0", "net"), device("any-0"), device("both-0", "net", "big")]}
    assert names(status([ClaimUse("gpus", "c")], devices)) == {
        "claim:gpus/big": ["gpu-0", "any-0", "both-0"],
        "claim:gpus/net": ["nic-0", "any-0", "both-0"],
    }
    for profile in (NEWEST, PROFILES["v1.36"], PROFILES["v1.35"], PROFILES["v1.34"]):
        assert names(status([ClaimUse("gpus", "c")], devices, profile=profile)) == {
            "claim:gpus": ["gpu-0", "nic-0", "any-0", "both-0"]
        }


def test_whole_claim_entry_without_requests_names_only_the_claim() -> None:
    assert names(status([ClaimUse("gpus", "c")], {"c": [device("gpu-0"), device("gpu-1")]})) == {
        "claim:gpus": ["gpu-0", "gpu-1"]
    }


@pytest.mark.counterpart("TestUpdateAllocatedResourcesStatus_Subrequest")
def test_subrequest_keeps_its_name_and_lists_devices_of_its_request() -> None:
    devices = {"c": [device("gpu-0", "big"), device("gpu-1", "big/a40")]}
    assert names(status([ClaimUse("gpus", "c", "big/a40")], devices)) == {"claim:gpus/big/a40": ["gpu-0"]}


@pytest.mark.parametrize("devices", [{}, {"c": []}, {"c": [device("gpu-0", "other")]}])
def test_a_use_without_devices_has_no_entry(devices: dict[str, list[PreparedDevice]]) -> None:
    assert status([ClaimUse("gpus", "c", "big")], devices) == []


def test_entries_come_in_the_order_of_the_containers_claims() -> None:
    devices = {"c": [device("gpu-0")], "d": [device("gpu-1")]}
    assert list(names(status([ClaimUse("b", "d"), ClaimUse("a", "c")], devices))) == ["claim:b", "claim:a"]


def test_two_claims_on_one_device_each_list_it() -> None:
    devices = {"c": [device("gpu-0")], "d": [device("gpu-0")]}
    uses = [ClaimUse("a", "c"), ClaimUse("b", "d")]
    assert names(status(uses, devices)) == {"claim:a": ["gpu-0"], "claim:b": ["gpu-0"]}


def test_a_claim_used_twice_alike_has_one_entry() -> None:
    assert names(status([ClaimUse("a", "c")] * 2, {"c": [device("gpu-0")]})) == {"claim:a": ["gpu-0"]}


@pytest.mark.counterpart("TestBuildResourceHealth")
@pytest.mark.parametrize(
    ("profile", "cdi", "expected"),
    [
        (KEP, ["vendor/gpu=0"], "gpu.example.com/node-a/gpu-0"),
        (NEWEST, ["vendor/gpu=0", "vendor/gpu=all"], "vendor/gpu=0"),
        (NEWEST, [], "gpu.example.com/node-a/gpu-0"),
    ],
)
def test_device_id_depends_on_the_profile(profile: Profile, cdi: list[str], expected: str) -> None:
    assert resource_id(device("gpu-0", cdi=cdi), profile) == expected


@pytest.mark.parametrize(
    ("healths", "worst"),
    [
        ([HEALTHY, UNHEALTHY, UNKNOWN_HEALTH], "1"),
        ([HEALTHY, UNKNOWN_HEALTH, HEALTHY], "1"),
        ([UNHEALTHY, UNKNOWN_HEALTH, UNHEALTHY], "0"),
        ([UNKNOWN_HEALTH, HEALTHY, UNHEALTHY], "2"),
    ],
)
def test_duplicate_ids_show_the_first_or_worst_device(healths: list[Health], worst: str) -> None:
    devices = {"c": [device(str(number), cdi=["vendor/cpu=all"]) for number in range(3)]}
    health = {str(number): Reading(what, f"of {number}") for number, what in enumerate(healths)}
    for profile, shown in ((NEWEST, "0"), (replace(NEWEST, duplicate_id_shows="worst"), worst)):
        entry = {"resourceID": "vendor/cpu=all", "health": health[shown].health, "message": f"of {shown}"}
        assert status([ClaimUse("cpus", "c")], devices, health, profile) == [
            {"name": "claim:cpus", "resources": [entry]}
        ]


@pytest.mark.counterpart("TestBuildResourceHealth")
def test_messages_show_only_with_their_gate_enabled() -> None:
    uses, devices, health = [ClaimUse("a", "c")], {"c": [device("gpu-0")]}, {"gpu-0": Reading(HEALTHY, "warm")}
    on, off = (status(uses, devices, health, messages=gate) for gate in (True, False))
    plain = {"resourceID": "gpu.example.com/node-a/gpu-0", "health": "Healthy"}
    assert (on[0]["resources"], off[0]["resources"]) == ([{**plain, "message": "warm"}], [plain])


@pytest.mark.counterpart("TestTruncateHealthMessage")
@pytest.mark.parametrize(
    ("message", "by_character", "by_byte"),
    [
        ("", "", ""),
        ("xid 79", "xid 79", "xid 79"),
        ("x" * 1024, "x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "...", "x" * 1021 + "..."),
        ("x" * 10_000, "x" * 1021 + "...", "x" * 1021 + "..."),
        ("é" * 512, "é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + "...", "é" * 510 + "\N{REPLACEMENT CHARACTER}..."),
        ("x" + "é" * 512, "x" + "é" * 510 + "...", "x" + "é" * 510 + "..."),
        ("x" * 1020 + "😀😀", "x" * 1020 + "...", "x" * 1020 + "\N{REPLACEMENT CHARACTER}..."),
        ("x" * 1018 + "😀😀", "x" * 1018 + "...", "x" * 1018 + "\N{REPLACEMENT CHARACTER}" * 3 + "..."),
    ],
)
def test_a_message_over_1024_bytes_is_cut(message: str, by_character: str, by_byte: str) -> None:
    assert (cut(message, KEP), cut(message, NEWEST)) == (by_character, by_byte)


@given(st.text(st.sampled_from("aé€😀"), min_size=200, max_size=1100))
def test_cut_message_is_a_prefix_within_the_byte_limit(message: str) -> None:
    shown = cut(message, KEP)
    assert len(shown.encode()) <= 1024
    assert shown == message or (shown.endswith("...") and message.startswith(shown[:-3]) and len(shown.encode()) > 1020)


TWO_REQUESTS = {"c": [device("gpu-0", "big"), device("nic-0", "net")]}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (PROFILES["v1.36"], {"claim:gpus/big": ["gpu-0"], "claim:gpus/net": ["nic-0"]}),
        (PROFILES["v1.35"], {"claim:gpus/big": ["gpu-0", "nic-0"], "claim:gpus/net": ["gpu-0", "nic-0"]}),
        (PROFILES["v1.34"], {"claim:gpus/big": ["gpu-0", "nic-0"]}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_separation_of_requests_depends_on_the_release(profile: Profile, expected: dict[str, list[str]]) -> None:
    uses = [ClaimUse("gpus", "c", "big"), ClaimUse("gpus", "c", "net")]
    assert names(status(uses, TWO_REQUESTS, profile=profile)) == expected


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (PROFILES["v1.36"], [True, True, True]),
        (PROFILES["v1.35"], [False, True, True]),
        (PROFILES["v1.34"], [True, False, False]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_releases_show_claims_by_how_the_pod_names_them(profile: Profile, expected: list[bool]) -> None:
    direct, made = ClaimUse("gpus", "c"), ClaimUse("gpus", "c", listed=True)
    asked = [is_shown(direct, "gpus", profile), is_shown(made, "pod-gpus-x", profile)]
    assert [*asked, is_shown(made, "other", profile)] == expected


def test_the_kep_and_an_open_fix_show_claims_for_extended_resources() -> None:
    use = ClaimUse("pod-extended-x", "c", "container-0-request-0", extended=True)
    shown = {name: is_shown(use, "pod-extended-x", profile) for name, profile in PROFILES.items()}
    assert [name for name, is_there in shown.items() if is_there] == ["kep", "next"]


def test_two_devices_with_one_id_are_both_listed_before_1_36() -> None:
    devices = {"c": [device("gpu-0", cdi=["all"]), device("gpu-1", cdi=["all"])]}
    shown = [
        names(status([ClaimUse("a", "c")], devices, profile=profile))
        for profile in (PROFILES["v1.36"], PROFILES["v1.35"])
    ]
    assert shown == [{"claim:a": ["all"]}, {"claim:a": ["all", "all"]}]
