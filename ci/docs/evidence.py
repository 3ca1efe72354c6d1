"""Evidence about the tests of drahealth: pages that CI uploads, and the figures of docs/quality.md."""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from coverage_page import coverage_page
from driver_mutants_page import driver_mutants_page

from drahealth.suites.driver_checks.mutants.driver import MUTANTS
from drahealth.suites.driver_checks.summary import proven
from drahealth.suites.judging.ledger import requirements, statements
from drahealth.suites.unit.upstream_tests import counterparts, upstream_tests

UPSTREAM = """\
# Upstream tests

This page lists every unit test and e2e test for device health in KEP-4680 and in Kubernetes. A heading with `KEP` names
a section of KEP-4680: of its newest revision, or of its revision of 2025 (`KEP (2025)`). Each other heading is a file
of Kubernetes, in some headings with the name of a test. The tables have these columns:

- `test`: the name of the Go test. A name in lower case with a slash is ours.
- `since`: the oldest release that has the test. We looked only at 1.34 to 1.37, so a test with `1.34` can be older.
  `m` means that only the master branch after 1.37.1 has the test. `text` means that only the KEP describes the test.
- `asserts`: the assertion of the test, in our words. The cache is the kubelet's cache of the health of devices. The
  field is `allocatedResourcesStatus`, and the gate is the feature gate ResourceHealthStatus.
- `our tests`: our tests of the same behavior. They name the upstream test in `@pytest.mark.counterpart` or
  `@scenario(..., counterpart_of=...)`. If there is no such test, the column has the reason.
"""
MUTATION = Path(__file__).resolve().parents[1] / "mutants"


def evidence_pages() -> Iterator[tuple[str, str]]:
    """The name and the text of each page."""
    sys.path.insert(0, str(MUTATION))
    from mutation import kubelets, page
    from mutation.running import Trial

    yield "coverage.md", coverage_page("")
    yield "driver-mutants.md", driver_mutants_page("")
    yield "upstream-tests.md", upstream_tests_page()
    rules = page.read_rules((MUTATION / "survivors.toml").read_text())
    yield "mutants.md", page.page(json.loads((MUTATION / "score.json").read_text()), requirements(), rules)
    yield "generated-drivers.md", generated_drivers_page()
    found = json.loads((MUTATION / "wrong-kubelets.json").read_text())
    trials = {name: Trial(**{"key": name, **result}) for name, result in found["results"].items()}
    wrong = [one for one in kubelets.read_wrong_kubelets(MUTATION / "wrong-kubelets") if one.name in trials]
    yield "wrong-kubelets.md", kubelets.page(wrong, trials, found["version"])


def generated_drivers_page() -> str:
    """The wrong drivers of the fault model that `certify` does not catch, each with the reason."""
    from driver_space.model import why_survives

    kept = json.loads((MUTATION / "generated-drivers.json").read_text())
    reasons = tomllib.loads((MUTATION / "driver-survivors.toml").read_text())
    outcomes = ", ".join(f"{count} {name}" for name, count in kept["outcomes"].items())
    about = f"{kept['drivers']} drivers, seed {kept['seed']}, level {kept['level']}: {outcomes}."
    lines = [
        f"# Wrong drivers that survive\n\n{about}\n\n",
        "| driver | defect | outcome | reason |\n",
        "| --- " * 4,
        "|\n",
    ]
    for name, one in kept["survivors"].items():
        told = "" if one["outcome"] == "noted" else why_survives(name, reasons)
        lines.append(f"| `{name}` | {one['fault']} | {one['outcome']} | {told} |\n")
    return "".join(lines)


def figures() -> list[tuple[str, str]]:
    """What each part of the evidence says, in one figure."""
    verdicts = Counter(one.verdict for one in statements().values())
    score = json.loads((MUTATION / "score.json").read_text())
    kubelets = json.loads((MUTATION / "wrong-kubelets.json").read_text())
    drivers = json.loads((MUTATION / "generated-drivers.json").read_text())
    upstream = list(upstream_tests().values())
    ours = sum(not test.not_ours for test in upstream)
    checks = list(proven().values())

    def caught(name: str) -> str:
        numbers = score[name]["groups"].values()
        return f"{sum(first for first, _ in numbers)} of {sum(second for _, second in numbers)}"

    results = [one["outcome"] for one in kubelets["results"].values()]
    return [
        ("statements of the texts", ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())),
        ("errors of the reference, written by hand, that scenarios detect", caught("hand")),
        (f"generated changes of the reference that scenarios detect ({score['tried']})", caught("automatic")),
        (
            f"faults of a model of a kubelet that scenarios detect (a sample with seed {score['faults']['seed']})",
            caught("faults"),
        ),
        (
            f"real kubelets {kubelets['version']} with one bug that scenarios detect",
            f"{results.count('caught')} of {len(results)}",
        ),
        ("checks of drivers that catch a wrong driver", f"{sum(map(bool, checks))} of {len(checks)}"),
        ("wrong drivers and device plugins", str(len(MUTANTS))),
        (
            f"wrong drivers from a fault model that `certify` catches (level {drivers['level']})",
            f"{drivers['outcomes']['caught'] + drivers['outcomes']['noted']} of {drivers['drivers']}",
        ),
        ("upstream tests of the same behavior that have a counterpart here", f"{ours} of {len(upstream)}"),
    ]


def upstream_tests_page() -> str:
    """The tests of the KEP and of Kubernetes, each with our counterparts."""
    lines, where = [UPSTREAM], ""
    ours = counterparts()
    for test in upstream_tests().values():
        if test.where != where:
            where = test.where
            lines.append(f"\n## {where}\n\n| test | since | asserts | our tests |\n| --- | --- | --- | --- |\n")
        here = "<br>".join(f"`{name}`" for name in ours.get(test.id, ())) or f"none: {test.not_ours}"
        lines.append(f"| {test.id} | {test.since} | {test.asserts} | {here} |\n")
    return "".join(lines)
