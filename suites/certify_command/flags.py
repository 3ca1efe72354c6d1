"""The flags of `drahealth certify` as settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from drahealth.suites.certify_command.program import read_profile_file
from drahealth.suites.certifying.profile.settings import settings_of
from drahealth.suites.check_command.flags import api_server_kind, experiments_for
from drahealth.suites.checking.settings import Settings
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.option import choice

CertifiedLevel = Literal["core", "full"]
DEADLINES: dict[CertifiedLevel, float] = {"core": 180.0, "full": 420.0}
"""Seconds of the longest run by default."""


def certify_settings(
    path: Path,
    *,
    level: str = "core",
    api_server: str | None = None,
    deadline: float | None = None,
    requirements: Sequence[str] = (),
) -> Settings:
    """The settings of a certification. Raises ConfigurationError."""
    wanted = _level(level)
    file = read_profile_file(path)
    if api_server and (file.profile.driver.running or file.profile.driver.cluster):
        raise ConfigurationError(
            "--api-server is for a driver that drahealth starts on this machine", "remove --api-server"
        )
    return settings_of(
        file,
        level=wanted,
        api_server=api_server_kind(api_server) if api_server else None,
        deadline=DEADLINES[wanted] if deadline is None else deadline,
        only=experiments_for(requirements),
    )


def _level(text: str) -> CertifiedLevel:
    try:
        found: CertifiedLevel = choice(*get_args(CertifiedLevel))(text)
    except ValueError as error:
        raise ConfigurationError(f"--level {error}, got {text!r}", "the default is core") from None
    return found
