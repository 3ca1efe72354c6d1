"""The Kubernetes release of a cluster and of a node image."""

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.engine import Engine

DEFAULT = "1.37.0"
"""The newest release that kind has published a node image of (v0.33.0); not all patch releases get one."""


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
