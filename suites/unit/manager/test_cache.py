"""The health information cache, rule by rule (H-01 to H-18) and against a model of the rules."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.cache import UNKNOWN, Entry, HealthCache, Reading
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.proto.values import DeviceHealth, DeviceId, Health

A, B, C = (DeviceId("gpu.example.com", "node-a", name) for name in ("gpu-0", "gpu-1", "gpu-2"))
HEALTHY = Reading(Health.HEALTHY)
SICK = Reading(Health.UNHEALTHY, "xid 79")
READ_ALL = [KEP, NEWEST]
"""Profiles that know every field of a report."""
every_profile = pytest.mark.parametrize("profile", READ_ALL, ids=lambda profile: profile.name)


def says(device: DeviceId, health: str = "Healthy", message: str = "", timeout: int = 0) -> DeviceHealth:
    return DeviceHealth(device.pool, device.device, Health(health), message, timeout)


class Story:
    """A cache that hears reports at given seconds."""

    def __init__(self, profile: Profile) -> None:
        self.cache = HealthCache(profile)

    def told(self, at: float, *devices: DeviceHealth, driver: str = A.driver) -> set[DeviceId]:
        """Whose health a report changed."""
        return set(self.cache.update(driver, devices, at).changed)

    def known(self) -> dict[DeviceId, Entry]:
        return dict(self.cache.entries())


@pytest.fixture
def kep() -> Story:
    return Story(KEP)


@pytest.fixture
def v1_37() -> Story:
    return Story(NEWEST)


@pytest.fixture(params=READ_ALL, ids=lambda profile: profile.name)
def story(request: pytest.FixtureRequest) -> Story:
    return Story(request.param)


@pytest.mark.counterpart("kep/cache-retrieval", "alpha2/get-unknown", "TestGetHealthInfo", "TestGetHealthInfoRobust")
def test_a_device_that_was_never_reported_shows_unknown(story: Story) -> None:
    story.told(0, says(A))
    assert (story.cache.read(B, 0), story.cache.read(replace(A, driver="other"), 0)) == (UNKNOWN, UNKNOWN)


@pytest.mark.counterpart("kep/cache-reconciliation", "kep/cache-retrieval", "alpha2/get-existing", "TestGetHealthInfo")
def test_device_has_the_last_reported_health_and_message(story: Story) -> None:
    story.told(0, says(A), says(B))
    story.told(1, says(A, "Unhealthy", "xid 79"), says(B))
    assert (story.cache.read(A, 2), story.cache.read(B, 2)) == (SICK, HEALTHY)


def test_last_entry_of_a_device_in_one_report_applies(story: Story) -> None:
    story.told(0, says(A), says(A, "Unhealthy", "xid 79"))
    assert story.cache.read(A, 0) == SICK


@pytest.mark.counterpart("kep/cache-last-updated")
@pytest.mark.parametrize("updated", [-1, 0, 1, 2**40])
def test_last_updated_time_of_the_driver_is_ignored(story: Story, updated: int) -> None:
    story.told(100, replace(says(A), updated=updated))
    assert [story.cache.read(A, 100 + age) for age in (30, 31)] == [HEALTHY, UNKNOWN]


@pytest.mark.counterpart("kep/cache-changed", "alpha2/update-changed-devices", "TestUpdateHealthInfo")
@pytest.mark.parametrize(
    ("second", "changed"),
    [
        (says(A), False),
        (replace(says(A), updated=7), False),
        (says(A, timeout=30), False),
        (says(A, timeout=-1), False),
        (says(A, "Unhealthy"), True),
        (says(A, "Unknown"), True),
        (says(A, message="warm"), True),
        (says(A, timeout=31), True),
    ],
)
def test_new_health_message_or_timeout_is_a_change(story: Story, second: DeviceHealth, changed: bool) -> None:
    assert story.told(0, says(A)) == {A}
    assert story.told(1, second) == ({A} if changed else set())


@pytest.mark.counterpart("kep/cache-changed", "alpha2/update-changed-devices")
def test_only_changed_devices_are_returned(story: Story) -> None:
    story.told(0, says(A), says(B))
    assert story.told(1, says(A), says(B, "Unhealthy"), says(C)) == {B, C}


@pytest.mark.counterpart(
    "kep/cache-timeout",
    "kep/cache-retrieval",
    "alpha2/get-timed-out",
    "TestGetHealthInfo",
    "TestGetHealthInfoRobust",
    "TestBuildDeviceHealth",
)
@pytest.mark.parametrize(("timeout", "seconds"), [(0, 30), (-5, 30), (1, 1), (30, 30), (600, 600)])
def test_device_is_unknown_after_its_timeout(story: Story, timeout: int, seconds: int) -> None:
    story.told(10, says(A, timeout=timeout))
    assert [story.cache.read(A, 10 + age) for age in (0, seconds, seconds + 0.001)] == [HEALTHY, HEALTHY, UNKNOWN]


@pytest.mark.counterpart("kep/cache-last-updated", "alpha2/update-last-updated")
def test_heartbeat_renews_a_device_and_notifies_no_pod(story: Story) -> None:
    story.told(0, says(A))
    assert story.told(25, says(A)) == set()
    assert story.cache.read(A, 50) == HEALTHY


def test_reading_writes_nothing(story: Story) -> None:
    story.told(0, says(A, "Unhealthy", "xid 79"))
    story.cache.read(A, 1000)
    assert story.known() == {A: Entry(Health.UNHEALTHY, "xid 79", 30.0, 0)}


@pytest.mark.counterpart(
    "kep/cache-reconciliation",
    "alpha2/update-reconciles",
    "alpha2/update-absent-preserved",
    "alpha2/update-absent-unknown",
    "TestUpdateHealthInfo",
)
def test_device_missing_from_a_report_keeps_its_health_until_it_is_stale(story: Story) -> None:
    story.told(0, says(A, "Unhealthy", "xid 79"), says(B))
    assert story.told(29, says(B)) == set()
    assert (story.cache.read(A, 30), story.cache.read(A, 31)) == (SICK, UNKNOWN)


@pytest.mark.counterpart("alpha2/update-absent-unknown", "TestUpdateHealthInfoStaleEntryRemoval")
def test_stale_device_missing_from_a_report_is_notified_once(story: Story) -> None:
    story.told(0, says(A), says(B))
    assert [story.told(at, says(B)) for at in (30, 31, 60, 90)] == [set(), {A}, set(), set()]


@pytest.mark.counterpart("TestUpdateHealthInfoStaleEntryRemoval")
def test_stale_device_that_was_unknown_is_not_notified(story: Story) -> None:
    story.told(0, says(A, "Unknown"))
    assert story.told(31) == set()


@pytest.mark.counterpart("TestUpdateHealthInfoStaleEntryRemoval")
def test_kep_keeps_a_stale_device_as_unknown_and_1_37_removes_it(kep: Story, v1_37: Story) -> None:
    for story in (kep, v1_37):
        story.told(0, says(A, message="warm", timeout=5))
        story.told(6)
    assert kep.known() == {A: Entry(Health.UNKNOWN, "", 5.0, 6)}
    assert v1_37.known() == {}


def test_recovery_of_stale_device_is_notified_in_the_kep_only(kep: Story, v1_37: Story) -> None:
    for story in (kep, v1_37):
        story.told(0, says(A))
    assert (kep.told(31, says(A)), v1_37.told(31, says(A))) == ({A}, set())
    assert (kep.cache.read(A, 31), v1_37.cache.read(A, 31)) == (HEALTHY, HEALTHY)


def test_stale_device_that_reports_unknown_is_not_notified(kep: Story) -> None:
    kep.told(0, says(A, "Unknown"))
    assert kep.told(31, says(A, "Unknown")) == set()


@pytest.mark.parametrize("names", [("", ""), ("node-b", "no such device"), ("a/b", "c")])
def test_unusual_device_names_are_accepted(story: Story, names: tuple[str, str]) -> None:
    odd = DeviceId(A.driver, *names)
    assert story.told(0, says(odd)) == {odd}
    assert story.cache.read(odd, 0) == HEALTHY


SPLITS = [DeviceId("d", "a/b", "c"), DeviceId("d", "a", "b/c")]
"""Two devices of one name where pool and device are joined by a slash (B-30)."""


def test_1_37_merges_devices_whose_joined_names_are_equal(kep: Story, v1_37: Story) -> None:
    for story in (kep, v1_37):
        story.told(0, says(SPLITS[0]), says(SPLITS[1], "Unhealthy", "xid 79"), driver="d")
    assert [kep.cache.read(device, 0) for device in SPLITS] == [HEALTHY, SICK]
    assert [v1_37.cache.read(device, 0) for device in SPLITS] == [SICK, SICK]


@pytest.mark.parametrize("device", SPLITS)
def test_notification_names_the_merged_device_as_the_driver_reported_it(v1_37: Story, device: DeviceId) -> None:
    assert v1_37.told(0, says(device), driver="d") == {device}
    assert v1_37.told(31, driver="d") == {device}


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        (9223372036, 9223372036.0),
        (9223372037, 1e-9),
        (18446744074, 0.290448384),
        (2**62, 30.0),
        (2**63 - 1, 1e-9),
    ],
)
def test_timeout_overflows_nanoseconds_in_1_37_only(kep: Story, v1_37: Story, timeout: int, seconds: float) -> None:
    for story in (kep, v1_37):
        story.told(0, says(A, timeout=timeout))
    assert (kep.known()[A].timeout, v1_37.known()[A].timeout) == (float(timeout), seconds)


@pytest.mark.counterpart("TestGetHealthInfoRobust")
def test_devices_of_two_drivers_are_independent(story: Story) -> None:
    other = replace(A, driver="nic.example.com")
    story.told(0, says(A))
    story.told(0, says(other, "Unhealthy", "xid 79"), driver=other.driver)
    assert story.told(31, says(other, "Unhealthy", "xid 79"), driver=other.driver) <= {other}
    assert (story.cache.read(A, 20), story.cache.read(other, 31)) == (HEALTHY, SICK)


@pytest.mark.counterpart("TestUpdateHealthInfoDeviceCap")
def test_1_37_ignores_new_names_beyond_its_limit() -> None:
    cache = HealthCache(replace(NEWEST, devices_per_driver=2))
    first = cache.update(A.driver, (says(A), says(B), says(C)), 0)
    second = cache.update(A.driver, (says(C), says(A, "Unhealthy")), 1)
    assert (set(first.changed), first.refused) == ({A, B}, 1)
    assert (set(second.changed), second.refused) == ({A}, 1)
    assert cache.read(C, 1) == UNKNOWN


@pytest.mark.counterpart("TestUpdateHealthInfoDeviceCap")
def test_limit_is_16384_devices_per_driver_in_1_37_and_none_in_the_kep(kep: Story, v1_37: Story) -> None:
    report = tuple(says(DeviceId("d", "p", str(number))) for number in range(16385))
    assert (v1_37.cache.update("d", report, 0).refused, kep.cache.update("d", report, 0).refused) == (1, 0)
    assert v1_37.cache.update("other", report[:1], 0).refused == 0


def test_empty_report_renews_no_device_and_notifies_stale_devices(story: Story) -> None:
    story.told(0, says(A))
    assert (story.told(30), story.told(31)) == (set(), {A})


def test_a_first_report_that_is_empty_makes_the_driver_known(story: Story) -> None:
    assert not story.cache.update("d", (), 0).dirty
    assert (story.cache.clear("d"), story.cache.clear("d")) == (True, False)


@pytest.mark.counterpart("kep/cache-cleanup", "alpha2/clear-driver", "TestClearDriver")
def test_clearing_a_driver_removes_only_its_devices(story: Story) -> None:
    other = replace(A, driver="nic.example.com")
    story.told(0, says(A), says(B))
    story.told(0, says(other), driver=other.driver)
    assert story.cache.clear(A.driver)
    assert [story.cache.read(device, 0) for device in (A, B, other)] == [UNKNOWN, UNKNOWN, HEALTHY]


def test_a_device_is_new_again_after_a_clear(story: Story) -> None:
    story.told(0, says(A))
    story.cache.clear(A.driver)
    assert story.told(1, says(A)) == {A}


@every_profile
def test_a_change_makes_the_checkpoint_out_of_date(profile: Profile) -> None:
    cache = HealthCache(profile)
    reports = [(0, (says(A),)), (1, (says(A),)), (2, (says(A, "Unhealthy"),)), (3, ())]
    dirty = [cache.update(A.driver, report, at).dirty for at, report in reports]
    assert dirty == [True, False, True, False]


def test_checkpoint_is_due_after_half_the_timeout_except_1_37(kep: Story, v1_37: Story) -> None:
    for story in (kep, v1_37):
        story.told(1, says(A), says(B, timeout=60))
    assert kep.cache.update(A.driver, (says(A), says(B, timeout=60)), 3).renew_by == 1 + 30 / 2
    assert kep.cache.update(A.driver, (says(B, timeout=60),), 4).renew_by == 3 + 60 / 2
    assert v1_37.cache.update(A.driver, (says(A),), 3).renew_by == math.inf


def test_maximum_timeout_repeated_is_not_a_change(story: Story) -> None:
    story.told(0, says(A, timeout=2**63 - 1))
    assert story.told(1, says(A, timeout=2**63 - 1)) == set()


def test_expiry_without_a_notification_marks_the_checkpoint_dirty(story: Story) -> None:
    story.told(0, says(A, "Unknown"))
    update = story.cache.update(A.driver, (), 31)
    assert (update.changed, update.dirty) == (frozenset(), True)


@pytest.mark.counterpart("kep/cache-initialization", "TestNewHealthInfoCache", "TestUpdateHealthInfo")
def test_restored_entries_equal_the_saved_ones(story: Story) -> None:
    story.cache.restore([(A, Entry(Health.UNHEALTHY, "xid 79", 5.0, -3.0))])
    assert (story.cache.read(A, 2), story.cache.read(A, 2.1)) == (SICK, UNKNOWN)


@pytest.mark.parametrize(
    ("profile", "kept"),
    [(PROFILES["v1.36"], ("xid 79", 600.0)), (PROFILES["v1.35"], ("", 600.0)), (PROFILES["v1.34"], ("", 30.0))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_release_ignores_fields_of_a_newer_checkpoint_that_it_does_not_know(
    profile: Profile, kept: tuple[str, float]
) -> None:
    downgraded = Story(profile)
    downgraded.cache.restore([(A, Entry(Health.UNHEALTHY, "xid 79", 600.0, 0.0))])
    assert [(entry.message, entry.timeout) for entry in downgraded.known().values()] == [kept]


@pytest.mark.parametrize(
    ("profile", "reads"),
    [(PROFILES["v1.36"], ("xid 79", 600.0)), (PROFILES["v1.35"], ("", 600.0)), (PROFILES["v1.34"], ("", 30.0))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_release_reads_the_fields_that_it_knows(profile: Profile, reads: tuple[str, float]) -> None:
    cache = HealthCache(profile)
    cache.update(A.driver, (says(A, "Unhealthy", "xid 79", 600),), 0)
    ((_, entry),) = cache.entries()
    assert (entry.message, entry.timeout) == reads
    assert not cache.update(A.driver, (says(A, "Unhealthy", reads[0], int(reads[1])),), 1).changed


class Model:
    """The rules in other words: what was said last of each device, and when."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.said: dict[DeviceId, tuple[Health, str, int]] = {}
        self.heard: dict[DeviceId, int] = {}

    def read(self, device: DeviceId, now: int) -> Reading:
        if device not in self.said or now - self.heard[device] > self.said[device][2]:
            return UNKNOWN
        return Reading(*self.said[device][:2])

    def report(self, devices: list[DeviceHealth], now: int) -> set[DeviceId]:
        named = {DeviceId(A.driver, d.pool, d.device): (d.health, d.message, max(d.timeout, 0) or 30) for d in devices}
        gone = {d for d, (_, _, limit) in self.said.items() if d not in named and now - self.heard[d] > limit}
        told = {d for d in gone if self.said[d][0] is not Health.UNKNOWN}
        told |= {d for d, what in named.items() if self.said.get(d) != what}
        if self.profile is KEP:
            told |= {d for d, (health, *_) in named.items() if self.read(d, now).health != health}
            unknown = {d: (Health.UNKNOWN, "", self.said[d][2]) for d in gone if self.said[d][0] is not Health.UNKNOWN}
            self.said = {d: what for d, what in self.said.items() if d not in gone} | unknown
        else:
            self.said = {d: what for d, what in self.said.items() if d not in gone}
        self.said |= named
        self.heard |= dict.fromkeys([*named, *gone], now)
        return told


def test_entries_of_unused_device_names_are_removed(story: Story) -> None:
    for number in range(100):
        story.told(number * 31, says(replace(A, device=f"gpu-{number}")))
    assert len(story.known()) <= 3


REPORTS = st.lists(
    st.builds(
        says,
        st.sampled_from((A, B, C)),
        st.sampled_from(Health),
        st.sampled_from(("", "warm")),
        st.sampled_from((-1, 0, 5, 60)),
    ),
    max_size=3,
    unique_by=lambda device: device.device,
)


@every_profile
@given(steps=st.lists(st.tuples(st.integers(0, 70), REPORTS | st.none()), max_size=12))
def test_cache_equals_the_model_for_any_sequence_of_reports(
    profile: Profile, steps: list[tuple[int, list[DeviceHealth] | None]]
) -> None:
    now, story, model = 0, Story(profile), Model(profile)
    for pause, report in steps:
        now += pause
        if report is None:
            story.cache.clear(A.driver)
            model = Model(profile)
        else:
            assert story.told(now, *report) == model.report(report, now)
        for later in (now, now + 5, now + 31):
            assert [story.cache.read(d, later) for d in (A, B, C)] == [model.read(d, later) for d in (A, B, C)]
