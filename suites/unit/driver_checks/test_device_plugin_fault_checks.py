"""The checks of device plugins whose devices drahealth breaks and heals."""

from dataclasses import replace
from typing import Any

import pytest

from drahealth.proto.events import Event, FaultCleared, FaultInjected, ListReceived
from drahealth.proto.values import PluginDevice
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.healthy_plugin_run import BROKEN, A, Edit, plugin_run
from drahealth.suites.unit.driver_checks.plugin_edits import both, fault, lists, without

FAIL, PASS, NOT_TESTED, STATIC = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED, Verdict.STATIC
BREAK, HEAL = "broken-device-is-listed-unhealthy", "healed-device-is-listed-healthy"
OTHERS = "other-devices-stay-as-they-are"


def list_after(kind: type[Event], *devices: PluginDevice) -> Edit:
    """Changes the lists after the break or the heal."""
    seen: list[bool] = []

    def edit(where: str, event: Event) -> Event:
        if where == "plugin-faults" and isinstance(event, kind):
            seen.append(True)
        if seen and isinstance(event, ListReceived) and event.stream == BROKEN:
            return replace(event, devices=devices)
        return event

    return edit


NOW: dict[str, Any] = {"settle": -5.0}
"""No time to settle: half a second after the step is late."""
B, SICK = PluginDevice("gpu-1"), PluginDevice("gpu-1", "Unhealthy")
NO_EFFECT = fault(**NOW, on_no_effect="NOT_TESTED")
FAULTS: list[tuple[str, str, Edit, Verdict]] = [
    (BREAK, "stays healthy", both(fault(**NOW), list_after(FaultInjected, A, B)), FAIL),
    (BREAK, "disappears", both(fault(**NOW), list_after(FaultInjected, A)), FAIL),
    (BREAK, "not read long enough", list_after(FaultInjected, A, B), NOT_TESTED),
    (BREAK, "may have no effect", both(NO_EFFECT, list_after(FaultInjected, A, B)), NOT_TESTED),
    (BREAK, "may have no effect, but is late", NO_EFFECT, FAIL),
    (BREAK, "adapter fails", fault(outcome="failed", problem="no such file"), NOT_TESTED),
    (BREAK, "adapter must work", fault(outcome="timed out", on_error="FAIL"), FAIL),
    (HEAL, "not read long enough", list_after(FaultCleared, A, SICK), NOT_TESTED),
    (HEAL, "no heal", without(FaultCleared), STATIC),
    (OTHERS, "all break", list_after(FaultInjected, PluginDevice("gpu-0", "Unhealthy"), SICK), FAIL),
    (OTHERS, "another one disappears", list_after(FaultInjected, SICK), FAIL),
    (OTHERS, "break not listed", list_after(FaultInjected, A, B), NOT_TESTED),
    (OTHERS, "one device", lists(lambda found: found[1:], BROKEN), STATIC),
]


@pytest.mark.parametrize(("check", "edit", "verdict"), [pytest.param(c, e, v, id=f"{c}-{n}") for c, n, e, v in FAULTS])
def test_check_gives_the_expected_verdict_after_a_fault(check: str, edit: Edit, verdict: Verdict) -> None:
    assert CHECKS[check].judge(plugin_run(edit)).verdict is verdict
