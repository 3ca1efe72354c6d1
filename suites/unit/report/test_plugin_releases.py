"""What kubelets of each release show of the recorded lists of a device plugin."""

import pytest

from drahealth.manager.releases import PROFILES
from drahealth.proto.events import GrpcCall, ListReceived, StreamClosed
from drahealth.proto.values import Health, PluginDevice
from drahealth.suites.report.document import ReleaseView
from drahealth.suites.report.shown_by_releases import shown_by_releases
from drahealth.suites.unit.driver_checks.healthy_plugin_run import PATH, RESOURCE, A, Edit, plugin_run
from drahealth.suites.unit.driver_checks.plugin_edits import lists, without

DEVICE, STREAM = f"{RESOURCE}/gpu-1", "kubelet#6"
HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY
RELEASES = [profile.release for profile in PROFILES.values() if profile.release]


def views(edit: Edit = lambda _, event: event) -> dict[str, ReleaseView]:
    return {one.release: one for one in shown_by_releases(plugin_run(edit)) if one.device == DEVICE}


def shown(view: ReleaseView) -> list[Health]:
    return [one.health for one in view.shown]


def test_each_release_shows_the_fault_and_its_recovery() -> None:
    found = views()
    assert {name: shown(one) for name, one in found.items()} == {
        release: [HEALTHY, UNHEALTHY, HEALTHY] for release in RELEASES
    }
    assert [name for name, one in found.items() if "ResourceHealthStatus" in " ".join(one.reasons)] == ["1.34", "1.35"]


def test_device_that_leaves_the_list_is_shown_as_healthy() -> None:
    found = views(lists(lambda devices: tuple(one for one in devices if one.health == "Healthy"), STREAM))["1.37"]
    assert shown(found) == [HEALTHY]
    assert "a device that is not listed is shown as Healthy" in found.reasons


def test_unknown_health_word_is_shown_as_unhealthy() -> None:
    found = views(lists(lambda _: (A, PluginDevice("gpu-1", "ok")), STREAM))["1.36"]
    assert (shown(found), "the word 'ok' is shown as Unhealthy" in found.reasons) == ([UNHEALTHY], True)


def test_last_health_is_shown_after_the_end_of_the_stream() -> None:
    ended = StreamClosed(RESOURCE, "", STREAM, "ended by the plugin", PATH, "OK")

    def edit(_: str, event: object) -> object:
        is_last = isinstance(event, ListReceived) and event.stream == STREAM and event.devices[1].health != "Healthy"
        return ended if is_last else event

    found = views(edit)["1.37"]  # type: ignore[arg-type]
    assert (shown(found), "the last health is shown after the end of the stream" in found.reasons) == ([HEALTHY], True)


@pytest.mark.parametrize("kind", [GrpcCall, ListReceived])
def test_nothing_is_shown_without_a_pod(kind: type) -> None:
    assert views(without(GrpcCall, "plugin-pod-faults")) != {}  # the other Pod counts
    both = lambda where, event: None if isinstance(event, kind) and where.startswith("plugin-pod") else event  # noqa: E731
    assert (views(both) == {}) == (kind is GrpcCall)
