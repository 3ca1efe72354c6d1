"""The run that all tests of this folder judge."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drahealth.fakes.program.errors import CommandError
from drahealth.suites.driver.options import Run, run_of
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.summary import Summary, summarize
from drahealth.suites.driver_checks.verdicts import requirements
from drahealth.suites.errors import ConfigurationError

_RUN = pytest.StashKey[Run]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests with the requirements of the subject. Wrong options are rejected after the collection."""
    if "requirement" in metafunc.fixturenames:
        try:
            subject = _run(metafunc.config).asked.profile.subject
        except pytest.UsageError:
            subject = "dra-driver"
        judged = [one.id for one in requirements().values() if one.is_judged("check", subject)]
        metafunc.parametrize("requirement", judged)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject wrong or missing options before the first test: a run without a driver is no pass.

    A worker of a distributed run cannot end the run; there each test has the error.
    """
    is_ours = any(item.path.parent == Path(__file__).parent for item in items)
    if is_ours and not config.option.collectonly and not hasattr(config, "workerinput"):
        _run(config)


def _run(config: pytest.Config) -> Run:
    """The run of the options, which is made once. Raises UsageError."""
    if _RUN not in config.stash:
        config.stash[_RUN] = _new_run(config)
    return config.stash[_RUN]


def _new_run(config: pytest.Config) -> Run:
    command, flags, evidence = (
        config.getoption(f"--drahealth-check{end}") or "" for end in ("", "-options", "-evidence")
    )
    try:
        return run_of(command, flags, evidence)
    except (ConfigurationError, CommandError) as error:
        raise pytest.UsageError(f"drahealth.suites.driver: {error}") from None


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> Summary:
    """The judged run of the driver or device plugin of --drahealth-check."""
    run = _run(pytestconfig)
    evidence = asyncio.run(run_experiments(run.asked))
    return summarize(evidence, waivers=run.waivers, today=datetime.now(UTC).date())
