"""A kubelet that the user built: which file it is, and its release."""

import functools
import re
import subprocess
from pathlib import Path

from drahealth.suites.errors import ConfigurationError

_VERSION = re.compile(r"Kubernetes v(\d+\.\d+)\.\d+\S*")
_HELP = "The kubelet is "
_NO_RELEASE = "0.0"
"""The release of a kubelet that was built with `go build`, without the linker flags of Kubernetes."""
_SECONDS = 60.0


def check_release(kubelet: Path, kubernetes: str) -> None:
    """Raises ConfigurationError if the file is not a kubelet, or belongs to another minor release than `kubernetes`.

    A kubelet without a release is accepted: a plain `go build` sets none.
    """
    minor = minor_release(kubelet)
    wanted = ".".join(kubernetes.split(".")[:2])
    if minor not in (wanted, _NO_RELEASE):
        raise ConfigurationError(
            f"--kubelet must be a kubelet of Kubernetes {wanted}, but {kubelet} is of {minor}",
            f"select the release of the kubelet, such as --kubernetes {minor}.0",
        )


@functools.cache
def minor_release(kubelet: Path) -> str:
    """The release of a kubelet, such as 1.37; 0.0 without one. Raises ConfigurationError if it is not a kubelet."""
    # All programs of Kubernetes print the same version, but each has its own help.
    match = _VERSION.match(_output(kubelet, "--version"))
    if match is None or not _output(kubelet, "--help").startswith(_HELP):
        raise ConfigurationError(
            f"--kubelet must be a kubelet, got {kubelet}", "build it with `make WHAT=cmd/kubelet` in Kubernetes"
        )
    return match[1]


def _output(program: Path, option: str) -> str:
    """What the program prints to its standard output; empty if it does not start, or does not end."""
    try:
        done = subprocess.run(
            [program, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
