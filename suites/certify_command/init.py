"""`drahealth certify --init`: writes a commented driver profile, also from a running driver, or a starting one."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.hints import near
from drahealth.suites.certifying.profile.starting import NAMES, starting_profile
from drahealth.suites.certifying.profile.template import driver_profile
from drahealth.suites.check_command.flags import target_of
from drahealth.suites.checking.settings import Settings
from drahealth.suites.checking.subject.places import check_placeholders
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.init_command.starters import write_new
from drahealth.suites.output_paths import check_output_file

_COMMAND = ("./my-driver", "--registry={registry_dir}", "--data={driver_dir}", "--kubeconfig={kubeconfig}")
_STANDARD_OUTPUT = Path("-")
_NOTE = "Replace the command with the command of your driver."


def write_profile(
    words: Sequence[str], *, registry_dir: Path | None, kubeconfig: Path | None, out: Path | None
) -> Path | None:
    """Writes a driver profile to a new file; `driver.toml` by default, and standard output for `-`.

    Returns the file; None for standard output. Raises ConfigurationError.
    """
    command, socket = target_of(words, registry_dir)
    check_placeholders(command)
    path = out or Path("driver.toml")
    _check_new([path])
    if registry_dir or socket:
        text = _of_running_driver(Settings(command, registry_dir=registry_dir, socket=socket, kubeconfig=kubeconfig))
    elif kubeconfig:
        raise ConfigurationError(
            "--kubeconfig is for a running driver", "pass --registry-dir, or a registration socket"
        )
    else:
        text = driver_profile({"driver": {"command": list(command or _COMMAND)}}, "" if command else _NOTE)
    return _written(path, text)


def write_starting_profile(name: str, out: Path | None) -> Path | None:
    """Writes a starting driver profile, and beside it the files that it names; by default NAME.toml.

    Standard output gets only the profile. Returns its file; None for standard output. Raises ConfigurationError.
    """
    if name not in NAMES:
        raise ConfigurationError(f"unknown driver {name!r}", near(name, NAMES))
    files = starting_profile(name)
    profile = f"{name}.toml"
    path = out or Path(profile)
    if path == _STANDARD_OUTPUT:
        return _written(path, files[profile])
    texts = {path if file == profile else path.parent / file: text for file, text in files.items()}
    _check_new(texts)
    for each, text in texts.items():
        _written(each, text)
    return path


def _check_new(paths: Iterable[Path]) -> None:
    """Raises ConfigurationError for a file that exists or cannot be written, before any work."""
    for path in paths:
        if path != _STANDARD_OUTPUT and path.exists():
            raise ConfigurationError(f"{path} exists", "pass the name of a new file with --out")
        check_output_file(str(path) if path != _STANDARD_OUTPUT else None)


def _written(path: Path, text: str) -> Path | None:
    if path == _STANDARD_OUTPUT:
        print(text, end="")  # noqa: T201
        return None
    write_new(path, text, "--out")
    return path


def _of_running_driver(settings: Settings) -> str:
    from drahealth.suites.certify_command.running_driver import describe

    found = asyncio.run(describe(settings))
    places = {
        "registry-dir": settings.registry_dir and str(settings.registry_dir.absolute()),
        "socket": settings.socket and str(settings.socket),
        "kubeconfig": settings.kubeconfig and str(settings.kubeconfig.absolute()),
    }
    running: dict[str, Any] = {key: value for key, value in places.items() if value}
    return driver_profile({"driver": {"running": running}}, "\n".join(found))
