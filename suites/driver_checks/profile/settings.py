"""The settings of a run that a driver profile gives."""

from pathlib import Path

from drahealth.suites.driver_checks.profile.file import ProfileFile
from drahealth.suites.driver_checks.profile.model import HelperSection, RunningDriver, SandboxSection
from drahealth.suites.driver_checks.sandbox.declared import SERVICE_ACCOUNT_DIR, Helper, Sandbox, Volume
from drahealth.suites.driver_checks.settings import CDI_DIRS, DEADLINE, DriverApiServer, Settings
from drahealth.suites.driver_checks.subject.driver_pod import InCluster
from drahealth.suites.driver_checks.verdicts import Level

PODS_MARGIN = 30.0
"""Seconds beyond the grace of a Pod in which a cluster ends it."""


def settings_of(
    file: ProfileFile,
    *,
    level: Level = "core",
    api_server: DriverApiServer | None = None,
    deadline: float = DEADLINE,
    only: frozenset[str] = frozenset(),
) -> Settings:
    """The settings of a certification. `api_server` replaces that of the profile. Raises ConfigurationError."""
    profile, driver = file.profile, file.profile.driver
    kind = api_server or ("kubeconfig" if profile.api_server.kubeconfig else profile.api_server.kind)
    running = driver.running or RunningDriver.model_construct()
    command, environment = driver.command, driver.environment
    if file.pod:
        command = (*(driver.command or file.pod.command), *file.pod.arguments)
        environment = {**file.pod.environment, **environment}
    in_cluster = _in_cluster(file)
    api_kubeconfig = profile.api_server.kubeconfig if kind == "kubeconfig" else running.kubeconfig
    if driver.cluster:
        api_kubeconfig = driver.cluster.kubeconfig
    return Settings(
        command=command,
        subject="device-plugin" if driver.kind == "device-plugin" else "dra-driver",
        environment=environment,
        driver_name=driver.name,
        working_directory=file.folder / driver.working_directory if command else None,
        grace=in_cluster.grace + PODS_MARGIN if in_cluster else driver.grace,
        registry_dir=_path(file, running.registry_dir),
        socket=_path(file, running.socket),
        kubeconfig=_path(file, api_kubeconfig),
        in_cluster=in_cluster,
        node_name=running.node_name,
        cdi_dirs=tuple(file.folder / name for name in running.cdi_dirs) or CDI_DIRS,
        api_server=kind,
        kubernetes=profile.api_server.kubernetes,
        objects=file.objects,
        claim=file.claim,
        claim_devices=profile.claim.devices,
        sandbox=_sandbox(file),
        helpers=tuple(_helper(one) for one in profile.helper),
        sequential=not profile.abilities.several_processes or in_cluster is not None,
        faults=tuple(one.fault(file.folder) for one in profile.fault),
        can_break=profile.abilities.faults,
        rolling_update=profile.abilities.rolling_update,
        deadline=deadline,
        only=only,
        level=level,
        profile=file.name,
        profile_sha256=file.sha256,
    )


def _in_cluster(file: ProfileFile) -> InCluster | None:
    section = file.profile.driver.cluster
    if section is None or file.workload is None:
        return None
    return InCluster(
        file.workload,
        section.node,
        root=file.folder / Path(section.root).expanduser(),
        kubelet_dir=section.kubelet_dir,
        limit=section.limit,
        container=file.profile.driver.container,
    )


def _sandbox(file: ProfileFile) -> Sandbox | None:
    """The sandbox of the profile. A driver that starts as its Pod says always has one, for its volumes."""
    section = file.profile.sandbox
    if section is None and file.pod is None:
        return None
    declared = section or SandboxSection(private=())
    if file.pod is None:
        return Sandbox(declared.namespaces, declared.private)
    account = Volume(SERVICE_ACCOUNT_DIR, files=(("namespace", file.pod.namespace),))
    return Sandbox(declared.namespaces, declared.private, (*file.pod.volumes, account))


def _helper(section: HelperSection) -> Helper:
    return Helper(
        section.command,
        environment=section.environment,
        ready=section.ready,
        ready_command=section.ready_command,
        limit=section.limit,
    )


def _path(file: ProfileFile, name: str | None) -> Path | None:
    return file.folder / Path(name).expanduser() if name else None
