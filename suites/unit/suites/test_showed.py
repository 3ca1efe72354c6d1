"""What is told of a story that has passed: how the health of each device went in its pods' statuses."""

from drahealth.proto.events import TimePassed
from drahealth.proto.values import Health
from drahealth.suites.timelines.showed import LINES, STATES, showed
from drahealth.suites.unit.suites.histories import container, entry, history, pod, resource, status

HEALTHY, UNHEALTHY, UNKNOWN = Health


def test_the_states_of_a_device_are_told_in_their_order_with_the_time_that_was_jumped_over() -> None:
    ill = status(UNHEALTHY, "hot")
    records = history(status(), 2.0, ill, ill, TimePassed(30.0), 1.0, status())
    told = "pod pod-1 showed gpu-0: Healthy, Unhealthy 'hot' at 2.0 s, Healthy at 33.0 s"
    assert list(showed(records, records[0].at)) == [told]


def test_a_device_that_stays_as_it_is_is_not_told_of() -> None:
    records = history(status(UNHEALTHY, "hot"), status(UNHEALTHY, "hot"))
    assert list(showed(records, 0.0)) == []


def test_of_many_states_the_last_are_told_and_long_messages_are_cut() -> None:
    states = [status(UNHEALTHY, "x" * 5000), status()] * STATES
    (line,) = showed(history(*states), 0.0)
    assert (line.startswith(f"pod pod-1 showed gpu-0: {STATES} more, Unhealthy 'xxx"), len(line) < 600) == (True, True)


def test_of_many_devices_some_are_told_of() -> None:
    def all_are(health: Health) -> object:
        return pod([container(entry(*(resource(health, device=f"gpu-{number}") for number in range(LINES + 3))))])

    told = list(showed(history(all_are(HEALTHY), all_are(UNKNOWN)), 0.0))  # type: ignore[arg-type]
    assert (len(told), told[-1]) == (LINES + 1, "and 3 devices more changed")
