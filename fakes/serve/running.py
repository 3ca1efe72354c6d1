"""Runs the program as a command: where its log and its lines go."""

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from drahealth.fakes.control.news import News
from drahealth.fakes.hardware.inventories import DRIVER
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.program.log_lines import log_to
from drahealth.fakes.serve.pod_annotations import PREFIX
from drahealth.fakes.serve.program import Program, Shown, serve
from drahealth.fakes.serve.settings import KUBELET, Settings
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import DriverEvent, to_json

_USUAL: Mapping[str, Any] = {
    "kubelet_dir": KUBELET,
    "registry_dir": None,
    "plugins_dir": None,
    "device_plugins_dir": None,
    "cdi_dir": None,
    "node_name": None,
    "driver_name": DRIVER,
    "instance": "",
    "catalogue": "nvidia",
    "policy": "nvidia-catalogue",
    "seed": None,
    "play": None,
    "speed": 1.0,
    "pod_annotations": False,
    "annotation_prefix": PREFIX,
    "metrics_port": None,
    "metrics_address": "127.0.0.1",
    "json": False,
}


def run_standing(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> None:
    """Until SIGTERM or SIGINT. Raises CommandError."""
    settings = settings_of(file, socket=socket, kubeconfig=kubeconfig, given=given)
    asyncio.run(serve(settings, News(), _shown(settings)))


def _shown(settings: Settings) -> Shown:
    """The live view on a terminal, JSON lines anywhere else."""
    if sys.stdout.isatty() and not settings.json:
        return _on_terminal
    log_to(logging.StreamHandler(sys.stderr))
    return _as_lines


@contextmanager
def _on_terminal(program: Program) -> Iterator[None]:
    from drahealth.fakes.serve.live_view import LiveView

    view = LiveView()
    program.news.add(view)
    with view.shown(program.drivers, program.plugins):
        yield


@contextmanager
def _as_lines(program: Program) -> Iterator[None]:
    lines = LineWriter(sys.stdout, SystemClock())

    def write(event: DriverEvent) -> None:
        lines.write(to_json(event))

    program.news.add(write)
    with closing(lines):
        yield


def settings_of(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> Settings:
    """The program's, of what is `given` of its options, by their names. Raises CommandError."""
    return Settings.make(file, socket=socket, kubeconfig=kubeconfig, **{**_USUAL, **given})
