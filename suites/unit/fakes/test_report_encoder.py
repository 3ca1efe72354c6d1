"""Reports from cached parts equal reports that are encoded completely."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.kubelet_plugin.health_streams import ReportEncoder
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import DeviceHealth, Health

NAMES = st.sampled_from(["a", "b", "c", "d"])
SAID = st.builds(DeviceHealth, st.just("pool"), NAMES, st.sampled_from(Health), st.text(max_size=3), st.integers(0, 9))
FULL = [health_api for health_api in HEALTH_APIS.values() if not health_api.prepared_only]


@given(st.sampled_from(FULL), st.lists(st.dictionaries(NAMES, SAID), max_size=8))
def test_the_parts_that_are_kept_make_the_same_message(
    health_api: HealthApi, changes: list[Mapping[str, DeviceHealth]]
) -> None:
    encoder, health = ReportEncoder(health_api), dict[str, DeviceHealth]()
    for changed in changes:
        health |= changed
        report = tuple(health.values())
        assert encoder.encode(report) == health_api.encode(report).SerializeToString()


def test_a_report_that_is_sent_again_is_encoded_once() -> None:
    encoder, report = ReportEncoder(FULL[0]), (DeviceHealth("pool", "a", Health.HEALTHY),)
    assert encoder.encode(report) is encoder.encode(report)
