"""The pure core compared with a model, for any sequence of reports, expiries, restarts, claims and pods."""

import json
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from drahealth.manager.cache import HealthCache
from drahealth.manager.checkpoint import health_text, load_health
from drahealth.manager.claims import Claims, PreparedClaim
from drahealth.manager.device_status import entries as core_entries
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.manager.stream import Action, Input, State, step
from drahealth.proto.values import ClaimRef, ClaimUse, DeviceHealth, DeviceId, Health, PreparedDevice
from drahealth.suites.unit.manager.core_model import Holdings, Knowledge, entries, rules_of

WALL = 1_750_000_000.0
DRIVERS = ("gpu.example.com", "nic.example.com")
NAMES = [("node-a", "0"), ("node-a", "1"), ("a/b", "c"), ("a", "b/c")]
DEVICES = [DeviceId(driver, *name) for driver in DRIVERS for name in NAMES]
REPORTS = st.lists(
    st.builds(
        lambda name, health, message, timeout: DeviceHealth(name[0], name[1], health, message, timeout),
        st.sampled_from(NAMES),
        st.sampled_from(Health),
        st.sampled_from(["", "warm", "hot"]),
        st.sampled_from([-1, 0, 5, 60]),
    ),
    max_size=5,
)
PREPARED = st.lists(
    st.builds(
        PreparedDevice,
        st.sampled_from(DEVICES),
        st.sampled_from([(), ("big",), ("net",), ("big", "net")]),
        st.sampled_from([(), ("vendor/x=0",), ("vendor/x=1", "vendor/x=0")]),
        st.none() | st.just("share"),
    ),
    max_size=4,
)
USES = st.lists(
    st.builds(
        ClaimUse, st.sampled_from("ab"), st.sampled_from("cde"), st.sampled_from([None, "big", "net", "big/sub"])
    ),
    max_size=4,
)
PODS = st.sampled_from(["pod-1", "pod-2", "pod-3"])


