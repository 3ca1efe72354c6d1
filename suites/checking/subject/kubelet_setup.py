"""What an experiment needs to run a kubelet for a driver process. A value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.manager.profile import Profile
from drahealth.suites.checking.sandbox.running import RunningSandbox
from drahealth.suites.targets.api_servers.server import ApiServerProcess


@dataclass(frozen=True, slots=True)
class KubeletSetup:
    """The API server of a driver process, and what another API server needs to take its place."""

    server: ApiServerProcess | None
    """The running API server; None if the kubelet brings its own."""
    profile: Profile
    """What a reference with this API server behaves as."""
    objects: Sequence[Mapping[str, Any]]
    """The user's objects, for another API server."""
    hide: Callable[[str], None]
    """Keeps a secret out of the evidence."""
    sandbox: RunningSandbox | None = None
    """The sandbox of the driver process."""
