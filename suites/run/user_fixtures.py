"""What the fixtures `drahealth_...` give: nodes and drivers for other people's tests (docs/python.md).

The fixtures without `async` in their names give objects that run in a thread. The others give async context managers,
which are entered inside the test, so that they live in its event loop, whichever plugin runs it.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.fake_options import DriverControl, only_health_api
from drahealth.fakes.control.remote import ControlFailed
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.nodes.kubelets import ReferenceKubelet
from drahealth.suites.nodes.node import LocalConfiguration, Node
from drahealth.suites.nodes.running_node import PartOfNode, RunningNode, unique
from drahealth.suites.nodes.sync import SyncNode
from drahealth.suites.run.named_node import OPTION, keeps_failed, problem_of
from drahealth.suites.run.options import Options
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
