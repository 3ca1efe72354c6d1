"""The faults in the first examples for new users, who may look only minutes after the fault."""

import re
from pathlib import Path

import pytest

from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.proto.values import Health

ROOT = Path(__file__).parents[3]
DEMOS = [
    "README.md",
    *(f"docs/{name}.md" for name in ("drivers", "fakes", "kubelets", "nodes", "python")),
    "fakes/chart/templates/NOTES.txt",
    "ci/deploy/kind-demo",
    "ci/docs/up-picture",
    "suites/commands/shipped/gpu.timeline.yaml",
    "suites/commands/shipped/pod.yaml",
    "suites/up_command/node_commands.py",
]
"""The first pages, and what commands print or write for a start."""


@pytest.mark.parametrize("name", DEMOS)
def test_the_fault_of_a_demo_stays_unhealthy_in_each_report(name: str) -> None:
    known, judge = catalogue("nvidia"), policy("nvidia-catalogue")
    used = set(re.findall(r"\binject\W+(\w+/\d+)", (ROOT / name).read_text())) & set(known)
    fades = [id_ for id_ in used if known[id_].vanishes or known[id_].silent or judge.health(id_) != Health.UNHEALTHY]
    assert fades == []
