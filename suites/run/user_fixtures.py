"""What the fixtures `drahealth_...` give: async context managers for other people's tests (docs/use-in-your-tests.md).

They are entered inside the test, so that they live in its event loop, whichever plugin runs it.
"""

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from drahealth.fakes.control.driver import DriverControl, only_health_api
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.nodes.node import Node
from drahealth.suites.nodes.node_target import LocalConfiguration
from drahealth.suites.nodes.reference_kubelet import ReferenceKubelet
from drahealth.suites.nodes.running_node import RunningNode
from drahealth.suites.run.options import Options
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_NODE = "--drahealth-node"
_OF_OWN_NODES = ("--drahealth-target", "--drahealth-health-api")
DEVICES = ("gpu-0", "gpu-1")
"""The devices of the fixture `drahealth_driver`."""


def kubelet(config: pytest.Config) -> ReferenceKubelet:
    """A reference kubelet with the profile of the run."""
    return ReferenceKubelet(Options.of(config).profile)


def node(config: pytest.Config) -> Node:
    """A node on the target of the run, or a running one.

    Raises ConfigurationError for a target without local drivers, and for options that a running node cannot have.
    """
    if name := config.getoption(_NODE):
        if given := [option for option in _OF_OWN_NODES if config.getoption(option)]:
            raise ConfigurationError(f"{given[0]} and {_NODE} exclude each other", f"omit {given[0]}")
        return RunningNode(name)
    options = Options.of(config)
    reason = options.missing.get(Capability.LOCAL_DRIVERS)
    if reason:
        able = (target.name for target in registry.definitions(Capability.LOCAL_DRIVERS))
        raise ConfigurationError(
            f"drahealth_node cannot use --drahealth-target {options.target}: {reason}", f"choose {' or '.join(able)}"
        )
    return Node(cast("LocalConfiguration", options.configuration))


def driver(config: pytest.Config, node: Node) -> AbstractAsyncContextManager[DriverControl]:
    """A driver for this node, which must be entered first, with the health API of the run.

    A running node has a driver. It is used, and reset at the end.
    """
    if isinstance(node, RunningNode):
        return _own_driver(node)
    api = Options.of(config).health_api
    only: dict[str, Any] = only_health_api(api) if api else {}

    @asynccontextmanager
    async def registered() -> "AsyncIterator[DriverControl]":
        async with FakeDriver.for_node(node, DEVICES, **only) as made:
            yield made

    return registered()


@asynccontextmanager
async def _own_driver(node: RunningNode) -> "AsyncIterator[DriverControl]":
    found = await node.driver()
    try:
        yield found
    finally:
        await found.reset()
