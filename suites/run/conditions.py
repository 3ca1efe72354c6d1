"""When, where and how a run takes place: versions, this machine, options, the git commit of the current directory."""

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from drahealth.proto.version import __version__
from drahealth.suites.judging.report import Conditions, Run
from drahealth.suites.run.options import Options

_OPTIONS = {
    "seed": "drahealth_seed",
    "speed": "drahealth_speed",
    "k": "keyword",
    "m": "markexpr",
    "n": "numprocesses",
    "maxfail": "maxfail",
}
"""Options that do not belong to the target, by name, with their names in pytest."""

_GIT_SECONDS = 10.0
"""The longest time for git. It may read many files, or a slow disk."""


def run_of(options: Options, config: pytest.Config) -> Run:
    """A run that starts now."""
    only = options.health_api.name if options.health_api else None
    over = "all" if options.every_health_api else only
    given = {name: config.getoption(option, None) for name, option in _OPTIONS.items()}
    texts = {name: str(value) for name, value in given.items() if value}
    flags = options.configuration.flags
    conditions = Conditions(
        command=config.getoption("drahealth_command") or "pytest",
        started=now(),
        profile=options.profile.name,
        kubernetes=flags.get("kubernetes"),
        seed=int(texts["seed"]) if "seed" in texts else None,
        versions={"drahealth": __version__, "python": platform.python_version(), "pytest": pytest.__version__},
        host={
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "cpus": str(os.cpu_count() or 0),
        },
        options={"target": options.target, **flags, **({"health-api": over} if over else {}), **texts},
        revision=git_revision(),
    )
    return Run(options.target, options.about, over, conditions=conditions)


def now() -> str:
    """The time in RFC 3339, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_revision() -> str | None:
    """The commit of the current directory, with -dirty if files differ from it. None without git or a commit."""
    git = shutil.which("git")
    if not git:
        return None
    # Settings of a repository can start programs, and this one may not be the user's own.
    words = [git, "-c", "core.fsmonitor=false", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
