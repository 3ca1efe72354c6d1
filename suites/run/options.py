"""The options of a run: a target with its options, and the health API of the drivers."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from drahealth.manager.profile import Profile
from drahealth.proto.health_apis import HealthApi
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Configuration, Launch, SharedEnvironment, TargetDefinition
from drahealth.suites.targets.shared_options import HEALTH_API
from drahealth.suites.targets.target import Target


@dataclass(frozen=True, slots=True)
class Options:
    """Checked: wrong ones raise ConfigurationError before anything is started."""

    definition: TargetDefinition
    configuration: Configuration
    health_api: HealthApi | None = None
    """The only health API of the drivers; None: all that a fake driver serves."""
    every_health_api: bool = False
    """Each scenario is played over one health API after the other."""

    @classmethod
    def make(cls, given: Mapping[str, str | None]) -> "Options":
        """From texts by the names of the options; None or "" is the default. Other names are left alone."""
        definition = registry.definition(given.get("target") or registry.default())
        values = registry.values(definition, "run", given)
        configuration = definition.configure(values)
        chosen = values.get(HEALTH_API)
        if chosen == "all":
            return cls(definition, configuration, every_health_api=True)
        return cls(definition, configuration, _supported(chosen, configuration))

    @classmethod
    def of(cls, config: pytest.Config) -> "Options":
        """From pytest's command line. An error has the names of the pytest options."""
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
    def missing(self) -> Mapping[Capability, str]:
        """The capabilities that the target lacks as it is configured, each with the reason."""
        return {**self.definition.missing, **self.configuration.missing}

    def health_apis(self, *, basic: bool) -> tuple[HealthApi | None, ...]:
        """The health APIs over which a scenario is played, one after the other; None: the default of fake drivers.

        The kubelet prefers the first API that it supports, so the default is this one.
        """
        called = self.profile.called_apis
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
        pairs = {"target": self.target, **self.configuration.flags, **over}.items()
        return shlex.join(word for name, value in pairs for word in (f"{prefix}{name}", value))

    def make_target(self, launch: Launch) -> Target:
        """The target, not started. Raises HarnessError if this machine cannot run it."""
        return self.configuration.make(launch)

    def share(self, launch: Launch) -> SharedEnvironment | None:
        """What the workers of a distributed run share; None if each has a target of its own."""
        return self.configuration.share(launch)


def _supported(chosen: HealthApi | None, configuration: Configuration) -> HealthApi | None:
    """Raises ConfigurationError for a health API that the kubelet of the target does not know."""
    spoken = configuration.profile.called_apis
    if chosen is not None and chosen not in spoken:
        raise ConfigurationError(
            f"{configuration.title} does not support the health API {chosen.name}",
            f"choose one of {', '.join(api.name for api in spoken)}",
        )
    return chosen
