"""`drahealth certify --init` and `--plan`: a commented driver profile, and what a run would judge."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.manager.registration import Socket, find_sockets
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ignore
from drahealth.proto.quoting import one_line
from drahealth.proto.services import DRA_PLUGIN
from drahealth.suites.commands.check_run import target_of
from drahealth.suites.commands.init import write_new
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.claims_experiments import published_devices
from drahealth.suites.driver_checks.driver_run import DriverRun, duration, plan
from drahealth.suites.driver_checks.experiments import Experiment
from drahealth.suites.driver_checks.profile.faults import FAULTS_LIMIT
from drahealth.suites.driver_checks.profile.model import RunningDriver
from drahealth.suites.driver_checks.profile.starting import STARTING_PROFILES, driver_profile, starting_profile
from drahealth.suites.driver_checks.scripted_kubelet import Found, registrar
from drahealth.suites.driver_checks.subject.places import check_placeholders
from drahealth.suites.driver_checks.subject.sandbox import Sandbox
from drahealth.suites.driver_checks.verdicts import DriverRequirement, requirements
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.processes.mounts import MountPlan
from drahealth.suites.processes.sandbox import sandbox

# What a running driver says of itself: GetInfo, and its ResourceSlices.

_SHOWN = 20
"""Devices that are named."""


async def describe(driver: RunningDriver) -> list[str]:
    """Sentences about a running driver. Raises ConfigurationError unless there is exactly one."""
    found = [one async for one in _drivers(driver)]
    if len(found) != 1:
        place = driver.socket or driver.registry_dir
        names = f": {', '.join(sorted(one.info.name for one in found))}" if found else ""
        raise ConfigurationError(
            f"{place} has {len(found)} DRA drivers{names}", "start the driver, or pass one registration socket"
        )
    info = found[0].info
    lines = [f"Driver {one_line(info.name)}, which advertises {one_line(', '.join(info.supported_versions))}."]
    return [*lines, await _devices(driver.kubeconfig, info.name)] if driver.kubeconfig else lines


async def _drivers(driver: RunningDriver) -> AsyncIterator[Found]:
    directory = driver.registry_dir or (driver.socket and driver.socket.parent)
    assert directory
    for socket in find_sockets(directory):
        if driver.socket in (None, socket.path):
            answer = await _asked(socket)
            if answer.info is not None and answer.info.type == DRA_PLUGIN:
                yield answer


async def _asked(socket: Socket) -> Found:
    async with registrar(socket, SystemClock(), ignore) as calls:
        return await calls.get_info()


async def _devices(kubeconfig: Path, driver: str) -> str:
    try:
        client = await KubeClient.from_kubeconfig(kubeconfig)
    except ValueError as error:
        raise ConfigurationError(str(error), "pass another --kubeconfig") from None
    try:
        slices = [one for one in await client.list(SLICES) if one["spec"].get("driver") == driver]
    except ApiError as error:
        raise ConfigurationError(f"cannot list ResourceSlices: {error}", "pass another --kubeconfig") from None
    finally:
        await client.close()
    names = [device.id.device for device in published_devices(slices)]
    more = f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
    return (
        f"It publishes {len(names)} devices: {one_line(', '.join(names[:_SHOWN]))}{more}."
        if names
        else "It publishes no device."
    )


# `drahealth certify --init`: writes a commented driver profile, also from a running driver, or a starting one.

_COMMAND = ("./my-driver", "--registry={registry_dir}", "--data={driver_dir}", "--kubeconfig={kubeconfig}")
_STANDARD_OUTPUT = Path("-")
_NOTE = "Replace the command with the command of your driver."


def write_profile(
    words: Sequence[str], *, registry_dir: Path | None, kubeconfig: Path | None, out: Path | None
) -> Path | None:
    """Writes a driver profile to a new file; `driver.toml` by default, and standard output for `-`.

    Returns the file; None for standard output. Raises ConfigurationError.
    """
    command, socket = target_of(words, registry_dir)
    check_placeholders(command)
    path = out or Path("driver.toml")
    _check_new([path])
    if registry_dir or socket:
        if command:
            raise ConfigurationError("a command and a running driver exclude each other", "leave out one of them")
        places = {"registry-dir": registry_dir, "socket": socket, "kubeconfig": kubeconfig}
        running = {key: str(path.absolute()) for key, path in places.items() if path}
        found = asyncio.run(describe(RunningDriver.model_validate(running)))
        text = driver_profile({"driver": {"running": running}}, "\n".join(found))
    elif kubeconfig:
        raise ConfigurationError(
            "--kubeconfig is for a running driver", "pass --registry-dir, or a registration socket"
        )
    else:
        text = driver_profile({"driver": {"command": list(command or _COMMAND)}}, "" if command else _NOTE)
    return _written(path, text)


def write_starting_profile(name: str, out: Path | None) -> Path | None:
    """Writes a starting driver profile, and beside it the files that it names; by default NAME.toml.

    Standard output gets only the profile. Returns its file; None for standard output. Raises ConfigurationError.
    """
    if name not in STARTING_PROFILES:
        raise ConfigurationError(f"unknown driver {name!r}", near(name, STARTING_PROFILES))
    files = starting_profile(name)
    profile = f"{name}.toml"
    path = out or Path(profile)
    if path == _STANDARD_OUTPUT:
        return _written(path, files[profile])
    texts = {path if file == profile else path.parent / file: text for file, text in files.items()}
    _check_new(texts)
    for each, text in texts.items():
        _written(each, text)
    return path


def _check_new(paths: Iterable[Path]) -> None:
    """Raises ConfigurationError for a file that exists or cannot be written, before any work."""
    for path in paths:
        if path != _STANDARD_OUTPUT and path.exists():
            raise ConfigurationError(f"{path} exists", "pass the name of a new file with --out")
        check_output_file(str(path) if path != _STANDARD_OUTPUT else None)


def _written(path: Path, text: str) -> Path | None:
    if path == _STANDARD_OUTPUT:
        print(text, end="")  # noqa: T201
        return None
    write_new(path, text, "--out")
    return path


# `drahealth certify --plan`: what a run would judge, what not and why, and the time that it takes.


@dataclass(frozen=True, slots=True)
class Planned:
    """A requirement of the run."""

    requirement: DriverRequirement
    reasons: tuple[str, ...]
    """Why it cannot be judged; empty if it can, in full or in part."""


def planned_requirements(run: DriverRun) -> list[Planned]:
    """The requirements of the level, in the order of the ledger. What the driver does is not known yet."""
    excluded = {experiment.name: reason for experiment, reason in plan(run)}
    found = []
    for one in requirements().values():
        if one.is_judged(run.level, run.profile.subject):
            of_checks = [
                [excluded[name] for name in check.experiments if excluded.get(name)]
                for check in CHECKS.values()
                if check.requirement == one.id
            ]
            reasons = dict.fromkeys(reason for each in of_checks for reason in each)
            if run.profile.api_server_kind == "none" and one.family == "taints":
                of_checks, reasons = [["none"]], dict.fromkeys(["there is no API server"])
            found.append(Planned(one, tuple(reasons) if all(of_checks) else ()))
    return found


def show_plan(run: DriverRun) -> None:
    """Prints the plan."""
    console = standard_output()
    for line in plan_lines(run):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    if run.sandbox:
        console.print(sandbox_line(run.sandbox), soft_wrap=True, markup=False, highlight=False)


def sandbox_line(declared: Sandbox) -> str:
    """Whether this machine allows the sandbox. Makes one, and ends it."""
    with TemporaryDirectory(prefix="dra-") as folder:
        try:
            namespaces = asyncio.run(_namespaces_of(declared, Path(folder)))
        except HarnessError as error:
            return f"sandbox: not possible here: {error}"
    private = ", ".join(declared.private_directories) or "none"
    return f"sandbox: possible here; namespaces: {', '.join(namespaces)}; private directories: {private}"


async def _namespaces_of(declared: Sandbox, folder: Path) -> Sequence[str]:
    plan = MountPlan(dict.fromkeys(declared.private_directories, str(folder)), needed=(str(folder),))
    async with sandbox(declared.ways(root=os.geteuid() == 0), plan) as running:
        return running.namespaces


def _left_out(run: DriverRun, experiment: Experiment) -> str:
    """The names of the faults for which an experiment has no time."""
    caused = run.faults_of(experiment)
    return ", ".join(one.name for one in run.profile.fault if one.lasts and one not in caused) if caused else ""


def plan_lines(run: DriverRun) -> Iterator[str]:
    """The plan as text."""
    for experiment, excluded in plan(run):
        cost = "not run" if excluded else f"{run.seconds_of(experiment):.0f} s"
        yield f"{cost:>7}  {experiment.process:10} {experiment.name}: {experiment.sentence}"
        if excluded:
            yield f"{'':20}reason: {excluded}"
        elif names := _left_out(run, experiment):
            yield f"{'':20}without {names}: all faults together need more than {FAULTS_LIMIT:g} s"
    found = planned_requirements(run)
    judged = [one.requirement for one in found if not one.reasons]
    musts = sum(one.level == "MUST" for one in judged)
    yield f"\nlevel {run.level} judges {len(judged)} of {len(found)} requirements, {musts} of them MUST:"
    for family in dict.fromkeys(one.family for one in judged):
        yield f"  {family}: {', '.join(one.id for one in judged if one.family == family)}"
    reasons = dict.fromkeys(one.reasons for one in found if one.reasons)
    for reason in reasons:
        names = ", ".join(one.requirement.id for one in found if one.reasons == reason)
        yield f"not judged: {names}\n  reason: {'; '.join(reason)}"
    if run.profile.api_server_kind == "none":
        yield "\nwithout an API server, level core can be reached, and level full cannot"
    if not run.profile.fault:
        yield "\nno fault in the driver profile: no device is broken, and the certificate says so"
    yield f"\nabout {duration(run):.0f} s for a driver that answers at once"
