"""What the fixtures `drahealth_...` give: nodes and drivers for other people's tests (docs/python.md).

The fixtures without `async` in their names give objects that run in a thread. The others give async context managers,
which are entered inside the test, so that they live in its event loop, whichever plugin runs it.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.fake_options import DriverControl, only_health_api
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.program.usage import as_called
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.nodes.kubelets import ReferenceKubelet
from drahealth.suites.nodes.node import LocalConfiguration, Node
from drahealth.suites.nodes.running_node import PartOfNode, RunningNode, SharedNode, unique
from drahealth.suites.nodes.sync import SyncNode
from drahealth.suites.run.options import Options
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.up_command.node_folder import ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


_LONGEST = 40
"""Characters of the name of a test in the name of its namespace."""


@contextmanager
def portal() -> Iterator[BlockingPortal]:
    """The event loop of the nodes of this process, in a thread."""
    with start_blocking_portal() as made:
        yield made


def kubelet(config: pytest.Config) -> ReferenceKubelet:
    """A reference kubelet with the profile of the run."""
    return ReferenceKubelet(Options.of(config).profile)


@contextmanager
def sync_node(
    config: pytest.Config, test: str, portal: BlockingPortal, session: SyncNode | None = None
) -> Iterator[SyncNode]:
    """A node for this test, or the part of the session's node that belongs to the test. Errors fail the test."""
    problem = ""
    try:
        made = node(config, test, session)
        with SyncNode(made, portal, **driver_options(config)) as running:
            yield running
    except (HarnessError, ControlFailed, TimeoutError, ApiError, OSError) as error:
        problem = problem_of(error, config.getoption(OPTION) or "")
    if problem:  # here, so that the report has one error
        pytest.fail(problem, pytrace=False)


def node(config: pytest.Config, test: str, session: SyncNode | None = None) -> Node:
    """A node on the target of the run, or a part of a running one, with a namespace for this test. It is not entered.

    Raises ConfigurationError for a target without local drivers.
    """
    namespace = unique(_label(test))
    if name := config.getoption(OPTION):
        return RunningNode(name, namespace=namespace, keep_failed=keeps_failed(config))
    if session:
        return PartOfNode(session.node, namespace=namespace)
    options = Options.of(config)
    reason = options.missing.get(Capability.LOCAL_DRIVERS)
    if reason:
        able = (target.name for target in registry.definitions(Capability.LOCAL_DRIVERS))
        raise ConfigurationError(
            f"drahealth_node cannot use --drahealth-target {options.target}: {reason}", f"choose {' or '.join(able)}"
        )
    return Node(cast("LocalConfiguration", options.configuration), namespace=namespace)


def driver(config: pytest.Config, node: Node) -> AbstractAsyncContextManager[DriverControl]:
    """A driver for this node, which must be entered first. It ends with the node."""

    @asynccontextmanager
    async def registered() -> "AsyncIterator[DriverControl]":
        yield await node.add_driver(**driver_options(config))

    return registered()


def driver_options(config: pytest.Config) -> dict[str, Any]:
    """The options of the drivers of tests: the health API of the run."""
    api = None if config.getoption(OPTION) else Options.of(config).health_api
    return dict(only_health_api(api)) if api else {}


def _label(test: str) -> str:
    """The name of a test as the start of a name in the API."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).removeprefix("test-")
    return f"test-{words}"[:_LONGEST].rstrip("-")
