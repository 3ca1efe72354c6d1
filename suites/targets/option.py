"""The options of targets: each is declared once, with its name, type and help text. Those of kind are in its
folder.

The pytest options `--drahealth-NAME` and the flags of `drahealth run`, `play` and `doctor` are derived from them. This
module imports little, because every pytest run loads it.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args

from drahealth.manager.releases import (
    FIXABLE,
    NEXT_NAME,
    PROFILE_CHOICE,
    PROFILES,
    PROFILES_TEXT,
    VERSIONS_TEXT,
    profile_named,
)
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.versions import parse_version

if TYPE_CHECKING:
    from drahealth.manager.profile import Profile
    from drahealth.proto.health_apis import HealthApi

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Word = TypeVar("Word", bound=str)

Command = Literal["run", "doctor"]
"""A command that takes options: `run` stands for `drahealth run`, `drahealth play` and pytest."""


@dataclass(frozen=True)
class Option(Generic[T_co]):
    """`read` makes a value of a text. Its ValueError completes the sentence "--NAME ..., got TEXT"."""

    name: str
    metavar: str
    help: str
    """A noun phrase or an imperative, with the default."""
    read: Callable[[str], T_co]
    commands: tuple[Command, ...] = ("run",)
    choices: Callable[[], Iterable[str]] | None = None
    """Its values, for shell completion; None: too many to list."""

    @property
    def is_switch(self) -> bool:
        """It takes no value: its text is "true", or there is none."""
        return not self.metavar

    def value(self, text: str) -> T_co:
        """Raises ConfigurationError."""
        try:
            return self.read(text)
        except ValueError as error:
            raise ConfigurationError(f"--{self.name} {error}, got {text!r}") from None


class Values:
    """The values of the options that were given."""

    def __init__(self, texts: Mapping[str, str | None], options: Iterable[Option[Any]]) -> None:
        """`texts` are by name; None or "" stands for an option that is not given. Raises ConfigurationError."""
        self._texts = texts
        self._values = {option.name: option.value(text) for option in options if (text := texts.get(option.name))}

    def get(self, option: Option[T]) -> T | None:
        """None if it is not given."""
        return cast("T | None", self._values.get(option.name))

    def text_of(self, option: Option[Any]) -> str | None:
        """Its text as given; None if it is not given."""
        return self._texts.get(option.name) or None


def text(value: str) -> str:
    """Any text."""
    return value


def switch(value: str) -> bool:
    """Whether it is on."""
    return value == "true"


def choice(*allowed: Word) -> Callable[[str], Word]:
    """One of these."""

    def read(value: str) -> Word:
        for word in allowed:
            if value == word:
                return word
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A number in this range, both ends included."""

    def read(value: str) -> int:
        if not (value.isascii() and value.isdecimal()) or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(value)

    return read


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """A text that this regular expression matches as a whole; `what` names it in the error."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {what}")
        return value

    return read


def readable_file(name: str) -> Path:
    """The absolute path of a file that can be opened."""
    path = Path(name).absolute()
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"must be a readable file ({error.strerror})") from None
    return path


def executable_file(name: str) -> Path:
    """The absolute path of a file that this user may execute."""
    path = Path(name).absolute()
    if not path.is_file():
        raise ValueError("must be an executable file (no such file)")
    if not os.access(path, os.X_OK):
        raise ValueError("must be an executable file (its permissions do not allow it)")
    return path


ApiServerKind = Literal["memory", "real"]
"""memory: an API server in this process. real: kube-apiserver and etcd on this machine."""


def _profile(name: str) -> "Profile":
    found = profile_named(name)
    if found is None:
        raise ValueError(f"must be {PROFILE_CHOICE}")
    return found


def _health_api_names() -> tuple[str, ...]:
    from drahealth.proto.health_apis import HEALTH_APIS  # only here: options are listed without it

    return (*HEALTH_APIS, "NodeHealth", "all")


def _health_api(name: str) -> "HealthApi | Literal['all']":
    from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH

    chosen = choice(*_health_api_names())(name)
    return "all" if chosen == "all" else HEALTH_APIS.get(chosen, NODE_HEALTH)


def _ids(text: str) -> tuple[str, ...]:
    given = {part.strip() for part in text.split(",")}
    return tuple(sorted(given - {NEXT_NAME} | (set(FIXABLE) if NEXT_NAME in given else set())))


KUBERNETES = Option(
    "kubernetes",
    "VERSION",
    f"Kubernetes release of the real kubelet or API server, {VERSIONS_TEXT}. `next` with --kubelet FILE: the newest "
    "one, and all open fixes in the kubelet.",
    parse_version,
    ("run", "doctor"),
)
KUBELET = Option(
    "kubelet",
    "FILE",
    "Use this kubelet, for example your own build. --kubernetes selects the control plane, and must "
    "have the same minor release.",
    executable_file,
    ("run", "doctor"),
)
CONTROL_PLANE = Option(
    "control-plane",
    "VERSION",
    "Kubernetes release of the control plane, if it is newer than the kubelet: at most three minor releases. Then "
    "--kubernetes selects only the kubelet.",
    parse_version,
)
FIXED = Option(
    "fixed",
    "ID,...",
    "Known issues that your own kubelet has fixed, such as B-01: each is a failure if it happens. `next` stands for "
    "all with an open fix in kubernetes/kubernetes. The reference behaves as with the open fixes.",
    _ids,
)
START = Option("start", "", "Also start a real kubelet, and check that its node becomes Ready.", switch, ("doctor",))
PROFILE = Option("profile", "NAME", f"Profile of the reference: {PROFILES_TEXT}.", _profile, choices=lambda: PROFILES)
API_SERVER = Option(
    "api-server",
    "KIND",
    "API server of the reference: memory (default) or real (kube-apiserver and etcd).",
    choice(*get_args(ApiServerKind)),
)
DRIVER = Option(
    "driver",
    "WHERE",
    "Run the fake driver in the process of drahealth (inline, default), or in its own process (process).",
    choice("inline", "process"),
    choices=lambda: ("inline", "process"),
)
DRIVER_IMAGE = Option("driver-image", "IMAGE", "Use this image of the fake driver; do not build one.", text)
DRIVER_BASE = Option("driver-base", "IMAGE", "Base image, with Python, for the image of the fake driver.", text)
HEALTH_API = Option(
    "health-api",
    "NAME",
    "Health API that drivers serve: v1.DRAResourceHealth, v1alpha1.DRAResourceHealth, "
    "v1alpha1.NodeHealth/WatchResources or v1alpha1.NodeHealth/WatchDevicesStatus. `NodeHealth` is short for "
    "v1alpha1.NodeHealth/WatchResources. With `all`, each scenario runs over each API that the kubelet supports.",
    _health_api,
    choices=_health_api_names,
)


def place_of(driver: str) -> str:
    """What a target's title says of the fake driver, for a value of `--driver`."""
    return ", the fake driver in a process of its own" if driver == "process" else ""
