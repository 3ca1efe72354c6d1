"""What kubelets of each release show of recorded reports."""

from dataclasses import replace

import pytest

from drahealth.manager.releases import PROFILES
from drahealth.proto.events import Event, GrpcCall, ReportReceived, StreamClosed
from drahealth.proto.health_apis import V1, V1ALPHA1
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.report.document import ReleaseView
from drahealth.suites.report.shown_by_releases import health_by_release, kubelet_lines, release_lines, shown_by_releases
from drahealth.suites.unit.driver_checks.edits import INFOS, PREPARES, answering, calls, devices
from drahealth.suites.unit.driver_checks.healthy_run import DRIVER, INFO, POOL, Edit, cdi, healthy_run, without

RUN = "pod-status"
FIRST, SECOND = f"{POOL}/gpu-0", f"{POOL}/gpu-1"
RELEASES = {profile.release for profile in PROFILES.values() if profile.release}
MESSAGE, HEALTHY, UNHEALTHY = "XID 79", Health.HEALTHY, Health.UNHEALTHY


def views(edit: Edit | Evidence | None = None) -> dict[tuple[str, str], ReleaseView]:
    evidence = edit if isinstance(edit, Evidence) else healthy_run(edit) if edit else healthy_run()
    return {(one.release, one.device): one for one in shown_by_releases(evidence)}


def shown(view: ReleaseView) -> list[tuple[Health, str]]:
    return [(one.health, one.message) for one in view.shown]


def cdi_ids(*ids: str) -> Edit:
    """The Pod is prepared with these CDI devices."""

    def apply(call: GrpcCall) -> GrpcCall:
        claims = {
            uid: {"devices": [{**one, "cdi_device_ids": [*ids]} for one in answer["devices"]]}
            for uid, answer in (call.response or {})["claims"].items()
        }
        return replace(call, response={"claims": claims})

    return calls(PREPARES, apply, RUN)


def test_each_release_shows_each_device_of_the_pod() -> None:
    assert set(views()) == {(release, one) for release in RELEASES for one in (FIRST, SECOND)}


@pytest.mark.parametrize(("release", "message"), [("1.35", ""), ("1.36", MESSAGE), ("1.37", MESSAGE)])
def test_messages_are_shown_from_1_36(release: str, message: str) -> None:
    found = views()[release, FIRST]
    assert shown(found) == [(HEALTHY, ""), (UNHEALTHY, message), (HEALTHY, "")]
    assert ("messages are not shown" in found.reasons) == (not message)


def test_releases_name_a_device_by_its_first_cdi_device() -> None:
    assert views()["1.37", FIRST].resource_id == cdi("gpu-0")
    found = views(cdi_ids())["1.37", FIRST]
    assert (found.resource_id, found.reasons) == (f"{DRIVER}/{FIRST}", ())


def test_second_device_with_the_same_id_is_hidden_or_makes_the_status_invalid() -> None:
    found = views(cdi_ids(cdi("all")))
    assert shown(found["1.37", SECOND]) == shown(found["1.37", FIRST])
    assert f"{FIRST} has the same ID, and only its health is shown" in found["1.37", SECOND].reasons
    assert f"the API server rejects the status, because {FIRST} has the same ID" in found["1.34", SECOND].reasons


def test_driver_that_advertises_only_v1_is_unknown_to_older_kubelets() -> None:
    only_v1 = ["v1.DRAPlugin", "v1.DRAResourceHealth"]
    edit = calls(INFOS, answering({**INFO, "supported_versions": only_v1}), RUN)

    def unserved(where: str, event: Event) -> Event | None:
        if where == "services" and isinstance(event, ReportReceived) and event.stream != "s0":
            return None
        kept = edit(where, event)
        if where == "services" and getattr(event, "stream", "s0") != "s0" and hasattr(event, "why"):
            return replace(kept, why="not served")  # type: ignore[type-var]
        return kept

    found = views(unserved)
    assert shown(found["1.36", FIRST]) == [(Health.UNKNOWN, "")]
    assert shown(found["1.37", FIRST])[0] == (HEALTHY, "")


