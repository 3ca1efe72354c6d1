"""The summary of device health in pod statuses, for a timeline that passed."""

from drahealth.proto.events import TimePassed
from drahealth.proto.values import Health
from drahealth.suites.run.timelines import LINES, STATES, status_changes
from drahealth.suites.unit.suites.histories import container, entry, history, pod, resource, status

HEALTHY, UNHEALTHY, UNKNOWN = Health


def test_states_of_a_device_are_in_order_with_simulated_time() -> None:
    ill = status(UNHEALTHY, "hot")
    records = history(status(), 2.0, ill, ill, TimePassed(30.0), 1.0, status())
    told = "pod pod-1 showed gpu-0: Healthy, Unhealthy 'hot' at 2.0 s, Healthy at 33.0 s"
    assert list(status_changes(records, records[0].at)) == [told]


def test_an_unchanged_device_has_no_line() -> None:
    records = history(status(UNHEALTHY, "hot"), status(UNHEALTHY, "hot"))
    assert list(status_changes(records, 0.0)) == []


def test_only_the_last_states_are_shown_and_long_messages_are_truncated() -> None:
    states = [status(UNHEALTHY, "x" * 5000), status()] * STATES
    (line,) = status_changes(history(*states), 0.0)
    assert (line.startswith(f"pod pod-1 showed gpu-0: {STATES} more, Unhealthy 'xxx"), len(line) < 600) == (True, True)


def test_only_some_of_many_devices_are_shown() -> None:
    def all_are(health: Health) -> object:
        return pod([container(entry(*(resource(health, device=f"gpu-{number}") for number in range(LINES + 3))))])

    told = list(status_changes(history(all_are(HEALTHY), all_are(UNKNOWN)), 0.0))  # type: ignore[arg-type]
    assert (len(told), told[-1]) == (LINES + 1, "3 more devices changed")
