"""What a run on kind is told beside the release."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.errors import ConfigurationError

KEEP = ("never", "failed", "always")
FLAGS = ("nodes", "image", "kind-config", "name", "keep", "reuse", "driver-image", "driver-base")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")
_MADE_ANEW = ("nodes", "image", "kind-config", "name", "keep")


@dataclass(frozen=True, slots=True)
class KindOptions:
    """Checked; None is the default, which is ours to choose."""

    exact: bool = False
    """The release was named, and has to be that to the patch; else any of its minor will do."""
    nodes: int | None = None
    node_image: str | None = None
    config: Path | None = None
    """A kind configuration that ours is merged into."""
    name: str | None = None
    keep: str = "never"
    """When the cluster stays afterwards: never, failed (if a scenario failed), always."""
    reuse: str | None = None
    """The name of a cluster that is there, and stays."""
    driver_image: str | None = None
    """An image with the fake driver in it, taken as it is."""
    driver_base: str | None = None
    """What the fake driver's image is built on."""

    @classmethod
    def make(cls, given: Mapping[str, str | None]) -> "KindOptions":
        """From texts. Raises ConfigurationError."""
        texts = {name: given.get(name) or None for name in FLAGS}
        if texts["reuse"]:
            for name in _MADE_ANEW:
                if texts[name]:
                    raise ConfigurationError(
                        f"--{name} is for a cluster that is made, and --reuse names one that is there", "leave one out"
                    )
        if texts["driver-image"] and texts["driver-base"]:
            raise ConfigurationError(
                "--driver-base is for an image that is built, and with --driver-image none is", "leave one out"
            )
        for name in ("name", "reuse"):
            if texts[name] and not _NAME.fullmatch(texts[name] or ""):
                raise ConfigurationError(
                    f"{texts[name]!r} is no name for a kind cluster", "use small letters, digits, dots and hyphens"
                )
        if texts["keep"] not in (None, *KEEP):
            raise ConfigurationError(f"--keep cannot be {texts['keep']!r}", f"choose one of {', '.join(KEEP)}")
        return cls(
            exact=bool(given.get("kubernetes")),
            nodes=_nodes(texts["nodes"]),
            node_image=texts["image"],
            config=_file(texts["kind-config"]),
            name=texts["name"],
            keep=texts["keep"] or "never",
            reuse=texts["reuse"],
            driver_image=texts["driver-image"],
            driver_base=texts["driver-base"],
        )

    @property
    def flags(self) -> dict[str, str]:
        """The texts that make the same options again."""
        values = (self.nodes, self.node_image, self.config, self.name, self.keep, self.reuse)
        given = zip(FLAGS, (*values, self.driver_image, self.driver_base), strict=True)
        return {name: str(value) for name, value in given if value not in (None, "never")}


def _nodes(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 20:
        raise ConfigurationError(f"a cluster cannot have {text!r} nodes", "give a number from 1 to 20")
    return int(text)


def _file(name: str | None) -> Path | None:
    if name is None:
        return None
    path = Path(name).absolute()
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}", "name a kind configuration") from None
    return path
