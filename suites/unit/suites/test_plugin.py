"""The pytest plugin, in separate pytest runs with other plugins."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from drahealth.proto.events import StatusSeen, StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.history import read_history
from drahealth.suites.unit.command_process import run_pytest

KEP = ("--pyargs", "drahealth.suites.kep")

STORIES = """
from drahealth.suites.errors import HarnessError
from drahealth.suites.run.fixtures import node
from drahealth.suites.run.scenario import scenario

@scenario("STATUS-03", "STATUS-04")
async def test_that_ends_badly(node):
    _, pod, gpu = await node.pod_with_a_gpu()
    with node.judging("STATUS-04", "the id is short"):
        node.check(len(str(gpu.id)) < 5, "a short id", gpu.id)

@scenario("STATUS-04")
async def test_that_has_a_stale_known_issue(node):
    for happens in (True, False):
        with node.judging("STATUS-04", "the ID is driver/pool/device"):
            node.check(not happens, "so", "not so")

@scenario("STATUS-01")
async def test_that_is_a_harness_error(node):
    raise HarnessError("the disk is full", "make room")

@scenario("STATUS-01")
async def test_with_a_mistake_of_its_author(node):
    node.pod_with_a_gpu.by_mistake
"""


def properties(pytester: pytest.Pytester) -> list[tuple[str | None, str | None]]:
    """The properties of test cases in the JUnit XML of a run."""
    found = ElementTree.parse(pytester.path / "j.xml").iterfind(".//testcase//property")
    return [(one.get("name"), one.get("value")) for one in found]


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in report["requirements"]}


def test_a_run_without_scenarios_is_unchanged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            heavy = {"grpc", "pydantic", "rich", "typer", "drahealth.suites.run.reporting", "drahealth.fakes"}
            assert not heavy & set(sys.modules)
        """
    )
    run = pytester.runpytest_subprocess()
    run.assert_outcomes(passed=1)
    assert "drahealth: " not in run.stdout.str()


