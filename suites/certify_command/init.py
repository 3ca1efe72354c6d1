"""`drahealth certify --init`: writes a commented driver profile, also from a running driver."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.suites.certifying.profile.template import driver_profile
from drahealth.suites.check_command.flags import target_of
from drahealth.suites.checking.settings import Settings
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file

_COMMAND = ("./my-driver", "--registry={registry_dir}", "--data={driver_dir}", "--kubeconfig={kubeconfig}")
_NOTE = "Replace the command by that of your driver."


def write_profile(
    words: Sequence[str], *, registry_dir: Path | None, kubeconfig: Path | None, out: Path | None
) -> None:
    """Writes a driver profile to a new file, or to standard output. Raises ConfigurationError."""
    command, socket = target_of(words, registry_dir)
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
