"""The options of a run, and when, where and how it takes place."""

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from drahealth.fakes.hints import near
from drahealth.manager.profile import Profile
from drahealth.manager.releases import FIXABLE, NEXT_NAME
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.version import __version__
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import every_known_issue
from drahealth.suites.report.document import Command, Conditions
from drahealth.suites.report.run_report import Run
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import API_SERVER, FIXED, HEALTH_API, KUBELET, KUBERNETES, PROFILE
from drahealth.suites.targets.registry import Configuration, Launch, SharedEnvironment, TargetDefinition
from drahealth.suites.targets.target import Target

# The options of a run: a target with its options, and the health API of the drivers.


@dataclass(frozen=True, slots=True)
class Options:
    """Checked: wrong ones raise ConfigurationError before anything is started."""

    definition: TargetDefinition
    configuration: Configuration
    health_api: HealthApi | None = None
    """The only health API of the drivers; None: all that a fake driver serves."""
    every_health_api: bool = False
    """Each scenario is played over one health API after the other."""
    fixed: tuple[str, ...] = ()
    """The ids of known issues that the user's own kubelet has fixed."""

    @classmethod
    def make(cls, given: Mapping[str, str | None]) -> "Options":
        """From texts by the names of the options; None or "" is the default. Other names are left alone."""
        definition = registry.definition(given.get("target") or registry.default())
        if given.get(KUBERNETES.name) == NEXT_NAME:
            given = {**given, **_next(definition, given)}
        values = registry.values(definition, "run", given)
        configuration = definition.configure(values)
        chosen, fixed = values.get(HEALTH_API), values.get(FIXED) or ()
        ids = sorted({issue.id for issue in every_known_issue()} | set(FIXABLE))
        if unknown := [name for name in fixed if name not in ids]:
            raise ConfigurationError(f"--fixed: {unknown[0]!r} is no known issue", near(unknown[0], ids, _LISTED))
        if chosen == "all":
            return cls(definition, configuration, every_health_api=True, fixed=fixed)
        for name, judged in configuration.judged_nodes.items():
            _supported(chosen, judged.profile, f"the kubelet of {name}")
        return cls(
            definition, configuration, _supported(chosen, configuration.profile, configuration.title), fixed=fixed
        )

    @classmethod
    def of(cls, config: pytest.Config) -> "Options":
        """The options of this pytest run: those that `drahealth run` hands over (`HandedOver`), or of the command line.

        They are made once. An error has the names of the pytest options.
        """
        made = config.stash.get(_MADE, None)
        if made is None:
            made = config.stash[_MADE] = cls._of_command_line(config)
        return made

    @classmethod
    def _of_command_line(cls, config: pytest.Config) -> "Options":
        names = ("target", *(offered.option.name for offered in registry.options("run")))
        given = {name: config.getoption(f"--drahealth-{name}") for name in names}
        if config.getoption("--drahealth-node"):
            given["keep"] = None  # it concerns that node
        try:
            return cls.make(given)
        except ConfigurationError as error:
            known = re.compile(rf"--(?=(?:{'|'.join(names)})\b)")
            message, hint = (known.sub("--drahealth-", text) for text in (error.message, error.hint))
            raise ConfigurationError(message, hint) from None

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.definition.name

    @property
    def profile(self) -> Profile:
        """What the kubelet of the target is known to do."""
        return self.configuration.profile

    @property
    def api_server(self) -> str:
        """The name of the profile of the API server's release, if it has another one than the kubelet."""
        found = self.configuration.server_profile
        return found.name if found and found.release != self.profile.release else ""

    @property
    def missing(self) -> Mapping[Capability, str]:
        """The capabilities that the target lacks as it is configured, each with the reason."""
        return self.missing_on("")

    def missing_on(self, node: str) -> Mapping[Capability, str]:
        """The same for a node that is judged by itself; "" for any."""
        judged = self.configuration.judged_nodes
        return {**self.definition.missing, **(judged[node].missing if node else self.configuration.missing)}

    def health_apis(self, profile: Profile, *, basic: bool) -> tuple[HealthApi | None, ...]:
        """The health APIs over which a scenario is played on a kubelet of this profile, one after the other.

        None is the default of fake drivers. The kubelet prefers the first API that it supports, so the default is this
        one.
        """
        called = profile.called_apis
        if self.every_health_api:
            return called
        repeated = basic and self.health_api is None and self.definition.plays_every_health_api
        return (None, *called[1:]) if repeated else (self.health_api,)

    @property
    def about(self) -> str:
        """A short description of the target."""
        over = f", health over {self.health_api.name}" if self.health_api else ""
        over = ", each health API in turn" if self.every_health_api else over
        return f"{self.configuration.title}{over}"

    @property
    def flags(self) -> str:
        """The arguments of `drahealth run` for the same target."""
        return self.flags_as("--")

    def flags_as(self, prefix: str) -> str:
        """The same with another prefix before the names, such as that of the pytest options."""
        over = {HEALTH_API.name: self.health_api.name} if self.health_api else {}
        over = {HEALTH_API.name: "all"} if self.every_health_api else over
        fixed = {FIXED.name: ",".join(self.fixed)} if self.fixed else {}
        pairs = {"target": self.target, **self.configuration.flags, **fixed, **over}.items()
        return shlex.join(word for name, value in pairs for word in (f"{prefix}{name}", value))

    def make_target(self, launch: Launch) -> Target:
        """The target, not started. Raises HarnessError if this machine cannot run it."""
        return self.configuration.make(launch)

    def share(self, launch: Launch) -> SharedEnvironment | None:
        """What the workers of a distributed run share; None if each has a target of its own."""
        return self.configuration.share(launch)


