"""The fault model of wrong drivers."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.proto.health_apis import HEALTH_APIS, V1, V1ALPHA1
from drahealth.proto.values import DeviceHealth, Health
from driver_space.model import (
    DEVICES,
    DIMENSIONS,
    OF_FAMILY,
    WHAT,
    Reported,
    Streams,
    WrongDriver,
    is_visible,
    sample,
    why_survives,
)
from driver_space.right import RIGHT


def truth(**health: Health) -> list[DeviceHealth]:
    named = {name.replace("_", "-"): one for name, one in health.items()}
    return [DeviceHealth("pool", name, named.get(name, Health.HEALTHY)) for name in DEVICES]


HEALTHY, BROKEN = truth(), truth(dev_1=Health.UNHEALTHY)


def sees(streams: Streams, devices: list[DeviceHealth]) -> None:
    streams.sees({api.name: devices for api in HEALTH_APIS.values()})


def test_a_seed_has_the_same_drivers_and_a_smaller_count_its_first_ones() -> None:
    drivers = sample(20, 7).drivers
    assert (sample(20, 7).drivers, sample(8, 7).drivers) == (drivers, drivers[:8])


def test_all_drivers_of_a_sample_differ_and_are_visible() -> None:
    drivers = sample(60, 3).drivers
    assert len({one.name for one in drivers}) == 60
    assert all(map(is_visible, drivers))


def test_a_large_sample_has_each_defect_and_each_value_of_each_dimension() -> None:
    drivers = sample(900, 1).drivers
    values = {name: {getattr(one, name) for one in drivers} for name in DIMENSIONS}
    assert {one.what for one in drivers} == WHAT.keys()
    assert all(values[name] >= known.keys() for name, (_, known) in DIMENSIONS.items())


def test_each_driver_has_the_dimensions_of_its_family() -> None:
    assert all(
        bool(getattr(one, name)) >= (name in OF_FAMILY[one.family] and one.what != "slice-deleted")
        for one in sample(60, 3).drivers
        for name in DIMENSIONS
    )


@pytest.mark.parametrize(
    "driver",
    [
        WrongDriver("as-healthy", "all", "all", "any", "start", "healthy"),
        WrongDriver("unimplemented", api="v1alpha1", subscriber="any"),
        WrongDriver("slice-drops", "last"),
    ],
    ids=lambda one: one.name,
)
def test_what_a_right_driver_may_do_is_no_wrong_driver(driver: WrongDriver) -> None:
    assert not is_visible(driver)


def reports(driver: WrongDriver) -> list[Reported]:
    """What two streams show of a fault: the first one of each of two health APIs."""
    streams = Streams(driver)
    views = [streams.opens(V1), streams.opens(V1ALPHA1)]
    found = []
    for devices in (HEALTHY, BROKEN):
        sees(streams, devices)
        found += [view.report(devices, streams.situation) for view in views]
    return found[2:]


SENT = ("send", tuple(BROKEN))


def test_a_lost_change_of_one_health_api_shows_only_there() -> None:
    driver = WrongDriver("lost", "all", "v1alpha1", "any", "start", "unhealthy")
    assert reports(driver) == [SENT, ("send", tuple(HEALTHY))]


def test_a_defect_of_another_device_does_not_show() -> None:
    assert reports(WrongDriver("lost", "first", "all", "any", "start", "any")) == [SENT, SENT]


def test_a_stream_that_ends_at_a_change_ends_there() -> None:
    assert reports(WrongDriver("ends", "all", "v1", "first", "start", "unhealthy")) == [("end", ()), SENT]


def test_a_wrong_field_of_the_broken_device_is_only_in_that_device() -> None:
    wrong = tuple(replace(one, timeout=1) if one.health is Health.UNHEALTHY else one for one in BROKEN)
    driver = WrongDriver("short-timeout", "broken", "all", "any", "fault")
    assert reports(driver) == [("send", wrong), ("send", wrong)]


def test_a_subscriber_that_comes_during_a_fault_is_told_from_the_others() -> None:
    streams = Streams(WrongDriver("healthy-first", api="all", subscriber="during"))
    before = streams.opens(V1)
    sees(streams, BROKEN)
    during = streams.opens(V1)
    shown = [view.report(BROKEN, streams.situation) for view in (before, during)]
    assert shown == [SENT, ("send", tuple(HEALTHY))]


def test_each_unusual_right_driver_says_what_is_unusual() -> None:
    assert [name for name, one in RIGHT.items() if not one.__doc__] == []


def test_each_wrong_driver_that_survives_has_a_reason() -> None:
    folder = Path(__file__).parents[3] / "ci" / "mutants"
    reasons = tomllib.loads((folder / "driver-survivors.toml").read_text())
    survivors = json.loads((folder / "generated-drivers.json").read_text())["survivors"]
    named = [name for name, one in survivors.items() if one["outcome"] != "noted"]
    assert [name for name in named if not why_survives(name, reasons)] == []
