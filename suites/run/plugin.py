"""The pytest plugin: options, fixtures for other people's tests, and the collection of timelines.

Every pytest run of an environment with drahealth loads it, so it imports only pytest and the options of the targets.
It changes nothing until an option of ours is given or a scenario is collected. Then it registers `reporting`.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from drahealth.suites.targets import registry
from drahealth.suites.targets.option import Option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from anyio.from_thread import BlockingPortal

    from drahealth.fakes.control.fake_options import DriverControl
    from drahealth.suites.nodes.kubelets import ReferenceKubelet
    from drahealth.suites.nodes.node import Node
    from drahealth.suites.nodes.sync import SyncDriver, SyncNode

_OPTIONS = (
    registry.target_option("run"),
    Option("seed", "NUMBER", "Run the scenarios in a random order; for timelines: replace the seed of the file.", str),
    Option("speed", "FACTOR", "timelines: Speed factor; with 10, a timeline plays 10 times as fast.", str),
    Option("node", "NAME", "fixtures: Use this node of `drahealth up`; start no other node.", str),
    Option("report", "FILE", "Write the report of the run as JSON.", str),
    Option("histories", "DIR", "Write the history of each scenario as JSON Lines.", str),
)
"""The options that belong to no target."""

_CHECK_OPTIONS = (
    ("check", "COMMAND", "Command that starts the driver to check, or the registration socket of a running driver."),
    ("check-options", "FLAGS", "More options for `drahealth check`, such as '--env A=1 --claim FILE'."),
    ("check-evidence", "FILE", "Write the evidence to this new file."),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drahealth", "drahealth: device health of Kubernetes KEP-4680")
    for option in _OPTIONS:
        group.addoption(f"--drahealth-{option.name}", metavar=option.metavar, help=option.help)
    group.addoption("--drahealth-command", help=argparse.SUPPRESS)  # our command that has started pytest
    for name, metavar, text in _CHECK_OPTIONS:
        group.addoption(f"--drahealth-{name}", metavar=metavar, help=f"drahealth.suites.driver: {text}")
    for option, targets in registry.options("run"):
        everywhere = len(targets) == len(registry.FOLDERS)
        text = option.help if everywhere else f"{', '.join(targets)}: {option.help}"
        if option.name == "keep":
            text += " With --drahealth-node: keep the namespace and the drivers of a failed test."
            group.addoption("--drahealth-keep", metavar=option.metavar, nargs="?", const="failed", help=text)
        else:
            group.addoption(f"--drahealth-{option.name}", metavar=option.metavar, help=text)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "pytest.Collector | None":
    """Timelines are tests."""
    if not file_path.name.endswith(".timeline.yaml"):
        return None
    from drahealth.suites.run.timelines import TimelineFile  # only now: it imports all the rest

    file: pytest.Collector = TimelineFile.from_parent(parent, path=file_path)
    return file


def pytest_itemcollected(item: pytest.Item) -> None:
    """`-k` also matches the requirements of a scenario, and its title with underscores."""
    if found := getattr(getattr(item, "function", None), "scenario", None):
        item.extra_keyword_matches.update((*found.requirements, found.title.replace(" ", "_")))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Reject a wrong option before collection. The controller of a distributed run collects nothing, but reports."""
    if (seed := session.config.getoption("--drahealth-seed")) and not seed.removeprefix("-").isdecimal():
        raise pytest.UsageError(f"--drahealth-seed must be a whole number, got {seed!r}")
    names = {option.name for option in (*_OPTIONS, *(offered.option for offered in registry.options("run")))}
    if session.config.getoption("--drahealth-node") is not None:
        from drahealth.suites.run.user_fixtures import NamedNode  # only now: it imports all the rest

        session.config.pluginmanager.register(NamedNode(session.config), "drahealth-named-node")
        names.remove("keep")
    elif session.config.getoption("--drahealth-keep") and not _may_keep(session.config):
        raise pytest.UsageError(
            "--drahealth-keep needs what stays after the run; add --drahealth-node NAME or --drahealth-target kind"
        )
    if any(session.config.getoption(f"--drahealth-{name}") for name in ("command", *(names - {"node"}))):
        _take_over(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Scenarios can be played over several health APIs, and on several nodes."""
    if hasattr(metafunc.function, "scenario") and "node" in metafunc.fixturenames:
        from drahealth.suites.run.scenario import play_in_each_way  # only now: it imports all the rest

        play_in_each_way(metafunc)


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_collection_titles(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`-k` takes titles of scenarios as printed. pytest selects the items after this."""
    found = [scenario for item in items if (scenario := getattr(getattr(item, "function", None), "scenario", None))]
    if found and config.option.keyword:
        from drahealth.suites.run.scenario import pytest_expression  # only now: it imports the ledger

        titles = [scenario.title.replace(" ", "_").lower() for scenario in found]
        config.option.keyword = pytest_expression(config.option.keyword, titles)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(hasattr(getattr(item, "function", None), "scenario") for item in items):
        _take_over(config)
        _draw_order(config, items)
        reporting = config.pluginmanager.get_plugin("drahealth-reporting")
        assert reporting
        reporting.has_scenarios(items)


@pytest.fixture(scope="session")
def _drahealth_portal() -> "Iterator[BlockingPortal]":
    """The event loop of the nodes of this process, in a thread."""
    from drahealth.suites.run import user_fixtures

    with user_fixtures.portal() as made:
        yield made


@pytest.fixture(scope="session")
def drahealth_session_node(request: pytest.FixtureRequest, _drahealth_portal: "BlockingPortal") -> "Iterator[SyncNode]":
    """A node for all tests of the process. In a test that uses it, drahealth_node is a part of this node."""
    from drahealth.suites.run import user_fixtures

    with user_fixtures.sync_node(request.config, "session", _drahealth_portal) as node:
        yield node


@pytest.fixture
def drahealth_node(request: pytest.FixtureRequest, _drahealth_portal: "BlockingPortal") -> "Iterator[SyncNode]":
    """A node that runs Pods, with a namespace and a driver for this test, by --drahealth-target or --drahealth-node."""
    from drahealth.suites.run import user_fixtures

    uses_session = "drahealth_session_node" in request.fixturenames
    session = request.getfixturevalue("drahealth_session_node") if uses_session else None
    with user_fixtures.sync_node(request.config, request.node.name, _drahealth_portal, session) as node:
        yield node


@pytest.fixture
def drahealth_driver(drahealth_node: "SyncNode") -> "SyncDriver":
    """The fake DRA driver of drahealth_node, with gpu-0 and gpu-1; with --drahealth-node, with the node's devices."""
    return drahealth_node.driver


@pytest.fixture
def drahealth_kubelet(request: pytest.FixtureRequest) -> "ReferenceKubelet":
    """A reference kubelet for a driver under test to register with; enter it with `async with`."""
    from drahealth.suites.run import user_fixtures

    return user_fixtures.kubelet(request.config)


@pytest.fixture
def drahealth_async_node(request: pytest.FixtureRequest) -> "Node":
    """The same as drahealth_node for asynchronous tests; enter it with `async with`."""
    from drahealth.suites.run import user_fixtures

    return user_fixtures.node(request.config, request.node.name)


@pytest.fixture
def drahealth_async_driver(
    request: pytest.FixtureRequest, drahealth_async_node: "Node"
) -> "AbstractAsyncContextManager[DriverControl]":
    """The same as drahealth_driver; enter it after drahealth_async_node with `async with`."""
    from drahealth.suites.run import user_fixtures

    return user_fixtures.driver(request.config, drahealth_async_node)


def _may_keep(config: pytest.Config) -> bool:
    """Whether another part checks `--drahealth-keep`: the target, or a command of ours, which has other options."""
    return bool(config.getoption("--drahealth-command")) or config.getoption("--drahealth-target") == "kind"


def _draw_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a seed, scenarios change places. Timelines and other tests keep theirs."""
    if not (seed := config.getoption("--drahealth-seed")):
        return
    from drahealth.suites.run.scenario import drawn_order

    places = [
        n for n, item in enumerate(items) if isinstance(item, pytest.Function) and hasattr(item.function, "scenario")
    ]
    drawn = drawn_order([items[n] for n in places], lambda item: item.nodeid.rpartition("::")[2], int(seed))
    for place, item in zip(places, drawn, strict=True):
        items[place] = item


def _take_over(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("drahealth-reporting"):
        from drahealth.suites.run.reporting import Reporting  # only now: it imports all the rest

        config.pluginmanager.register(Reporting(config), "drahealth-reporting")
