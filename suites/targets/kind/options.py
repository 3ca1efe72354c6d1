"""The options of the kind target."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.option import (
    DRIVER_BASE,
    DRIVER_IMAGE,
    KUBERNETES,
    Option,
    Values,
    choice,
    matching,
    readable_file,
    text,
    whole_number,
)
from drahealth.suites.targets.versions import names_patch

_name = matching(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?", "lower-case letters, digits, dots and hyphens")

NODES = Option("nodes", "N", "Number of nodes of the cluster.", whole_number(1, 20))
IMAGE = Option(
    "image", "NODE_IMAGE", "Node image; default: the image of kind for the release.", text, ("run", "doctor")
)
KIND_CONFIG = Option("kind-config", "FILE", "Your kind configuration; drahealth adds its own settings.", readable_file)
NAME = Option("name", "NAME", "Name of the cluster.", _name)
KEEP = Option(
    "keep",
    "WHEN",
    "Keep the cluster after the run: never (default), failed or always.",
    choice("never", "failed", "always"),
)
REUSE = Option("reuse", "NAME", "Use an existing cluster; never delete it.", _name)

OPTIONS: tuple[Option[Any], ...] = (NODES, IMAGE, KIND_CONFIG, NAME, KEEP, REUSE, DRIVER_IMAGE, DRIVER_BASE)
_OF_NEW_CLUSTERS = (NODES, IMAGE, KIND_CONFIG, NAME, KEEP)


@dataclass(frozen=True, slots=True)
class KindOptions:
    """Checked; None is the default, which drahealth chooses."""

    exact: bool = False
    """The user named the patch release, and the cluster must have its patch version; else any patch version will do."""
    nodes: int | None = None
    node_image: str | None = None
    config: Path | None = None
    """A kind configuration that ours is merged into."""
    name: str | None = None
    keep: str = "never"
    """When the cluster is kept afterwards: never, failed (if a scenario failed), always."""
    reuse: str | None = None
    """The name of an existing cluster, which is never deleted."""
    driver_image: str | None = None
    """An image that contains the fake driver; it is used unchanged."""
    driver_base: str | None = None
    """The base of the image of the fake driver."""

    @classmethod
    def of(cls, values: Values) -> "KindOptions":
        """From the options of a run. Raises ConfigurationError for two that exclude each other."""
        if values.get(REUSE):
            for option in _OF_NEW_CLUSTERS:
                _refuse_both(values, option, REUSE, "--reuse names an existing cluster")
        _refuse_both(values, DRIVER_BASE, DRIVER_IMAGE, "no image is built with --driver-image")
        return cls(
            exact=names_patch(values.text_of(KUBERNETES) or "") and values.get(KUBERNETES) is not None,
            nodes=values.get(NODES),
            node_image=values.get(IMAGE),
            config=values.get(KIND_CONFIG),
            name=values.get(NAME),
            keep=values.get(KEEP) or "never",
            reuse=values.get(REUSE),
            driver_image=values.get(DRIVER_IMAGE),
            driver_base=values.get(DRIVER_BASE),
        )

    @property
    def flags(self) -> dict[str, str]:
        """The options by name that lead to equal ones."""
        values = (self.nodes, self.node_image, self.config, self.name, self.keep, self.reuse)
        given = zip(OPTIONS, (*values, self.driver_image, self.driver_base), strict=True)
        return {option.name: str(value) for option, value in given if value not in (None, "never")}


def _refuse_both(values: Values, one: Option[Any], other: Option[Any], why: str) -> None:
    if values.get(one) is not None and values.get(other) is not None:
        raise ConfigurationError(f"--{one.name} and --{other.name} exclude each other: {why}", "remove one of them")
