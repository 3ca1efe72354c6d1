"""The pytest plugin's door: options, and a look at what was collected.

It is loaded into every pytest run of an environment that has drahealth installed, so it imports nothing but pytest
and changes nothing until an option of ours is given or one of our scenarios is collected; then `reporting` takes over.
"""

import pytest

_OPTIONS = ("target", "kubernetes", "profile", "driver", "report", "histories")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drahealth", "drahealth: device health of Kubernetes KEP-4680")
    group.addoption(
        "--drahealth-target", metavar="TARGET", help="what the scenarios run on: reference (default) or kubelet"
    )
    group.addoption(
        "--drahealth-kubernetes", metavar="VERSION", help="Kubernetes release of a real kubelet, such as 1.37.1"
    )
    group.addoption("--drahealth-profile", metavar="NAME", help="what the reference behaves as: kep (default) or v1.37")
    group.addoption(
        "--drahealth-driver", metavar="WHERE", help="where the fake driver lives: inline (default) or process"
    )
    group.addoption("--drahealth-report", metavar="FILE", help="write the report of the run as JSON")
    group.addoption("--drahealth-histories", metavar="DIR", help="write each scenario's history as JSON Lines")


def pytest_sessionstart(session: pytest.Session) -> None:
    """A wrong option is told at once; and who controls a distributed run collects nothing, but writes the report."""
    if any(session.config.getoption(f"drahealth_{name}") for name in _OPTIONS):
        _take_over(session.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(hasattr(getattr(item, "function", None), "scenario") for item in items):
        _take_over(config)


def _take_over(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("drahealth-reporting"):
        from drahealth.suites.reporting import Reporting  # only now: it imports all the rest

        config.pluginmanager.register(Reporting(config), "drahealth-reporting")