class Core(RuleBasedStateMachine):
    """The core and the model beside each other. The health file is written whenever the core says so."""

    profile: ClassVar[Profile]

    def __init__(self) -> None:
        super().__init__()
        limit = 3 if self.profile.devices_per_driver else None
        self.profile_here = replace(self.profile, devices_per_driver=limit)
        self.cache = HealthCache(self.profile_here)
        self.claims = Claims()
        self.known = Knowledge(replace(rules_of(self.profile), limit=limit))
        self.held = Holdings()
        self.file, self.filed = b"{}", self.known.copy()
        self.now = 0.0

    # -- health

    @rule(seconds=st.sampled_from([1, 4, 6, 29, 31, 61]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule(driver=st.sampled_from(DRIVERS), report=REPORTS)
    def a_driver_reports(self, driver: str, report: list[DeviceHealth]) -> None:
        update = self.cache.update(driver, tuple(report), self.now)
        assert (set(update.changed), update.refused, update.dirty) == self.known.report(driver, report, self.now)
        assert self.claims.pods_with(update.changed) == self.held.pods_with(update.changed)
        if update.dirty:
            self.write()

    @rule(driver=st.sampled_from(DRIVERS))
    def a_stream_ends(self, driver: str) -> None:
        self.cache.clear(driver)
        self.known.clear(driver)
        self.write()

    def write(self) -> None:
        by_driver = self.cache.devices().items()
        texts = [health_text(driver, devices, self.now, WALL + self.now) for driver, devices in by_driver]
        self.file, self.filed = b"{" + b",".join(texts) + b"}", self.known.copy()

    @rule(away=st.sampled_from([0, 3, 31]))
    def it_is_killed_and_started_again(self, away: int) -> None:
        self.now += away
        self.cache = HealthCache(self.profile_here)
        self.cache.restore(load_health(json.loads(self.file), self.now, WALL + self.now))
        self.known = self.filed.copy()

    # -- claims

    @rule(claim=st.sampled_from("cde"), devices=PREPARED, pod=PODS)
    def a_claim_is_prepared(self, claim: str, devices: list[PreparedDevice], pod: str) -> None:
        if claim not in self.held.devices:
            self.claims.add(PreparedClaim(ClaimRef("default", claim, claim), DRIVERS, tuple(devices), {pod}))
            self.held.devices[claim] = tuple(devices)
        else:
            self.claims.hold(claim, pod)
        self.held.pods.add((claim, pod))

    @precondition(lambda self: self.held.pods)
    @rule(data=st.data())
    def a_pod_gives_a_claim_back(self, data: st.DataObject) -> None:
        claim, pod = data.draw(st.sampled_from(sorted(self.held.pods)))
        self.claims.release(claim, pod)
        self.held.release(claim, pod)

    # -- what is seen

    @invariant()
    def every_device_reads_as_the_model_says(self) -> None:
        for later in (self.now, self.now + 5, self.now + 31):
            read = [self.cache.read(device, later) for device in DEVICES]
            assert [(r.health, r.message) for r in read] == [self.known.shows(device, later) for device in DEVICES]

    @invariant()
    def every_pod_holds_what_the_model_says(self) -> None:
        assert {claim.ref.uid: claim.devices for claim in self.claims} == self.held.devices
        assert {(claim.ref.uid, pod) for claim in self.claims for pod in claim.pods} == self.held.pods
        assert [self.claims.pods_with([device]) for device in DEVICES] == [
            self.held.pods_with([device]) for device in DEVICES
        ]

    @precondition(lambda self: self.profile.name in ("kep", "v1.37"))
    @rule(uses=USES)
    def a_status_is_built(self, uses: list[ClaimUse]) -> None:
        built = core_entries(uses, self.claims.devices, lambda device: self.cache.read(device, self.now), self.profile)
        seen = [(entry.name, [(r.resource_id, (r.health, r.message)) for r in entry.resources]) for entry in built]
        assert seen == entries(uses, self.held, self.known, self.now)


def machine(kind: Any, profile: Profile, examples: int) -> Any:
    """The test case of a machine for a profile."""
    made: Any = type(kind.__name__, (kind,), {"profile": profile})
    made.TestCase.settings = settings(
        max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    return made.TestCase


for profile in PROFILES.values():
    globals()[f"Test {profile.name}"] = machine(Core, profile, 150 if profile in (KEP, NEWEST) else 30)


class Stream(RuleBasedStateMachine):
    """A health stream's life: what happens is what can happen, and what is done is judged by the rules in words."""

    profile: ClassVar[Profile]

    def __init__(self) -> None:
        super().__init__()
        self.state = State.OFF
        self.doing: Action | None = None
        """What is under way: CONNECT, CALL, WAIT, or nothing."""
        self.wanted = False

    def told(self, what: Input) -> list[Action]:
        self.state, actions = step(self.state, what, self.profile)
        work = [action for action in actions if action in (Action.CONNECT, Action.CALL, Action.WAIT)]
        assert len(work) <= 1
        self.doing = work[0] if work else None
        return list(actions)

    @precondition(lambda self: not self.wanted)
    @rule()
    def it_is_to_be_watched(self) -> None:
        self.wanted = True
        assert self.told(Input.WATCH) == [Action.FIRST_METHOD, Action.CONNECT]

    @precondition(lambda self: self.doing is Action.CONNECT)
    @rule(reached=st.booleans())
    def it_is_reached_or_not(self, reached: bool) -> None:
        after = self.told(Input.CONNECTED if reached else Input.UNREACHABLE)
        assert after == [Action.CALL if reached else Action.WAIT]  # and what is known is left alone

    @precondition(lambda self: self.doing is Action.CALL)
    @rule()
    def the_stream_ends(self) -> None:
        assert self.told(Input.ENDED) == [Action.CLEAR, Action.WAIT]

    @precondition(lambda self: self.doing is Action.CALL)
    @rule()
    def it_has_not_the_method_that_was_called(self) -> None:
        assert self.told(Input.NO_SUCH_METHOD) == [Action.NEXT_METHOD, Action.CALL]  # and nothing is forgotten

    @precondition(lambda self: self.doing is Action.CALL)
    @rule()
    def it_has_no_health_to_report(self) -> None:
        gives_up = self.profile.release is None or self.profile.release >= "1.37"
        assert self.told(Input.UNIMPLEMENTED) == ([Action.CLEAR] if gives_up else [Action.CLEAR, Action.WAIT])

    @precondition(lambda self: self.doing is Action.WAIT)
    @rule()
    def the_pause_is_over(self) -> None:
        assert self.told(Input.RETRY_DUE) == [Action.CONNECT]

    @rule(by_newer=st.booleans())
    def it_is_replaced_or_goes(self, by_newer: bool) -> None:
        cleared = self.doing is Action.CALL and not by_newer
        actions = self.told(Input.REPLACED if by_newer else Input.GONE)
        self.wanted = False
        assert (Action.HANG_UP in actions, Action.CLEAR in actions, self.doing) == (True, cleared, None)


TestStreamKep = machine(Stream, PROFILES["kep"], 100)
TestStream136 = machine(Stream, PROFILES["v1.36"], 50)
