"""`drahealth certify --init`: writes a commented driver profile, also from a running driver, or a starting one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.hints import near
from drahealth.suites.certifying.profile.starting import NAMES, starting_profile
from drahealth.suites.certifying.profile.template import driver_profile
from drahealth.suites.check_command.flags import target_of
from drahealth.suites.checking.settings import Settings
from drahealth.suites.checking.subject.places import check_placeholders
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file

_COMMAND = ("./my-driver", "--registry={registry_dir}", "--data={driver_dir}", "--kubeconfig={kubeconfig}")
_NOTE = "Replace the command with the command of your driver."


def write_profile(
    words: Sequence[str], *, registry_dir: Path | None, kubeconfig: Path | None, out: Path | None
) -> None:
    """Writes a driver profile to a new file, or to standard output. Raises ConfigurationError."""
    command, socket = target_of(words, registry_dir)
    check_placeholders(command)
    if out and out.exists():
        raise ConfigurationError(f"{out} exists", "choose another file with --out")
    check_output_file(str(out) if out else None)
    if registry_dir or socket:
        text = _of_running_driver(Settings(command, registry_dir=registry_dir, socket=socket, kubeconfig=kubeconfig))
    elif kubeconfig:
        raise ConfigurationError(
            "--kubeconfig is for a running driver", "pass --registry-dir, or a registration socket"
        )
    else:
        text = driver_profile({"driver": {"command": list(command or _COMMAND)}}, "" if command else _NOTE)
    if out:
        out.write_text(text)
    else:
        print(text, end="")  # noqa: T201


def write_starting_profile(name: str, out: Path | None) -> None:
    """Writes a starting driver profile, and beside it the files that it names. Raises ConfigurationError."""
    if name not in NAMES:
        raise ConfigurationError(f"unknown driver {name!r}", near(name, NAMES))
    files = starting_profile(name)
    profile = f"{name}.toml"
    if out is None:
        print(files[profile], end="")  # noqa: T201
        return
    texts = {out if file == profile else out.parent / file: text for file, text in files.items()}
    for path in texts:
        if path.exists():
            raise ConfigurationError(f"{path} exists", "choose another file with --out")
        check_output_file(str(path))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


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
