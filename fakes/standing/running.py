"""Runs the program as a command: where its log and its lines go."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from drahealth.fakes.hardware.news import Line, News
from drahealth.fakes.json_lines import LineWriter
from drahealth.fakes.log_lines import log_to
from drahealth.fakes.standing.inventories import DRIVER
from drahealth.fakes.standing.program import serve
from drahealth.fakes.standing.settings import KUBELET, Settings
from drahealth.proto.clock import SystemClock

_USUAL: Mapping[str, Any] = {
    "kubelet_dir": KUBELET,
    "registry_dir": None,
    "plugins_dir": None,
    "cdi_dir": None,
    "node_name": None,
    "driver_name": DRIVER,
    "instance": "",
    "catalogue": "nvidia",
    "policy": "nvidia-catalogue",
    "seed": 0,
    "json": False,
}


def run_standing(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> None:
    """Until SIGTERM or SIGINT. Raises Complaint."""
    settings = settings_of(file, socket=socket, kubeconfig=kubeconfig, given=given)
    log_to(logging.StreamHandler(sys.stderr))
    news = News()
    lines = LineWriter(sys.stdout, SystemClock())

    def write(driver: str, line: Line) -> None:
        lines.write({"event": line["event"], "driver": driver, **line})

    news.add(write)
    with closing(lines):
        asyncio.run(serve(settings, news))


def settings_of(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> Settings:
    """The program's, of what is `given` of its options, by their names. Raises Complaint."""
    return Settings.make(file, socket=socket, kubeconfig=kubeconfig, **{**_USUAL, **given})
