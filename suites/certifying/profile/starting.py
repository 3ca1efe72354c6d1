"""The starting driver profiles: for known drivers, written from their source code and not tested with them."""

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable

NAMES = ("dra-example-driver", "nvidia", "intel", "tpu", "cpu")
"""The drivers with a starting driver profile."""


def starting_profile(name: str) -> dict[str, str]:
    """The files of a starting driver profile: their names and contents, the driver profile first."""
    folder = _folder()
    text = folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    named = [*data.get("api-server", {}).get("objects", ()), *data.get("claim", {}).get("manifests", ())]
    return {f"{name}.toml": text} | {other: folder.joinpath(other).read_text(encoding="utf-8") for other in named}


def _folder() -> Traversable:
    return resources.files("drahealth.suites.certifying.profile").joinpath("shipped")
