"""Runs the experiments on a driver, and collects the evidence."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.manager.calls import first_error
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events.checks import Outcome
from drahealth.proto.quoting import one_line
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.claims_experiments import claims, driver_restart, slow_prepare
from drahealth.suites.driver_checks.device_plugins.devices_experiments import (
    allocation,
    container_start,
    list_and_watch,
    preferred_allocation,
)
from drahealth.suites.driver_checks.device_plugins.fault_plan_experiments import plugin_fault_plan
from drahealth.suites.driver_checks.device_plugins.pods_experiments import (
    plugin_kubelet_pod,
    plugin_pod_faults,
    plugin_pod_status,
)
from drahealth.suites.driver_checks.device_plugins.registration_experiments import (
    plugin_kubelet_restart,
    plugin_registration,
    refused_plugin,
    removed_socket,
)
from drahealth.suites.driver_checks.driver_run import DriverRun, plan
from drahealth.suites.driver_checks.evidence import (
    Evidence,
    EvidenceWriter,
    Header,
    Listener,
    Recorder,
    Redaction,
    options_in,
    secrets_in,
)
from drahealth.suites.driver_checks.experiments import Experiment, Incomplete, NotApplicable, Process, Unavailable
from drahealth.suites.driver_checks.fault_plan_experiments import fault_plan
from drahealth.suites.driver_checks.faults_experiments import (
    backend_restart,
    fault_during_kubelet_restart,
    fault_during_prepare,
    fault_over_restart,
    fault_while_stopped,
    fault_without_api_server,
    fault_without_stream,
    faults,
    idle,
    kubelet_restart,
    second_fault,
    stop_and_continue,
)
from drahealth.suites.driver_checks.faults_steps import FENCE_LIMIT
from drahealth.suites.driver_checks.health_experiments import slow_subscriber, subscribers, watch
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.output_text import exit_text, output_text
from drahealth.suites.driver_checks.pods_experiments import (
    kubelet_pod_faults,
    kubelet_pod_status,
    pod_faults,
    pod_status,
)
from drahealth.suites.driver_checks.profile.faults import BACKEND_LIMIT
from drahealth.suites.driver_checks.registration_experiments import (
    end,
    refused_registration,
    registration,
    reregistration,
    services,
)
from drahealth.suites.driver_checks.rolling_update_experiments import rolling_update
from drahealth.suites.driver_checks.slices_experiments import api_server_down, slice_deletion, slices
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.subject import AdaptersOf, Subject
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.run_directory import RunDirectory

_DRIVER_EXPERIMENTS: tuple[Callable[[Lab], Coroutine[Any, Any, None]], ...] = (
    *(registration, services, slices, watch, subscribers, slow_subscriber, claims, slow_prepare, reregistration),
    *(refused_registration, driver_restart, slice_deletion, api_server_down, rolling_update, end),
    *(pod_status, kubelet_pod_status, pod_faults, kubelet_pod_faults),
)
_FAULT_EXPERIMENTS: tuple[Callable[[Lab], Coroutine[Any, Any, None]], ...] = (
    *(
        faults,
        fault_plan,
        fault_during_prepare,
        fault_without_stream,
        fault_without_api_server,
        fault_during_kubelet_restart,
    ),
    *(backend_restart, stop_and_continue, fault_while_stopped, fault_over_restart, second_fault, idle, kubelet_restart),
)
_PLUGIN_EXPERIMENTS: tuple[Callable[[Lab], Coroutine[Any, Any, None]], ...] = (
    *(plugin_registration, list_and_watch, allocation, preferred_allocation, container_start, plugin_kubelet_restart),
    *(refused_plugin, removed_socket, plugin_fault_plan, plugin_pod_status, plugin_pod_faults, plugin_kubelet_pod),
)
RUNS = {
    one.__name__.replace("_", "-"): one for one in (*_DRIVER_EXPERIMENTS, *_FAULT_EXPERIMENTS, *_PLUGIN_EXPERIMENTS)
} | {"plugin-end": end}
"""The function of each experiment. It raises NotApplicable, Incomplete and Unavailable."""
GRACE = 5.0
"""Seconds that an experiment has to end by itself after an unexpected end of its driver."""
NOT_IN_THE_CLUSTER = "; drahealth runs no Pod in the cluster of the kubeconfig, so the driver had another API server"
"""What is added to the reason why an experiment with Pods has no result."""
REASON_LIMIT = 1000
"""Characters of a reason; the cause of a long error is at its end."""

log = logging.getLogger(__name__)


async def run_experiments(
    driver_run: DriverRun,
    listener: Listener = lambda *_: None,
    clock: Clock | None = None,
    *,
    adapters: AdaptersOf | None = None,
) -> Evidence:
    """Runs all experiments that can run. Returns the evidence, which is not complete if it was cancelled.

    Faults need `adapters`, which cause them.

    Raises ConfigurationError if the driver cannot be started at all, HarnessError for failures of this machine.
    """
    clock = clock or SystemClock()
    folder = RunDirectory.create()
    try:
        folder.remove_if_killed()
        writer = _writer(driver_run, folder.path, clock)
        try:
            run = _Run(driver_run, Recorder(writer, clock, listener), clock, adapters)
            await run.all(folder.path)
            writer.finish()
        except asyncio.CancelledError:
            log.warning("interrupted: the evidence is not complete")
        finally:
            writer.close()
        return writer.evidence
    finally:
        folder.remove()


def _writer(run: DriverRun, root: Path, clock: Clock) -> EvidenceWriter:
    started = datetime.fromtimestamp(clock.wall(), UTC).isoformat()
    names = tuple(experiment.name for experiment, excluded in plan(run) if not excluded)
    host = socket.gethostname()
    artifact, artifact_sha256 = run.profile.driver.identified()
    header = Header(
        drahealth=__version__,
        started=started,
        command=run.profile.driver.command,
        api_server=run.profile.api_server_kind,
        node=host,
        experiments=names,
        level=run.level,
        subject=run.profile.subject,
        profile=run.name,
        profile_sha256=run.sha256,
        workload=run.in_cluster.name if run.in_cluster else "",
        artifact=artifact,
        artifact_sha256=artifact_sha256,
    )
    named = [*os.environ.items(), *run.profile.driver.environment.items(), *options_in(run.profile.driver.command)]
    redaction = Redaction(secrets_in(named, _exists), _host_paths(root), host) if run.redact else None
    try:
        return EvidenceWriter(header, run.evidence, redaction)
    except FileExistsError:
        raise ConfigurationError(f"{run.evidence} exists", "choose another file for the evidence") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {run.evidence}: {error.strerror}", "choose another file") from None


def _host_paths(root: Path) -> dict[str, str]:
    """The paths of this machine that evidence does not show, with their replacements."""
    found = {str(root): "{run_dir}"}
    with suppress(OSError):  # the folder was removed
        found[str(Path.cwd())] = "{cwd}"
    with suppress(RuntimeError):  # a user without a home
        found[str(Path.home())] = "~"
    return found


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


class _Run:
    """One run: the experiments of each driver process, side by side."""

    def __init__(self, asked: DriverRun, recorder: Recorder, clock: Clock, adapters: AdaptersOf | None) -> None:
        self._asked = asked
        self._adapters = adapters
        self._recorder = recorder
        self._clock = clock
        self._outcomes: dict[str, Outcome] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._late = asyncio.Event()

    async def all(self, root: Path) -> None:
        """Runs the planned experiments, until their end or the deadline."""
        by_process: dict[Process, list[Experiment]] = {}
        for experiment, excluded in plan(self._asked):
            if excluded:
                self._recorder.ended(experiment.name, "not applicable", excluded)
            else:
                by_process.setdefault(experiment.process, []).append(experiment)
                self._ended[experiment.name] = asyncio.Event()
        async with AsyncExitStack() as stack:
            found = await stack.enter_async_context(
                laboratory(self._asked, list(by_process), root, self._clock, self._recorder, self._adapters)
            )
            timer = asyncio.create_task(self._expire())
            try:
                async with asyncio.TaskGroup() as group:
                    for process, experiments in by_process.items():
                        task = group.create_task(self._all_of(found[process], experiments))
                        if self._asked.profile.sequential:
                            await task
            except ExceptionGroup as errors:
                raise first_error(errors.subgroup(HarnessError) or errors) from None
            finally:
                timer.cancel()

    async def _expire(self) -> None:
        await self._clock.sleep(self._asked.deadline)
        self._late.set()

    async def _all_of(self, subject: Subject, experiments: list[Experiment]) -> None:
        facts = Facts()
        async with asyncio.TaskGroup() as helpers:
            running = helpers.create_task(subject.helpers.run())
            async with asyncio.TaskGroup() as group:
                for experiment in experiments:
                    group.create_task(self._one(experiment, subject, facts))
            running.cancel()
        await subject.close()  # its directories stay, and so does a driver that drahealth did not start

    async def _one(self, experiment: Experiment, subject: Subject, facts: Facts) -> None:
        name = experiment.name
        for other in {experiment.requires, *experiment.after} & self._ended.keys():
            await self._ended[other].wait()
        with self._recorder.experiment(name):
            self._recorder.started(name)
            outcome: Outcome = "incomplete"
            reason = "interrupted"
            try:
                if experiment.requires and (before := self._outcomes.get(experiment.requires)) != "done":
                    outcome, reason = (
                        "incomplete",
                        f"it needs experiment {experiment.requires}, whose outcome is {before}",
                    )
                else:
                    outcome, reason = await self._outcome(experiment, subject, facts)
                    if outcome == "incomplete" and subject.started_by_us and subject.running:
                        reason += output_text(subject.output())
                    if outcome == "incomplete" and self._asked.profile.api_server.kubeconfig and not subject.shares_api:
                        reason += NOT_IN_THE_CLUSTER
            finally:
                subject.measure_output()
                self._outcomes[name] = outcome
                self._recorder.ended(name, outcome, reason)
                self._ended[name].set()

    async def _outcome(self, experiment: Experiment, subject: Subject, facts: Facts) -> tuple[Outcome, str]:
        """Runs an experiment to its end, its limit, the deadline, or an unexpected end of the driver."""
        lab = Lab(subject, self._recorder.of_current, facts, self._asked, self._ended)
        work = asyncio.create_task(RUNS[experiment.name](lab), name=experiment.name)
        late = asyncio.create_task(self._late.wait())
        longest = self._asked.limit_of(experiment) + self._asked.start_seconds
        if "backend" in experiment.needs:  # a driver may need all this time to connect again, and for its next report
            longest += BACKEND_LIMIT + FENCE_LIMIT
        limit = asyncio.create_task(self._clock.sleep(longest))
        gone = asyncio.create_task(self._gone(experiment, subject))
        others = (late, limit, gone)
        try:
            await asyncio.wait([work, *others], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return _result(work)
            if late.done():
                return "incomplete", f"the deadline of {self._asked.deadline:g} s passed"
            if gone.done():
                return "incomplete", gone.result()
            return "incomplete", f"it did not end within {longest:g} s"
        finally:
            await cancel_and_wait(work, *others)

    async def _gone(self, experiment: Experiment, subject: Subject) -> str:
        """Returns the reason, some time after an unexpected end of the driver."""
        if experiment.ends_driver:
            await asyncio.Event().wait()
        ended = await subject.ended_unexpectedly()
        await self._clock.sleep(GRACE)
        return exit_text(ended)


def _result(work: "asyncio.Task[None]") -> tuple[Outcome, str]:
    try:
        work.result()
    except NotApplicable as reason:
        return "not applicable", one_line(str(reason), REASON_LIMIT)
    except Incomplete as reason:
        return "incomplete", one_line(str(reason), REASON_LIMIT)
    except Unavailable as reason:
        return "error", one_line(str(reason), REASON_LIMIT)
    except HarnessError:
        raise
    except Exception as error:
        log.exception("experiment %s failed", work.get_name())
        return "error", one_line(f"{type(error).__name__}: {error}", REASON_LIMIT)
    return "done", ""
