"""What a public node needs of its target. All targets on this machine have it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.target import Window


class NodeTarget(Protocol):
    """A part of `target.LocalTarget`, which says what each member means."""

    @property
    def profile(self) -> Profile: ...

    @property
    def node_name(self) -> str: ...

    @property
    def api(self) -> ListWatch: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def windows(self) -> Mapping[Window, float]: ...

    @property
    def registry_dir(self) -> Path: ...

    @property
    def plugins_dir(self) -> Path: ...

    @property
    def device_plugins_dir(self) -> Path: ...

    @property
    def workload_image(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def kubeconfig(self) -> Path: ...

    async def advance_time(self, seconds: float) -> float: ...

    async def restart_kubelet(self) -> None: ...

    async def end_container(self, pod_uid: str, container: str, code: int) -> None: ...

    def check(self) -> None: ...


class LocalConfiguration(Protocol):
    """The configuration of a target on this machine (`definition.Configuration`)."""

    def make(self, launch: Launch) -> NodeTarget: ...
