"""The options of `drahealth driver serve -f FILE`, checked before anything is started."""

import ipaddress
import math
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.cluster.object_rules import is_name
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions, check_instance
from drahealth.fakes.control.socket_path import default_path
from drahealth.fakes.faults import catalogue as faults
from drahealth.fakes.hardware.devices import fakes_of
from drahealth.fakes.inventory.file import check_driver_name
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.serve.playing import load_stories
from drahealth.fakes.serve.pods import PREFIX
from drahealth.fakes.timelines.play import Story
from drahealth.proto.sockets import check_path

KUBELET = Path("/var/lib/kubelet")
CDI = Path("/var/run/cdi")
"""Where container runtimes look for CDI specifications (CDI, SPEC.md)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Absolute paths; `kubeconfig` None: the API server of the pod in which this process runs, if drivers need one."""

    drivers: tuple[DriverOptions, ...]
    plugins: tuple[PluginOptions, ...]
    """There is a driver or a device plugin."""
    node: str
    socket: Path
    kubeconfig: Path | None
    stories: tuple[Story, ...]
    """Timelines that are played on the driver, and on the device plugin where they have one."""
    speed: float
    annotations: str | None
    """The prefix of the pods' annotations that are followed; None: none are."""
    metrics: tuple[str, int] | None
    """Address and port."""
    metrics_token: Path | None
    """The file with the bearer token of the metrics; None: they need none."""
    json: bool

    @classmethod
    def make(
        cls,
        file: Path,
        *,
        socket: Path | None,
        kubeconfig: Path | None,
        kubelet_dir: Path,
        registry_dir: Path | None,
        plugins_dir: Path | None,
        device_plugins_dir: Path | None,
        cdi_dir: Path | None,
        node_name: str | None,
        driver_name: str,
        instance: str,
        catalogue: str,
        policy: str,
        seed: int | None,
        play: Path | None,
        speed: float,
        pod_annotations: bool,
        annotation_prefix: str,
        metrics_port: int | None,
        metrics_address: str,
        json: bool,
    ) -> "Settings":
        """The settings from the command's flags. Raises CommandError."""
        for option, check, value in (
            ("--driver-name", check_driver_name, driver_name),
            ("--instance", check_instance, instance),
            ("--catalogue", faults.catalogue, catalogue),
            ("--policy", faults.policy, policy),
        ):
            _check(option, check, value)
        kubelet = kubelet_dir.absolute()
        cdi = cdi_dir or (CDI if kubelet == KUBELET else None)
        try:
            node = _node(node_name)
            found = fakes_of(
                file,
                node=node,
                registry_dir=(registry_dir or kubelet / "plugins_registry").absolute(),
                plugins_dir=(plugins_dir or kubelet / "plugins").absolute(),
                device_plugins_dir=(device_plugins_dir or kubelet / "device-plugins").absolute(),
                driver=driver_name,
                instance=instance,
                cdi_dir=str(cdi.absolute()) if cdi else "",
                catalogue=catalogue,
                policy=policy,
                seed=seed or 0,
            )
            path = (socket or default_path()).absolute()
            check_path(path)
        except FileError as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise CommandError(str(error)) from None
        if not (registry_dir and plugins_dir and device_plugins_dir) and not kubelet.is_dir():
            hint = "start the kubelet first, or pass the root directory of the kubelet"
            raise CommandError(f"--kubelet-dir {kubelet} is not a directory; {hint}")
        if not all(map(is_name, annotation_prefix.split("."))):
            raise CommandError(f"--annotation-prefix must be a DNS name such as {PREFIX}, got {annotation_prefix!r}")
        if metrics_port is not None and not 0 <= metrics_port < 1 << 16:
            raise CommandError(f"--metrics-port must be between 0 and 65535, got {metrics_port}; 0 selects a free port")
        if not 0 < speed < math.inf:
            raise CommandError(f"--speed must be above 0, got {speed:g}")
        if pod_annotations and not found.drivers:
            raise CommandError(f"--pod-annotations needs a driver, but {file} has only device plugins")
        stories = tuple(load_stories(play, found.drivers, found.plugins, seed)) if play else ()
        annotations = annotation_prefix if pod_annotations else None
        metrics = None if metrics_port is None else (metrics_address, metrics_port)
        token = None if _is_public(metrics_address) else path.with_name(f"{path.name}.metrics-token")
        return cls(
            found.drivers, found.plugins, node, path, kubeconfig, stories, speed, annotations, metrics, token, json
        )


def _check(option: str, check: Callable[[str], object], value: str) -> None:
    try:
        check(value)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None


def _is_public(address: str) -> bool:
    """Whether it is an address for other machines. A loopback address is for this machine, but for all its users."""
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _node(given: str | None) -> str:
    name = given or os.environ.get("NODE_NAME") or socket.gethostname().lower()
    if not is_name(name):
        raise ValueError(f"invalid node name {name!r}; pass --node-name, such as node-a")
    return name