def test_scenarios_run_together_with_other_tests_and_asyncio_plugins(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nanyio_mode = auto\n")
    pytester.makepyfile(
        """
        import asyncio
        import anyio, pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        async def test_of_pytest_asyncio():
            await asyncio.sleep(0)

        @pytest.mark.anyio
        async def test_of_anyio():
            await anyio.sleep(0)
        """
    )
    run = run_pytest(
        pytester, ".", *KEP, "-k", "(pytest_asyncio or anyio or recovered) and not v1alpha1", "--junitxml=j.xml"
    )
    run.assert_outcomes(passed=3)
    run.stdout.fnmatch_lines(["collected *", "drahealth: the reference, profile kep"])
    assert properties(pytester) == [
        ("requirement", "STATUS-03"),
        ("requirement", "STATUS-15"),
    ]


def test_failures_are_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(STORIES)
    run = run_pytest(pytester, "--drahealth-profile=v1.37", "--drahealth-report=r.json")
    run.assert_outcomes(failed=4)
    run.stdout.fnmatch_lines(
        [
            "diagnosis: the history has each step from the registration to the Pod status; *",
            "STATUS-04 (MUST, kubelet): A device's resourceID is DRIVER/POOL/DEVICE, *",
            "  text:     KEP, Proposal, ResourceHealth, ResourceID: * (TEXT-*)",
            "            https://github.com/kubernetes/enhancements/*#proposal",
            "            2 more: drahealth explain STATUS-04",
            'test_failures_are_explained.py:9: node.check(len(str(gpu.id)) < 5, "a short id", gpu.id)',
            "STATUS-04: the id is short",
            "  expected: a short id",
            "  seen:     gpu-1.*.example.com/node-a/gpu-0",
            "*- history -*",
            "*  # driver gpu-1.*.example.com starts",
            "*- rerun -*",
            "pytest *explained.py::test_that_ends_badly --drahealth-target reference --drahealth-profile v1.37",
            "known issue P-08 (STATUS-04, *) did not happen: *",
            "the disk is full; make room",
            "E *AttributeError: * no attribute 'by_mistake'",
        ],
    )
    report = json.loads((pytester.path / "r.json").read_text())
    assert [(s["outcome"], s["broken"]) for s in report["scenarios"]] == [
        ("failed", ["STATUS-04"]),
        ("failed", []),
        ("error", []),
        ("error", []),
    ]


def test_a_known_issue_that_the_users_kubelet_has_fixed_is_noted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(STORIES)
    pytester.makeconftest(
        "from drahealth.suites.targets.reference.target import ReferenceConfiguration\n"
        "ReferenceConfiguration.is_own_kubelet = True"
    )
    run_pytest(pytester, "--drahealth-profile=v1.37", "--drahealth-report=r.json", "-k", "stale")
    (result,) = json.loads((pytester.path / "r.json").read_text())["scenarios"]
    assert result["outcome"] == "known issue"  # another one happens
    assert "known issue P-08 did not happen: this kubelet has fixed it" in result["notes"]


def test_a_known_issue_is_an_expected_failure_with_its_number(pytester: pytest.Pytester) -> None:
    run = run_pytest(
        pytester,
        *KEP,
        "-k",
        "status_of_a_terminated_pod",
        "-rx",
        "--drahealth-profile=v1.37",
        "--junitxml=j.xml",
        "-o",
        "xfail_strict=true",
    )
    run.assert_outcomes(xfailed=1)
    run.stdout.fnmatch_lines(["XFAIL *test_the_status_of_a_terminated_pod_does_not_change - B-19: *"])
    assert ("known-issue", "B-19") in properties(pytester)


DRAFT = "v1alpha1.NodeHealth/WatchDevicesStatus"
NEEDS_MORE = f"TIMEOUT-02 needs timeout, which {DRAFT} does not have"


def test_a_scenario_that_the_health_api_cannot_carry_is_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    wanted = ("-k", "own_timeout or recovered", "-rs", "--junitxml=j.xml")
    run = run_pytest(pytester, *KEP, *wanted, f"--drahealth-health-api={DRAFT}", "--drahealth-report=r.json")
    run.assert_outcomes(passed=1, skipped=1)
    run.stdout.fnmatch_lines([f"SKIPPED * {NEEDS_MORE}"])
    report = json.loads((pytester.path / "r.json").read_text())
    scenarios = {s["outcome"]: s["reason"] for s in report["scenarios"]}
    assert (scenarios, report["health_api"]) == ({"passed": "", "not applicable": NEEDS_MORE}, DRAFT)
    assert (report["exit_code"], verdicts(report)["TIMEOUT-02"]) == (0, "NOT_APPLICABLE")
    assert ("requirement", "TIMEOUT-02") in properties(pytester)


def test_a_plain_run_plays_the_basic_scenarios_over_every_health_api(pytester: pytest.Pytester) -> None:
    files = ("--drahealth-report=r.json", "--drahealth-histories=h")
    run = run_pytest(pytester, *KEP, "-k", "recovered or own_timeout", *files)
    run.assert_outcomes(passed=5)
    played = json.loads((pytester.path / "r.json").read_text())["scenarios"]
    recovered, timeout = "test_a_recovered_device_shows_healthy_again", "test_each_device_has_its_own_timeout"
    others = [f"{recovered}[{api}]" for api in list(HEALTH_APIS)[1:]]
    assert [one["name"] for one in played] == [recovered, *others, timeout]
    histories = [read_history(pytester.path / one["history_file"]).records for one in played]
    opened = [[r.what.health_api for r in records if isinstance(r.what, StreamOpened)] for records in histories]
    assert [apis[-1] for apis in opened] == [*HEALTH_APIS, "v1.DRAResourceHealth"]


TWO_NODES = """
from drahealth.manager.releases import PROFILES
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.reference.target import ReferenceConfiguration, ReferenceTarget
from drahealth.suites.targets.registry import JudgedNode

async def on(self, node, profile):
    used.append((node, profile.name))
    return self

used = []
ReferenceTarget.on = on
ReferenceConfiguration.judged_nodes = {
    "a": JudgedNode("1.37.2", PROFILES["v1.37"], {}),
    "b": JudgedNode("1.36.4", PROFILES["v1.36.4"], {Capability.SWITCH_GATES: "it is old"}),
}

def pytest_sessionfinish():
    print(f"used {used}")
"""


def test_each_node_that_is_judged_by_itself_plays_each_scenario(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TWO_NODES)
    conftest = ("-p", "conftest", "--drahealth-profile=v1.37", "--drahealth-report=r.json")
    run = run_pytest(pytester, *KEP, "-k", "status_of_a_terminated_pod or disabling_the_gate_removes", *conftest)
    report = json.loads((pytester.path / "r.json").read_text())
    seen = {(one["name"].partition("[")[2], one["node"], one["outcome"]) for one in report["scenarios"]}
    assert seen == {
        ("a]", "a", "known issue"),
        ("a]", "a", "passed"),
        ("b]", "b", "known issue"),
        ("b]", "b", "not applicable"),
    }
    run.stdout.fnmatch_lines(["*used [[]('a', 'v1.37'), ('a', 'v1.37'), ('b', 'v1.36.4')[]]*"])
    assert [(one["node"], one["kubelet"], one["verdict"], one["counts"]) for one in report["nodes"]] == [
        ("a", "1.37.2", "passed", {"known issue": 1, "passed": 1}),
        ("b", "1.36.4", "passed", {"known issue": 1, "not applicable": 1}),
    ]


def test_a_distributed_run_has_one_report_and_all_histories(pytester: pytest.Pytester) -> None:
    wanted = ("-n2", "-k", "recovered or status_of_a_terminated_pod or own_timeout", "-rs", "--junitxml=j.xml")
    files = ("--drahealth-report=r.json", "--drahealth-histories=deep/h")
    run = run_pytest(pytester, *KEP, *wanted, f"--drahealth-health-api={DRAFT}", *files)
    run.assert_outcomes(passed=2, skipped=1)
    run.stdout.fnmatch_lines([f"SKIPPED * {NEEDS_MORE}"])
    report = json.loads((pytester.path / "r.json").read_text())
    assert (report["counts"], verdicts(report)["TERM-02"]) == (
        {"passed": 2, "not applicable": 1},
        "PASS",
    )
    assert ("requirement", "TIMEOUT-02") in properties(pytester)
    histories = [read_history(path).records for path in (pytester.path / "deep/h").iterdir()]
    assert [any(isinstance(r.what, StatusSeen) for r in records) for records in histories] == [True, True]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--drahealth-target=moon", "--drahealth-target "),
        ("--drahealth-nodes=2", "--drahealth-nodes "),
        ("--drahealth-report=.", "cannot write ."),
    ],
)
def test_an_invalid_option_gives_a_one_line_error_before_the_run(
    pytester: pytest.Pytester, option: str, sentence: str
) -> None:
    pytester.makepyfile(x="def test_nothing(): pass")
    run = run_pytest(pytester, option, "x.py", "-p", "no:terminal")
    assert (run.ret, run.outlines) == (pytest.ExitCode.USAGE_ERROR, [])
    [error] = [line for line in run.errlines if "ERROR" in line or "Trace" in line]
    assert error.startswith(f"ERROR: {sentence}")
