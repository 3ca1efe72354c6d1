"""The image half of the fake runtime: every image exists and uses no space."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.containers.runtime import ContainerRuntime, image_id
from drahealth.proto import cri as methods
from drahealth.proto import cri_v1_pb2 as cri
from drahealth.proto.services import Method

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
            methods.LIST_IMAGES: self._list,
            methods.IMAGE_STATUS: lambda request: cri.ImageStatusResponse(image=_image(request.image.image)),
            methods.PULL_IMAGE: lambda request: cri.PullImageResponse(image_ref=image_id(request.image.image)),
            methods.REMOVE_IMAGE: lambda request: cri.RemoveImageResponse(),
            methods.IMAGE_FS_INFO: self._filesystem,
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
