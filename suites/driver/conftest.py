"""The run that all tests of this folder judge."""

import asyncio
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drahealth.suites.check_command.flags import settings_of
from drahealth.suites.checking.run import run_experiments
from drahealth.suites.checking.summary import Summary, summarize
from drahealth.suites.errors import ConfigurationError


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> Summary:
    """The judged run of the driver of --drahealth-check."""
    words = shlex.split(pytestconfig.getoption("--drahealth-check") or "")
    evidence = pytestconfig.getoption("--drahealth-check-evidence")
    if not words:
        pytest.skip("no driver; pass --drahealth-check 'COMMAND', or the registration socket of a running driver")
    try:
        settings = settings_of(words, evidence=Path(evidence) if evidence else None)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--drahealth-check: {error}") from None
    return summarize(asyncio.run(run_experiments(settings)), today=datetime.now(UTC).date())
