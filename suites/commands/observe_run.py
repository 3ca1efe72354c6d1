"""One run of `drahealth observe`: what the user asked for, the observation, and the results."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from drahealth.fakes.cluster.api import timestamp
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.object_rules import subdomain_errors
from drahealth.fakes.durations import FIXED_HINT, Duration
from drahealth.fakes.program.console import standard_output
from drahealth.proto.quoting import quoted
from drahealth.suites.commands.ending import run_terminable
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.observing.observation_report import observation_report, show_observation
from drahealth.suites.observing.observer import Asked, Observation, observe
from drahealth.suites.observing.rules import REFRESHED
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.report.document import ObservationReport, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import node_columns

_KUBECTL = "~/.kube/config"
_LONGEST = 7 * 24 * 3600.0
"""Seconds: an observer keeps all facts in memory."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files for the results."""

    report: str | None
    junitxml: str | None
    html: str | None

    def check(self) -> None:
        """Raises ConfigurationError for a file that cannot be written."""
        for name in (self.report, self.junitxml, self.html):
            check_output_file(name)

    def write(self, report: ObservationReport) -> None:
        """Writes the files."""
        if self.report:
            Path(self.report).write_text(to_json(report), encoding="utf-8")
        if self.junitxml:
            Path(self.junitxml).write_text(to_junit(report), encoding="utf-8")
        if self.html:
            Path(self.html).write_text(page_of(node_columns(report)), encoding="utf-8")


def asked_for(driver: str, duration: str, namespace: str, device_class: str, image: str, node_selector: str) -> Asked:
    """What the options say. Raises ConfigurationError."""
    if any(subdomain_errors(driver)):
        raise ConfigurationError(
            f"--driver must be the name of a driver, got {quoted(driver)}", "such as gpu.example.com"
        )
    try:
        found = Duration.parse(duration)
    except ValueError:
        raise ConfigurationError(f"--for: invalid duration {quoted(duration)}", FIXED_HINT) from None
    if found.kind != "fixed":
        raise ConfigurationError(f"--for must be one duration, got {quoted(duration)}", FIXED_HINT)
    if not 1.0 <= found.low <= _LONGEST:
        raise ConfigurationError(f"--for must be between 1s and 7d, got {quoted(duration)}", FIXED_HINT)
    return Asked(driver, found.low, namespace, device_class, image, node_selector)


def run(asked: Asked, kubeconfig: Path | None, context: str | None, outputs: Outputs) -> int:
    """Observes, prints and writes the results; returns the exit code."""
    outputs.check()
    started, console = timestamp(time.time()), Console(stderr=True, highlight=False)
    if asked.seconds < REFRESHED:
        console.print(f"note: OBSERVE-03 is not tested in less than {REFRESHED:g} s", soft_wrap=True)
    seen = run_terminable(_observe(asked, kubeconfig, context, console))
    report = observation_report(asked.driver, seen, started)
    show_observation(report, standard_output())
    outputs.write(report)
    return report.exit_code


def _kubeconfig() -> Path:
    """The file that kubectl reads."""
    return Path(os.environ.get("KUBECONFIG") or _KUBECTL).expanduser()


async def _observe(asked: Asked, path: Path | None, context: str | None, console: Console) -> Observation:
    try:
        if path is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            api = KubeClient.in_cluster()
        else:
            api = await KubeClient.from_kubeconfig(path or _kubeconfig(), context)
    except ValueError as error:
        raise ConfigurationError(str(error), "pass a kubeconfig with --kubeconfig") from None
    try:
        return await observe(api, asked, lambda what: console.print(what, style="dim", markup=False, soft_wrap=True))
    finally:
        await api.close()
