"""Capabilities: the missing ones of each target, and the scenarios that are not applicable."""

import json
from pathlib import Path

import pytest

from drahealth.suites.run.options import Options
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.versions import NEWEST

RESULTS = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "results.json").read_text())


@pytest.mark.parametrize("about", RESULTS)
def test_the_scenarios_that_are_not_applicable_are_those_of_the_published_results(about: str) -> None:
    (target,) = [t for t in registry.definitions() if about.startswith(t.title)]
    release = about.rpartition(" Kubernetes ")[2] if " Kubernetes " in about else None
    missing = Options.make({"target": target.name, "kubernetes": release}).missing
    published = {name for name, (outcome, *_) in RESULTS[about].items() if outcome == "not applicable"}
    played = [scenario for scenario in scenarios() if scenario.name in RESULTS[about]]
    assert {scenario.name for scenario in played if scenario.why_not(None, missing)} == published


@pytest.mark.parametrize("target", ["kubelet", "kind"])
def test_devices_have_no_taints_before_kubernetes_1_36(target: str) -> None:
    lacking = [
        release
        for release in NEWEST.values()
        if Capability.TAINT_DEVICES in Options.make({"target": target, "kubernetes": release}).missing
    ]
    assert lacking == [NEWEST["1.35"], NEWEST["1.34"]]


def test_every_capability_has_a_meaning_of_one_line() -> None:
    assert [c for c in Capability if not c.meaning.endswith(".") or "\n" in c.meaning] == []


def test_every_missing_capability_is_available_on_another_target() -> None:
    missing = {capability for target in registry.definitions() for capability in target.missing}
    assert [c for c in missing if not any(target.can(c) for target in registry.definitions())] == []
