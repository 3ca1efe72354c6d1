"""The node of `--drahealth-node`: its check before the run, its line in the header, and what a failed test keeps."""

from collections.abc import Generator, Iterator

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.program.usage import as_called
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.nodes.running_node import SharedNode
from drahealth.suites.nodes.sync import SyncNode
from drahealth.suites.targets import registry
from drahealth.suites.up_command.node_folder import ready

OPTION = "--drahealth-node"
KEEP = "--drahealth-keep"
_KEEP_VALUES = ("never", "failed")


class NamedNode:
    """A pytest plugin for runs with `--drahealth-node`. Raises UsageError for an unusable option or node."""

    def __init__(self, config: pytest.Config) -> None:
        self._name = config.getoption(OPTION)
        self._keeps = keeps_failed(config)
        try:
            self._title = _title(config)
        except HarnessError as error:
            raise pytest.UsageError(as_called(str(error))) from None

    def pytest_report_header(self) -> str:
        """The true node, also in a distributed run."""
        return f"drahealth: node {self._name} of `drahealth up`: {self._title}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the namespaces of a failed test, and say where they are."""
        report = yield
        if self._keeps and report.failed and report.when != "teardown":
            for node in _nodes(item):
                if isinstance(node, SyncNode) or node.is_kept:  # a test can fail after the end of its node
                    report.sections.append(("drahealth", _keep(node, self._name)))
        return report


def keeps_failed(config: pytest.Config) -> bool:
    """Whether a failed test on a node of `drahealth up` keeps its namespace and its drivers."""
    return bool(config.getoption(KEEP) == "failed")


def problem_of(error: Exception, name: str) -> str:
    """The text of an error on the node. If the node no longer runs, the text says so."""
    if name and not isinstance(error, HarnessError):
        try:
            ready(name)
        except HarnessError as gone:
            error = gone
    return as_called(full_text(error))


def _title(config: pytest.Config) -> str:
    """What the node runs. Raises ConfigurationError, HarnessError."""
    others = ("target", *(offered.option.name for offered in registry.options("run")))
    for option in (f"--drahealth-{name}" for name in others):
        if option != KEEP and config.getoption(option):
            raise ConfigurationError(f"{option} and {OPTION} exclude each other", f"omit {option}")
    keep = config.getoption(KEEP)
    if keep and keep not in _KEEP_VALUES:
        raise ConfigurationError(
            f"{KEEP} must be {' or '.join(_KEEP_VALUES)} with {OPTION}, got {keep!r}", f"write {KEEP}=failed"
        )
    if not config.getoption(OPTION):
        raise ConfigurationError(
            f"{OPTION} must be the name of a node, got ''", "`drahealth status` prints the names of all nodes"
        )
    return ready(config.getoption(OPTION))[1].title


def _nodes(item: pytest.Item) -> Iterator[SyncNode | SharedNode]:
    """The nodes that the fixtures gave to the test, each once."""
    seen = set[int]()
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, SyncNode | SharedNode) and id(value) not in seen:
            seen.add(id(value))
            yield value


def _keep(node: SyncNode | SharedNode, name: str) -> str:
    """Keeps the namespace of a node that still runs. Those for tests with asyncio have already done so."""
    try:
        if isinstance(node, SyncNode):
            node.keep()
    except (HarnessError, ApiError, OSError, TimeoutError, RuntimeError) as error:
        return f"namespace {node.namespace} cannot be kept: {error}"
    kubectl = f"drahealth kubectl --name {name}"
    return "\n".join(
        (
            f"kept on node {name}: namespace {node.namespace}, with its Pods and drivers",
            as_called(f"look:   `{kubectl} get pods --namespace {node.namespace} -o yaml`"),
            as_called(f"remove: `{kubectl} delete namespace {node.namespace}`"),
        )
    )
