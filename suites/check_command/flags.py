"""The flags of `drahealth check` as settings."""

import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from drahealth.suites.checking.checks import CHECKS
from drahealth.suites.checking.checks.registry import needed_experiments
from drahealth.suites.checking.claim_file import read_claim_file
from drahealth.suites.checking.sandbox.declared import Sandbox
from drahealth.suites.checking.settings import CDI_DIRS, DEADLINE, DriverApiServer, Settings
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers.options import ApiServerKind
from drahealth.suites.targets.option import choice
from drahealth.suites.targets.versions import parse_version


def settings_of(
    words: Sequence[str],
    *,
    device_plugin: bool = False,
    registry_dir: Path | None = None,
    kubeconfig: Path | None = None,
    cdi_dirs: Sequence[Path] = (),
    node_name: str = "",
    env: Sequence[str] = (),
    driver_name: str = "",
    api_server: str = "memory",
    kubernetes: str | None = None,
    claim: Path | None = None,
    requirements: Sequence[str] = (),
    sequential: bool = False,
    sandbox: bool = False,
    private: Sequence[Path] = (),
    deadline: float = DEADLINE,
    evidence: Path | None = None,
    redact: bool = True,
) -> Settings:
    """The settings of a run. Raises ConfigurationError."""
    command, socket = target_of(words, registry_dir)
    if registry_dir and not registry_dir.is_dir():
        raise ConfigurationError(
            f"--registry-dir {registry_dir} is not a directory", "start the kubelet or the driver first"
        )
    if command and "{" not in command[0] and shutil.which(command[0]) is None:
        raise _not_runnable(command, device_plugin=device_plugin)
    if private and not sandbox:
        raise ConfigurationError("--private needs --sandbox", "pass --sandbox, or remove --private")
    if kubernetes and api_server != "real":
        raise ConfigurationError(
            "--kubernetes needs --api-server real", "pass --api-server real, or remove --kubernetes"
        )
    return Settings(
        command=command,
        subject="device-plugin" if device_plugin else "dra-driver",
        environment=dict(_variable(one) for one in env),
        driver_name=driver_name,
        registry_dir=registry_dir.absolute() if registry_dir else None,
        socket=socket,
        cdi_dirs=tuple(cdi_dirs) or CDI_DIRS,
        node_name=node_name,
        kubeconfig=kubeconfig,
        api_server=api_server_kind(api_server),
        kubernetes=kubernetes and parse_version(kubernetes),
        claim=read_claim_file(claim) if claim else (),
        claim_file=claim,
        only=experiments_for(requirements),
        sequential=sequential,
        sandbox=Sandbox(private=tuple(map(str, private))) if sandbox else None,
        deadline=deadline,
        evidence=evidence,
        redact=redact,
    )


def api_server_kind(text: str) -> DriverApiServer:
    """The value of --api-server. Raises ConfigurationError."""
    try:
        found: DriverApiServer = choice(*get_args(ApiServerKind), "none")(text)
    except ValueError as error:
        raise ConfigurationError(f"--api-server {error}, got {text!r}", "the default is memory") from None
    return found


def _not_runnable(command: Sequence[str], *, device_plugin: bool) -> ConfigurationError:
    if len(command) == 1 and command[0].endswith(".sock"):
        running = "pass the registration socket of a running driver, or `-- COMMAND...`"
        started = "pass `-- COMMAND...`, because a check of a device plugin must start it"
        return ConfigurationError(f"there is no socket {command[0]}", started if device_plugin else running)
    hint = "pass the path of an executable program"
    if len(command) == 1 and not device_plugin:
        hint += ", or the registration socket of a running driver"
    return ConfigurationError(f"cannot run {command[0]}", hint)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"--env must be NAME=VALUE, got {text!r}", "write --env NAME=VALUE")
    return name, value


def target_of(words: Sequence[str], registry_dir: Path | None) -> tuple[tuple[str, ...], Path | None]:
    """The command and the socket from the words of the command line: one word that is a socket is a running driver."""
    if registry_dir or not words:
        return tuple(words), None
    if len(words) == 1:
        with suppress(OSError):
            if stat.S_ISSOCK(Path(words[0]).stat().st_mode):
                return (), Path(words[0]).absolute()
    return tuple(words), None


def experiments_for(names: Sequence[str]) -> frozenset[str]:
    """The experiments that the checks of these requirements need; empty for no requirement, which stands for all."""
    return needed_experiments(check for check in CHECKS.values() if check.requirement in names)
