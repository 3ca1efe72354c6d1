"""The methods of the Container Runtime Interface that a kubelet calls: paths and message types, as in `services`."""

from drahealth.proto import cri_v1_pb2 as cri
from drahealth.proto.services import Unary

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
