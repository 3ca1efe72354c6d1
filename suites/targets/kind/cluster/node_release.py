"""The Kubernetes release of a cluster and of a node image."""

from collections.abc import Mapping

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.engine import Engine
from drahealth.suites.targets.versions import parse_version

NEWEST: Mapping[str, str] = {"1.37": "1.37.0", "1.36": "1.36.1", "1.35": "1.35.0", "1.34": "1.34.0"}
"""The newest known patch release of each minor release for which kind has published a node image (v0.30 to v0.33)."""
DEFAULT = NEWEST["1.37"]


def with_image(version: str) -> str:
    """The release of a node image, as `parse_version`: not all patch releases have an image."""
    return parse_version(version, NEWEST)


def plain(version: str) -> str:
    """A version without `v` and build metadata: `v1.37.1+x` is 1.37.1."""
    return version.removeprefix("v").partition("+")[0]


def differs(wanted: str, found: str, *, exact: bool) -> bool:
    """Whether these are different releases; unless `exact`, patch versions are ignored."""
    ours, theirs = plain(wanted), plain(found)
    return ours != theirs if exact else ours.split(".")[:2] != theirs.split(".")[:2]


async def release_of(engine: Engine, image: str) -> str | None:
    """The release that a node image names; None if the engine does not have the image, or it names none."""
    if await engine.image_id(image) is None:
        return None
    try:
        output = await engine.run("run", "--rm", "--network=none", "--entrypoint=cat", image, "/kind/version")
    except HarnessError:
        return None
    return output.strip() or None
