"""Converts containers to messages of the Container Runtime Interface, and back."""

from drahealth.fakes.cluster.containers.runtime import (
    ADDRESS,
    Container,
    ContainerConfig,
    ContainerState,
    Sandbox,
    SandboxConfig,
    SandboxState,
    image_id,
)
from drahealth.proto import cri_v1_pb2 as cri

SANDBOX_STATES = {
    SandboxState.READY: cri.SANDBOX_READY,
    SandboxState.NOT_READY: cri.SANDBOX_NOTREADY,
}
CONTAINER_STATES = {
    ContainerState.CREATED: cri.CONTAINER_CREATED,
    ContainerState.RUNNING: cri.CONTAINER_RUNNING,
    ContainerState.EXITED: cri.CONTAINER_EXITED,
}


def sandbox_config(config: cri.PodSandboxConfig) -> SandboxConfig:
    """The configuration of a sandbox, from a kubelet's request."""
    network = config.linux.security_context.namespace_options.network
    return SandboxConfig(
        pod_name=config.metadata.name,
        pod_namespace=config.metadata.namespace,
        pod_uid=config.metadata.uid,
        attempt=config.metadata.attempt,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        host_network=network == cri.NODE,
    )


def container_config(config: cri.ContainerConfig, log_path: str) -> ContainerConfig:
    """The configuration of a container, from a kubelet's request; the image is the Pod's image name, not its id."""
    return ContainerConfig(
        name=config.metadata.name,
        image=config.image.user_specified_image or config.image.image,
        attempt=config.metadata.attempt,
        command=tuple(config.command),
        args=tuple(config.args),
        cdi_devices=tuple(device.name for device in config.cdi_devices),
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        log_path=log_path,
    )


def sandbox_item(sandbox: Sandbox) -> cri.PodSandbox:
    """A sandbox in a list."""
    return cri.PodSandbox(
        id=sandbox.id,
        metadata=_sandbox_metadata(sandbox),
        state=SANDBOX_STATES[sandbox.state],
        created_at=sandbox.created,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
    )


def sandbox_status(sandbox: Sandbox) -> cri.PodSandboxStatus:
    """The status of one sandbox."""
    network = cri.NODE if sandbox.config.host_network else cri.POD
    return cri.PodSandboxStatus(
        id=sandbox.id,
        metadata=_sandbox_metadata(sandbox),
        state=SANDBOX_STATES[sandbox.state],
        created_at=sandbox.created,
        network=cri.PodSandboxNetworkStatus(ip=ADDRESS),
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=cri.NamespaceOption(network=network))),
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
    )


def container_item(container: Container) -> cri.Container:
    """A container in a list."""
    return cri.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=_container_metadata(container),
        image=cri.ImageSpec(image=container.config.image),
        image_ref=image_id(container.config.image),
        state=CONTAINER_STATES[container.state],
        created_at=container.created,
        labels=container.config.labels,
        annotations=container.config.annotations,
        image_id=image_id(container.config.image),
    )


def container_status(container: Container) -> cri.ContainerStatus:
    """The status of one container."""
    return cri.ContainerStatus(
        id=container.id,
        metadata=_container_metadata(container),
        state=CONTAINER_STATES[container.state],
        created_at=container.created,
        started_at=container.started,
        finished_at=container.finished,
        exit_code=container.exit_code,
        image=cri.ImageSpec(image=container.config.image),
        image_ref=image_id(container.config.image),
        reason=container.reason,
        labels=container.config.labels,
        annotations=container.config.annotations,
        log_path=container.config.log_path,
        image_id=image_id(container.config.image),
    )


def container_stats(container: Container) -> cri.ContainerStats:
    """The statistics of a container; it uses nothing."""
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=_container_metadata(container),
            labels=container.config.labels,
            annotations=container.config.annotations,
        )
    )


def sandbox_stats(sandbox: Sandbox, containers: list[Container]) -> cri.PodSandboxStats:
    """The same for a sandbox and its containers."""
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=_sandbox_metadata(sandbox),
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=cri.LinuxPodSandboxStats(containers=[container_stats(container) for container in containers]),
    )


def _sandbox_metadata(sandbox: Sandbox) -> cri.PodSandboxMetadata:
    config = sandbox.config
    return cri.PodSandboxMetadata(
        name=config.pod_name, uid=config.pod_uid, namespace=config.pod_namespace, attempt=config.attempt
    )


def _container_metadata(container: Container) -> cri.ContainerMetadata:
    return cri.ContainerMetadata(name=container.config.name, attempt=container.config.attempt)
