"""A container runtime (CRI) for a real kubelet, whose containers are scripts."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio

from drahealth.fakes.cluster.runtime import (
    ADDRESS,
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    Sandbox,
    SandboxConfig,
    SandboxState,
    UnknownIdError,
    WrongStateError,
    image_id,
    parse_annotation,
)
from drahealth.fakes.sockets import PATH_LIMIT
from drahealth.proto import cri_v1_pb2 as cri
from drahealth.proto.services import Method, Unary, serve

VERSION = Unary("/runtime.v1.RuntimeService/Version", cri.VersionRequest, cri.VersionResponse)
STATUS = Unary("/runtime.v1.RuntimeService/Status", cri.StatusRequest, cri.StatusResponse)
RUNTIME_CONFIG = Unary(
    "/runtime.v1.RuntimeService/RuntimeConfig",
    cri.RuntimeConfigRequest,
    cri.RuntimeConfigResponse,
)
UPDATE_RUNTIME_CONFIG = Unary(
    "/runtime.v1.RuntimeService/UpdateRuntimeConfig",
    cri.UpdateRuntimeConfigRequest,
    cri.UpdateRuntimeConfigResponse,
)

RUN_POD_SANDBOX = Unary(
    "/runtime.v1.RuntimeService/RunPodSandbox",
    cri.RunPodSandboxRequest,
    cri.RunPodSandboxResponse,
)
STOP_POD_SANDBOX = Unary(
    "/runtime.v1.RuntimeService/StopPodSandbox",
    cri.StopPodSandboxRequest,
    cri.StopPodSandboxResponse,
)
REMOVE_POD_SANDBOX = Unary(
    "/runtime.v1.RuntimeService/RemovePodSandbox",
    cri.RemovePodSandboxRequest,
    cri.RemovePodSandboxResponse,
)
POD_SANDBOX_STATUS = Unary(
    "/runtime.v1.RuntimeService/PodSandboxStatus",
    cri.PodSandboxStatusRequest,
    cri.PodSandboxStatusResponse,
)
LIST_POD_SANDBOX = Unary(
    "/runtime.v1.RuntimeService/ListPodSandbox",
    cri.ListPodSandboxRequest,
    cri.ListPodSandboxResponse,
)

CREATE_CONTAINER = Unary(
    "/runtime.v1.RuntimeService/CreateContainer",
    cri.CreateContainerRequest,
    cri.CreateContainerResponse,
)
START_CONTAINER = Unary(
    "/runtime.v1.RuntimeService/StartContainer",
    cri.StartContainerRequest,
    cri.StartContainerResponse,
)
STOP_CONTAINER = Unary(
    "/runtime.v1.RuntimeService/StopContainer",
    cri.StopContainerRequest,
    cri.StopContainerResponse,
)
REMOVE_CONTAINER = Unary(
    "/runtime.v1.RuntimeService/RemoveContainer",
    cri.RemoveContainerRequest,
    cri.RemoveContainerResponse,
)
CONTAINER_STATUS = Unary(
    "/runtime.v1.RuntimeService/ContainerStatus",
    cri.ContainerStatusRequest,
    cri.ContainerStatusResponse,
)
LIST_CONTAINERS = Unary(
    "/runtime.v1.RuntimeService/ListContainers",
    cri.ListContainersRequest,
    cri.ListContainersResponse,
)
REOPEN_CONTAINER_LOG = Unary(
    "/runtime.v1.RuntimeService/ReopenContainerLog",
    cri.ReopenContainerLogRequest,
    cri.ReopenContainerLogResponse,
)

CONTAINER_STATS = Unary(
    "/runtime.v1.RuntimeService/ContainerStats",
    cri.ContainerStatsRequest,
    cri.ContainerStatsResponse,
)
LIST_CONTAINER_STATS = Unary(
    "/runtime.v1.RuntimeService/ListContainerStats",
    cri.ListContainerStatsRequest,
    cri.ListContainerStatsResponse,
)
LIST_POD_SANDBOX_STATS = Unary(
    "/runtime.v1.RuntimeService/ListPodSandboxStats",
    cri.ListPodSandboxStatsRequest,
    cri.ListPodSandboxStatsResponse,
)

LIST_IMAGES = Unary("/runtime.v1.ImageService/ListImages", cri.ListImagesRequest, cri.ListImagesResponse)
IMAGE_STATUS = Unary("/runtime.v1.ImageService/ImageStatus", cri.ImageStatusRequest, cri.ImageStatusResponse)
PULL_IMAGE = Unary("/runtime.v1.ImageService/PullImage", cri.PullImageRequest, cri.PullImageResponse)
REMOVE_IMAGE = Unary("/runtime.v1.ImageService/RemoveImage", cri.RemoveImageRequest, cri.RemoveImageResponse)
IMAGE_FS_INFO = Unary("/runtime.v1.ImageService/ImageFsInfo", cri.ImageFsInfoRequest, cri.ImageFsInfoResponse)

# These need a process in a container, which the fake runtime has not: no field of them is read.
EXEC = Unary("/runtime.v1.RuntimeService/Exec", cri.ExecRequest, cri.ExecResponse)
EXEC_SYNC = Unary("/runtime.v1.RuntimeService/ExecSync", cri.ExecSyncRequest, cri.ExecSyncResponse)
ATTACH = Unary("/runtime.v1.RuntimeService/Attach", cri.AttachRequest, cri.AttachResponse)
PORT_FORWARD = Unary("/runtime.v1.RuntimeService/PortForward", cri.PortForwardRequest, cri.PortForwardResponse)


# The image half of the fake runtime: every image exists and uses no space.

USER = 65534
"""The reported user of every image, so that a Pod can use `runAsNonRoot`."""


class Images:
    """Answers `runtime.v1.ImageService`; `folder` is the file system of the images."""

    def __init__(self, runtime: ContainerRuntime, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder

    def functions(self) -> Mapping[Method, Callable[[Any], Any]]:
        """The functions by method."""
        return {
            LIST_IMAGES: self._list,
            IMAGE_STATUS: lambda request: cri.ImageStatusResponse(image=_image(request.image.image)),
            PULL_IMAGE: lambda request: cri.PullImageResponse(image_ref=image_id(request.image.image)),
            REMOVE_IMAGE: lambda request: cri.RemoveImageResponse(),
            IMAGE_FS_INFO: self._filesystem,
        }

    def _list(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        """The images of the existing containers, so that a kubelet finds none to remove."""
        names = sorted({container.config.image for container in self._runtime.containers()})
        wanted = request.filter.image.image
        return cri.ListImagesResponse(
            images=[_image(name) for name in names if not wanted or image_id(wanted) == image_id(name)]
        )

    def _filesystem(self, request: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        usage = cri.FilesystemUsage(
            timestamp=self._runtime.wall(),
            fs_id=cri.FilesystemIdentifier(mountpoint=str(self._folder)),
            used_bytes=cri.UInt64Value(value=0),
            inodes_used=cri.UInt64Value(value=0),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _image(name: str) -> cri.Image:
    by_id = name == image_id(name)
    return cri.Image(
        id=image_id(name),
        repo_tags=[] if by_id else [name],
        size=1,
        uid=cri.Int64Value(value=USER),
        spec=cri.ImageSpec(image=name),
    )


# Converts containers to messages of the Container Runtime Interface, and back.

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


# A container runtime for a real kubelet: scripted containers behind the Container Runtime Interface, version 1.
#
# It implements the calls that a kubelet needs; all others are Unimplemented. As the interface demands, stopping or
# removing an unknown id is not an error; any other call with an unknown id is NOT_FOUND.
#
# A kubelet that removes a dead container deletes every file whose name starts with the container's `log_path`. So
# each container gets its own log file in `log_dir`, whatever path the kubelet requested.

_CONTAINER_STATES = {number: state for state, number in CONTAINER_STATES.items()}
_SANDBOX_STATES = {number: state for state, number in SANDBOX_STATES.items()}


class CriServer:
    """Serves a `ContainerRuntime` to a real kubelet, on the unix socket `socket` (`containerRuntimeEndpoint`).

    `log_dir` must belong to this run alone. Containers belong to the runtime: they outlive this server.
    """

    def __init__(self, runtime: ContainerRuntime, socket: Path, log_dir: Path) -> None:
        if len(str(socket).encode()) > PATH_LIMIT:
            raise ValueError(f"the socket path {socket} has more than {PATH_LIMIT} bytes; use a shorter directory")
        self.socket = socket
        self._runtime = runtime
        self._log_dir = log_dir.absolute()
        self._server: grpc.aio.Server | None = None
        self._end_output: Callable[[], None] | None = None

    async def start(self) -> None:
        """Starts the server and replaces an old socket. Raises OSError if the path cannot be used."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._end_output = self._runtime.read_output(_log)
        functions = {**self._functions(), **Images(self._runtime, self._log_dir).functions()}
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(serve({method: _answer(f) for method, f in functions.items()}))
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Stops the server, its connections and its socket; the containers stay."""
        if self._end_output:
            self._end_output()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)
            self.socket.unlink(missing_ok=True)

    def _functions(self) -> Mapping[Method, Callable[[Any], Any]]:
        return {
            VERSION: _version,
            STATUS: _status,
            RUNTIME_CONFIG: _runtime_config,
            UPDATE_RUNTIME_CONFIG: lambda request: cri.UpdateRuntimeConfigResponse(),
            RUN_POD_SANDBOX: self._run_sandbox,
            STOP_POD_SANDBOX: self._stop_sandbox,
            REMOVE_POD_SANDBOX: self._remove_sandbox,
            POD_SANDBOX_STATUS: self._sandbox_status,
            LIST_POD_SANDBOX: self._list_sandboxes,
            CREATE_CONTAINER: self._create_container,
            START_CONTAINER: self._start_container,
            STOP_CONTAINER: self._stop_container,
            REMOVE_CONTAINER: self._remove_container,
            CONTAINER_STATUS: self._container_status,
            LIST_CONTAINERS: self._list_containers,
            REOPEN_CONTAINER_LOG: self._reopen_log,
            CONTAINER_STATS: self._container_stats,
            LIST_CONTAINER_STATS: self._list_container_stats,
            LIST_POD_SANDBOX_STATS: self._list_sandbox_stats,
            EXEC: _unsupported("exec"),
            EXEC_SYNC: _unsupported("exec"),
            ATTACH: _unsupported("attach"),
            PORT_FORWARD: _unsupported("port-forward"),
        }

    def _run_sandbox(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        sandbox = self._runtime.run_sandbox(sandbox_config(request.config))
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def _stop_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        with suppress(UnknownIdError):
            self._runtime.stop_sandbox(request.pod_sandbox_id)
        return cri.StopPodSandboxResponse()

    def _remove_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        with suppress(UnknownIdError):
            containers = self._runtime.containers(sandbox_id=request.pod_sandbox_id)
            self._runtime.remove_sandbox(request.pod_sandbox_id)
            for container in containers:
                _remove_log(container)
        return cri.RemovePodSandboxResponse()

    def _sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        return cri.PodSandboxStatusResponse(status=sandbox_status(self._runtime.sandbox(request.pod_sandbox_id)))

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        wanted = request.filter
        state = _SANDBOX_STATES[wanted.state.state] if wanted.HasField("state") else None
        found = self._runtime.sandboxes(sandbox_id=wanted.id, state=state, labels=wanted.label_selector)
        return cri.ListPodSandboxResponse(items=[sandbox_item(sandbox) for sandbox in found])

    def _create_container(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        log_path = self._log_dir / f"{uuid4().hex}.log"
        config = container_config(request.config, str(log_path))
        parse_annotation(self._runtime.sandbox(request.pod_sandbox_id).config.annotations, config.name)
        container = self._runtime.create_container(request.pod_sandbox_id, config)
        log_path.touch()
        return cri.CreateContainerResponse(container_id=container.id)

    def _start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        self._runtime.start_container(request.container_id)
        return cri.StartContainerResponse()

    def _stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        with suppress(UnknownIdError):
            self._runtime.stop_container(request.container_id, grace=request.timeout)
        return cri.StopContainerResponse()

    def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        with suppress(UnknownIdError):
            container = self._runtime.container(request.container_id)
            self._runtime.remove_container(container.id)
            _remove_log(container)
        return cri.RemoveContainerResponse()

    def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        return cri.ContainerStatusResponse(status=container_status(self._runtime.container(request.container_id)))

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        wanted = request.filter
        if wanted.HasField("state") and wanted.state.state not in _CONTAINER_STATES:
            return cri.ListContainersResponse()  # no container has the state unknown
        found = self._runtime.containers(
            container_id=wanted.id,
            sandbox_id=wanted.pod_sandbox_id,
            state=_CONTAINER_STATES[wanted.state.state] if wanted.HasField("state") else None,
            labels=wanted.label_selector,
        )
        return cri.ListContainersResponse(containers=[container_item(container) for container in found])

    def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        Path(self._runtime.container(request.container_id).config.log_path).touch()
        return cri.ReopenContainerLogResponse()

    def _container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        return cri.ContainerStatsResponse(stats=container_stats(self._runtime.container(request.container_id)))

    def _list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        wanted = request.filter
        found = self._runtime.containers(
            container_id=wanted.id, sandbox_id=wanted.pod_sandbox_id, labels=wanted.label_selector
        )
        return cri.ListContainerStatsResponse(stats=[container_stats(container) for container in found])

    def _list_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        found = self._runtime.sandboxes(sandbox_id=request.filter.id, labels=request.filter.label_selector)
        return cri.ListPodSandboxStatsResponse(stats=[self._stats(sandbox) for sandbox in found])

    def _stats(self, sandbox: Sandbox) -> cri.PodSandboxStats:
        return sandbox_stats(sandbox, self._runtime.containers(sandbox_id=sandbox.id))


def _answer(function: Callable[[Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
    """The gRPC handler of a plain function; errors of the runtime become status codes of the interface."""

    async def handle(request: Any, context: Any) -> Any:
        try:
            return function(request)
        except UnknownIdError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except WrongStateError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except NotSupportedError as error:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return handle


class NotSupportedError(Exception):
    """A call that needs a process in a container."""


def _unsupported(what: str) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        raise NotSupportedError(f"{what} is not supported by the fake runtime: its containers have no processes")

    return answer


def _log(container: Container, line: str) -> None:
    """Appends a line in the format of the Container Runtime Interface."""
    if container.config.log_path:
        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        with Path(container.config.log_path).open("a", encoding="utf-8") as log:
            log.write(f"{time} stdout F {line}\n")


def _remove_log(container: Container) -> None:
    if container.config.log_path:  # containers of the in-process pod worker have no log
        Path(container.config.log_path).unlink(missing_ok=True)


def _version(request: cri.VersionRequest) -> cri.VersionResponse:
    return cri.VersionResponse(
        version="0.1.0", runtime_name="drahealth", runtime_version="1.0.0", runtime_api_version="v1"
    )


def _status(request: cri.StatusRequest) -> cri.StatusResponse:
    """The runtime is ready. Pods can have user namespaces of their own, because no process has to be put into one."""
    conditions = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
    default = cri.RuntimeHandler(features=cri.RuntimeHandlerFeatures(user_namespaces=True))
    return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions), runtime_handlers=[default])


def _runtime_config(request: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
    return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))
