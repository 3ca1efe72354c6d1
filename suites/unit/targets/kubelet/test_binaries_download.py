"""Official releases, over HTTP from a server that can misbehave."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries import Order, Platform, Unavailable, etcd, helm, kubernetes
from drahealth.suites.targets.kubelet.sources import OfficialReleases, Transfer
from drahealth.suites.targets.progress import silent
from drahealth.suites.unit.targets.kubelet.release_server import KUBELET, ReleaseServer

LINUX = Platform("linux", "amd64")
FOLDER = "/v1.37.1/bin/linux/amd64"


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with ReleaseServer() as running:
        running.add_program(FOLDER, "kubelet", KUBELET)
        running.add_etcd("3.6.5", "linux-amd64", b"the store")
        running.add_helm("4.3.1", "linux-amd64", b"the helm")
        yield running


def get(server: ReleaseServer, order: Order) -> str:
    return OfficialReleases(server.url, server.url, server.url).get(order, silent)


def order(tmp_path: Path, *programs: str) -> Order:
    package = {"etcd": etcd("3.6.5"), "helm": helm("4.3.1")}.get(programs[0], kubernetes("1.37.1"))
    (tmp_path / "scratch").mkdir()
    return Order(package, programs, LINUX, tmp_path, tmp_path / "scratch")


def transfer(server: ReleaseServer, target: Path) -> None:
    path = f"{FOLDER}/kubelet"
    Transfer(server.url + path, target, pause=0).run(hashlib.sha256(KUBELET).hexdigest(), "kubelet", silent)


def test_a_downloaded_program_has_its_origin(server: ReleaseServer, tmp_path: Path) -> None:
    assert get(server, order(tmp_path, "kubelet")) == f"downloaded from {server.url}{FOLDER}"
    assert (tmp_path / "kubelet").read_bytes() == KUBELET


def test_etcd_is_extracted_from_its_archive(server: ReleaseServer, tmp_path: Path) -> None:
    get(server, order(tmp_path, "etcd"))
    assert (tmp_path / "etcd").read_bytes() == b"the store"


def test_helm_is_extracted_from_its_archive(server: ReleaseServer, tmp_path: Path) -> None:
    get(server, order(tmp_path, "helm"))
    assert (tmp_path / "helm").read_bytes() == b"the helm"


_FILES = {
    "kubelet": f"{FOLDER}/kubelet",
    "etcd": "/v3.6.5/etcd-v3.6.5-linux-amd64.tar.gz",
    "helm": "/helm-v4.3.1-linux-amd64.tar.gz",
}


@pytest.mark.parametrize("program", list(_FILES))
def test_a_wrong_checksum_is_an_error(server: ReleaseServer, tmp_path: Path, program: str) -> None:
    server.files[_FILES[program]] += b"!"
    with pytest.raises(HarnessError, match="does not match its published checksum"):
        get(server, order(tmp_path, program))


def test_an_unknown_release_is_a_configuration_error(server: ReleaseServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Kubernetes v1\.37\.1 was not released for linux/amd64"):
        get(server, order(tmp_path, "kube-scheduler"))


def test_a_list_of_checksums_without_the_file_is_an_error(server: ReleaseServer, tmp_path: Path) -> None:
    server.files["/v3.6.5/SHA256SUMS"] = b"00  another.tar.gz\n\n"
    with pytest.raises(HarnessError, match="does not list"):
        get(server, order(tmp_path, "etcd"))


def test_without_a_server_the_source_is_unavailable(server: ReleaseServer, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 cannot be reached"):
        OfficialReleases("http://127.0.0.1:9", server.url).get(order(tmp_path, "kubelet"), silent)


def test_a_cut_download_is_resumed(server: ReleaseServer, tmp_path: Path) -> None:
    server.cuts[f"{FOLDER}/kubelet"] = 4  # more than are forgiven in a row, but each brings something
    transfer(server, tmp_path / "kubelet")
    assert (tmp_path / "kubelet").read_bytes() == KUBELET
    assert [asked for _, asked in server.asked] == [
        f"bytes={start}-" for start in (0, 1 << 17, 2 << 17, 3 << 17, 4 << 17)
    ]


def test_a_download_without_data_fails(server: ReleaseServer, tmp_path: Path) -> None:
    server.cuts[f"{FOLDER}/kubelet"], server.cut_at = 99, 0
    with pytest.raises(Unavailable):
        transfer(server, tmp_path / "kubelet")
    assert len(server.asked) == 3


def test_progress_has_the_bytes(server: ReleaseServer, tmp_path: Path) -> None:
    told: list[tuple[str, int | None, int | None]] = []

    def progress(stage: str, done: int | None = None, total: int | None = None) -> None:
        told.append((stage, done, total))

    OfficialReleases(server.url, server.url).get(order(tmp_path, "kubelet"), progress)
    assert told[-1] == ("Downloading kubelet of Kubernetes v1.37.1", len(KUBELET), len(KUBELET))