_MADE: pytest.StashKey[Options] = pytest.StashKey()
_LISTED = "docs/reference/known-issues.md"
_BUILD = "build a kubelet with them, or pass --target reference --profile next"


@dataclass(frozen=True)
class HandedOver:
    """A pytest plugin: the options of a run that a command of ours has made. Worker processes make their own."""

    options: Options

    def pytest_configure(self, config: pytest.Config) -> None:
        """Before anything of the run asks for them."""
        config.stash[_MADE] = self.options


def _next(definition: TargetDefinition, given: Mapping[str, str | None]) -> dict[str, str | None]:
    """The options that stand for `--kubernetes next`: no release has the open fixes, but your own kubelet can."""
    if definition.name == registry.default() and not given.get(API_SERVER.name):
        return {KUBERNETES.name: None, PROFILE.name: NEXT_NAME}
    if not given.get(KUBELET.name):
        raise ConfigurationError("--kubernetes next needs --kubelet FILE: no release has the open fixes", _BUILD)
    fixed = ",".join(filter(None, (given.get(FIXED.name), NEXT_NAME)))
    return {KUBERNETES.name: None, FIXED.name: fixed}


def _supported(chosen: HealthApi | None, profile: Profile, about: str) -> HealthApi | None:
    """Raises ConfigurationError for a health API that a kubelet of this profile does not know."""
    spoken = profile.called_apis
    if chosen is not None and chosen not in spoken:
        raise ConfigurationError(
            f"{about} does not support the health API {chosen.name}",
            f"choose one of {', '.join(api.name for api in spoken)}",
        )
    return chosen


# When, where and how a run takes place: versions, this machine, options, the git commit of the current directory.

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
    """A run of pytest that starts now."""
    given = {name: config.getoption(option, None) for name, option in _OPTIONS.items()}
    texts = {name: str(value) for name, value in given.items() if value}
    return new_run(options, config.getoption("drahealth_command") or "pytest", texts)


def new_run(options: Options, command: Command, texts: Mapping[str, str]) -> Run:
    """A run that starts now. `texts` are the options that do not belong to the target."""
    only = options.health_api.name if options.health_api else None
    over = "all" if options.every_health_api else only
    flags = options.configuration.flags
    fixed = {FIXED.name: ",".join(options.fixed)} if options.fixed else {}
    conditions = Conditions(
        command=command,
        started=now(),
        profile=options.profile.name,
        kubernetes=flags.get("kubernetes"),
        kubelets=options.configuration.kubelets,
        seed=int(texts["seed"]) if "seed" in texts else None,
        versions={"drahealth": __version__, "python": platform.python_version(), "pytest": pytest.__version__},
        host={
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "cpus": str(os.cpu_count() or 0),
        },
        options={"target": options.target, **flags, **({"health-api": over} if over else {}), **fixed, **texts},
        revision=git_revision(),
    )
    nodes = {name: (one.kubelet, one.profile.name) for name, one in options.configuration.judged_nodes.items()}
    return Run(options.target, options.about, over, conditions=conditions, nodes=nodes)


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
