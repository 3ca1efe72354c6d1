"""Device lists of device plugins: precedence of lists, device health, and node capacity."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.manager.resources import GRACE, Resources
from drahealth.proto.values import Amount, Health, PluginDevice, health_of

GPU = "example.com/gpu"


def listing(**devices: str) -> list[PluginDevice]:
    return [PluginDevice(name, health) for name, health in devices.items()]


def listed(profile: Profile = KEP, **devices: str) -> Resources:
    """The resource with one plugin, `p`, that listed these."""
    resources = Resources(profile)
    resources.came(GPU, "p")
    resources.listed(GPU, "p", listing(**devices))
    return resources


@pytest.mark.parametrize(
    ("word", "health"),
    [("Healthy", "Healthy"), ("Unhealthy", "Unhealthy"), ("", "Unhealthy"), ("healthy", "Unhealthy")]
    + [(word, "Unhealthy") for word in ("Unknown", "Degraded", "Healthy ", "健康")],
)
def test_every_word_but_healthy_is_unhealthy(word: str, health: str) -> None:
    assert listed(a=word).health(GPU, "a") == health


def test_list_returns_changed_new_and_removed_devices() -> None:
    resources = listed(same="Healthy", changes="Healthy", vanishes="Healthy")
    assert resources.listed(GPU, "p", listing(same="Healthy", changes="Sick", new="Healthy")) == {
        "changes",
        "new",
        "vanishes",
    }


def test_1_37_does_not_report_a_removed_device_as_changed() -> None:
    assert listed(NEWEST, a="Healthy").listed(GPU, "p", []) == frozenset()


@pytest.mark.parametrize(("profile", "reads"), [(KEP, "Unknown"), (NEWEST, "Healthy"), (PROFILES["v1.36"], "Healthy")])
def test_unlisted_device_reads_unknown_in_the_kep_only(profile: Profile, reads: str) -> None:
    resources = listed(profile, a="Unhealthy")
    resources.listed(GPU, "p", [])
    assert resources.health(GPU, "a") == reads


@pytest.mark.parametrize(
    ("profile", "reads"), [(KEP, "Unknown"), (NEWEST, "Unhealthy"), (PROFILES["v1.36"], "Unhealthy")]
)
def test_device_of_stopped_plugin_reads_unknown_in_the_kep_only(profile: Profile, reads: str) -> None:
    resources = listed(profile, a="Unhealthy", b="Healthy")
    told = resources.left(GPU, "p", 0.0)
    assert (resources.health(GPU, "a"), told) == (reads, {"a", "b"} if profile is KEP else frozenset())


@pytest.mark.parametrize(("profile", "reads"), [(KEP, "Unknown"), (NEWEST, "Healthy")])
def test_device_after_restart_reads_unknown_in_the_kep_only(profile: Profile, reads: str) -> None:
    resources = Resources(profile, [GPU], 0.0)
    assert (resources.health(GPU, "a"), resources.amounts(0.0)) == (reads, {GPU: Amount(0, 0)})


def test_of_two_devices_with_one_id_the_later_counts() -> None:
    resources = listed()
    resources.listed(GPU, "p", [PluginDevice("a", "Healthy"), PluginDevice("a", "Sick")])
    assert (resources.health(GPU, "a"), resources.amounts(0.0)) == (Health.UNHEALTHY, {GPU: Amount(1, 0)})


def test_capacity_counts_all_devices_and_allocatable_only_healthy_ones() -> None:
    resources = listed(a="Healthy", b="Unhealthy", c="Healthy")
    assert (resources.amounts(0.0), resources.healthy(GPU)) == ({GPU: Amount(3, 2)}, ["a", "c"])


@pytest.mark.parametrize("profile", [KEP, NEWEST])
def test_the_capacity_of_a_gone_plugin_lasts_five_minutes(profile: Profile) -> None:
    resources = listed(profile, a="Healthy")
    resources.left(GPU, "p", 100.0)
    assert [resources.amounts(at) for at in (100.0, 100.0 + GRACE, 100.1 + GRACE)] == [
        {GPU: Amount(1, 0)},
        {GPU: Amount(1, 0)},
        {},
    ]


def two(profile: Profile) -> Resources:
    """An older plugin that lists `a` healthy, and a newer one that lists it sick."""
    resources = listed(profile, a="Healthy")
    resources.came(GPU, "newer")
    resources.listed(GPU, "newer", listing(a="Sick"))
    return resources


@pytest.mark.parametrize(
    ("profile", "reads"), [(KEP, "Unhealthy"), (NEWEST, "Healthy"), (PROFILES["v1.36"], "Healthy")]
)
def test_list_of_the_older_plugin_applies_in_releases_only(profile: Profile, reads: str) -> None:
    resources = two(profile)
    resources.listed(GPU, "p", listing(a="Healthy"))
    assert resources.health(GPU, "a") == reads


@pytest.mark.parametrize(("profile", "healthy"), [(KEP, ["b"]), (NEWEST, ["b"]), (PROFILES["v1.36"], [])])
def test_older_plugins_end_clears_allocatable_only_in_1_36(profile: Profile, healthy: list[str]) -> None:
    resources = two(profile)
    resources.listed(GPU, "newer", listing(a="Sick", b="Healthy"))
    resources.left(GPU, "p", 0.0)
    assert (resources.health(GPU, "a"), resources.healthy(GPU)) == (Health.UNHEALTHY, healthy)


def test_older_plugin_applies_again_after_the_newer_deregisters() -> None:
    resources = two(KEP)
    told = set(resources.left(GPU, "newer", 0.0))
    assert (told, resources.health(GPU, "a")) == ({"a"}, Health.HEALTHY)


def test_reregistered_plugin_keeps_the_previous_list() -> None:
    resources = listed(a="Healthy", b="Sick")
    resources.came(GPU, "again")
    told = resources.left(GPU, "p", 0.0)
    assert (set(told), resources.health(GPU, "a"), resources.healthy(GPU)) == (set(), Health.HEALTHY, ["a"])
    assert resources.listed(GPU, "again", listing(a="Healthy", b="Healthy")) == {"b"}


def test_reregistered_plugin_that_ends_without_a_list_clears_health() -> None:
    resources = listed(a="Healthy")
    resources.came(GPU, "again")
    resources.left(GPU, "p", 0.0)
    assert (set(resources.left(GPU, "again", 0.0)), resources.health(GPU, "a")) == ({"a"}, Health.UNKNOWN)


def test_older_plugins_list_applies_until_the_newer_plugin_lists() -> None:
    resources = listed(a="Healthy")
    resources.came(GPU, "newer")
    told = set(resources.listed(GPU, "p", listing(a="Sick")))
    assert (told, resources.health(GPU, "a")) == ({"a"}, Health.UNHEALTHY)


@pytest.mark.parametrize("profile", [NEWEST, PROFILES["v1.36"]])
def test_releases_allocate_no_devices_after_reregistration_until_the_next_list(profile: Profile) -> None:
    resources = listed(profile, a="Healthy")
    resources.came(GPU, "again")
    told = set(resources.left(GPU, "p", 0.0))
    assert (told, resources.amounts(0.0)) == (set(), {GPU: Amount(1, 0)})


def test_list_after_the_end_of_its_plugin_is_ignored() -> None:
    resources = listed(a="Healthy")
    resources.left(GPU, "p", 0.0)
    assert resources.listed(GPU, "p", listing(a="Sick")) == frozenset()


IDS, WORDS = st.sampled_from("abc"), st.sampled_from(["Healthy", "Unhealthy", "odd", ""])
LISTS = st.lists(st.builds(PluginDevice, IDS, WORDS), max_size=4)
STEPS = st.lists(st.tuples(st.just("list"), LISTS) | st.just(("leave",)) | st.just(("come",)), max_size=12)


@given(STEPS)
def test_every_health_change_is_reported_for_any_sequence_of_lists(steps: Sequence[tuple[Any, ...]]) -> None:
    """Against the plainest model: what the last list says, while its plugin is there."""
    resources, there, model = Resources(KEP), False, dict[str, Health]()
    for what, *list_ in steps:
        before, told = model, frozenset[str]()
        if what == "come" and not there:
            there = True
            resources.came(GPU, "p")
        elif what == "leave" and there:
            there, model = False, {}
            told = resources.left(GPU, "p", 0.0)
        elif what == "list":
            told = resources.listed(GPU, "p", *list_)
            model = {device.id: health_of(device.health) for device in list_[0]} if there else model
        read = {name: resources.health(GPU, name) for name in "abc"}
        assert read == {name: model.get(name, Health.UNKNOWN) for name in "abc"}
        assert told >= {name for name in "abc" if before.get(name) != model.get(name)}


@given(
    STEPS,
    st.sampled_from([KEP, NEWEST, PROFILES["v1.36"], replace(NEWEST, resource_plugins="newest")]),
)
def test_allocatable_never_exceeds_capacity(steps: Sequence[tuple[Any, ...]], profile: Profile) -> None:
    resources, there = Resources(profile), False
    for what, *list_ in steps:
        if what == "come" and not there:
            there = True
            resources.came(GPU, "p")
        elif what == "leave" and there:
            there = False
            resources.left(GPU, "p", 0.0)
        elif what == "list":
            resources.listed(GPU, "p", *list_)
        amount = resources.amounts(0.0).get(GPU, Amount(0, 0))
        assert (amount.allocatable, amount.allocatable <= amount.capacity) == (len(resources.healthy(GPU)), True)
        assert there or amount.allocatable == 0