def test_fixed_timeout_of_1_34_expires_a_device_with_a_longer_one() -> None:
    rare = devices(lambda one: replace(one, timeout=120) if one.device == "gpu-1" else one, "pod")
    reports = [one.what.devices[0].updated for one in healthy_run().of(ReportReceived, RUN)]

    def seldom(where: str, event: Event) -> Event | None:
        kept = rare(where, event)
        if where == RUN and isinstance(kept, ReportReceived) and kept.devices[0].updated in reports[1:-1]:
            return replace(kept, devices=tuple(one for one in kept.devices if one.device != "gpu-1"))
        return kept

    found = views(seldom)
    assert "the timeout of 120 s is ignored: it is always 30 s" in found["1.34", SECOND].reasons
    assert (Health.UNKNOWN, "") in shown(found["1.34", SECOND])
    assert (Health.UNKNOWN, "") not in shown(found["1.37", SECOND])


def test_driver_without_health_is_unknown_to_all_releases() -> None:
    def edit(where: str, event: Event) -> Event | None:
        if isinstance(event, ReportReceived):
            return None
        return calls(INFOS, answering({**INFO, "supported_versions": ["v1.DRAPlugin"]}))(where, event)

    found = views(edit)
    assert {shown(one)[-1] for one in found.values()} == {(Health.UNKNOWN, "")}
    assert "the driver advertises no health API that this kubelet calls" in found["1.37", FIRST].reasons


def test_releases_show_nothing_without_a_prepared_device() -> None:
    assert shown_by_releases(healthy_run(without(GrpcCall, RUN, "pod-faults", "claims", "registration"))) == ()


def test_lines_name_device_release_health_and_reasons() -> None:
    lines = list(release_lines(shown_by_releases(healthy_run())))
    assert f"  {FIRST}" in lines
    assert f"    1.37  {cdi('gpu-0')}: Healthy, then Unhealthy ({MESSAGE}), then Healthy" in lines
    assert list(release_lines(())) == []


def no_v1(_: str, event: Event) -> Event | None:
    """The driver advertises v1, and answers Unimplemented to it."""
    if isinstance(event, StreamClosed) and event.stream == "s0":
        return replace(event, code="UNIMPLEMENTED", why="unknown service")
    return None if isinstance(event, ReportReceived) and event.stream == "s0" else event


def not_advertised(where: str, event: Event) -> Event | None:
    return calls(INFOS, answering({**INFO, "supported_versions": ["v1.DRAPlugin"]}))(where, event)


def silent(_: str, event: Event) -> Event | None:
    return None if isinstance(event, ReportReceived) else event


@pytest.mark.parametrize(
    ("edit", "shows", "newest"),
    [
        (None, ["1.34", "1.35", "1.36", "1.37"], V1.name),
        (no_v1, ["1.34", "1.35", "1.36"], ""),
        (not_advertised, ["1.34", "1.35", "1.36"], ""),
        (silent, [], V1.name),
    ],
    ids=["healthy", "v1 unserved", "not advertised", "no report"],
)
def test_kubelets_show_the_health_of_the_api_that_they_call(edit: Edit | None, shows: list[str], newest: str) -> None:
    found = health_by_release(healthy_run(edit) if edit else healthy_run())
    assert ([one.release for one in found if one.shows], found[-1].health_api) == (shows, newest)
    assert {one.health_api for one in found[:3]} == {V1ALPHA1.name}


def test_kubelet_that_shows_nothing_has_a_reason() -> None:
    lines = list(kubelet_lines(health_by_release(healthy_run(no_v1))))
    gate = "only with feature gate ResourceHealthStatus, which is off by default"
    assert lines[1] == f"  1.34  shows health from {V1ALPHA1.name}, {gate}"
    assert lines[-1] == f"  1.37  shows no health: it calls {V1.name}, which the driver does not serve"


def test_driver_that_was_not_registered_has_no_kubelets() -> None:
    assert health_by_release(healthy_run(without(GrpcCall, "registration"))) == ()
