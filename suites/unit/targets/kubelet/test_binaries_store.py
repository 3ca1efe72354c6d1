"""The cache contains only complete folders, even after its process is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries import (
    FirstThatCan,
    Order,
    Platform,
    Store,
    Unavailable,
    etcd,
    helm,
    kubernetes,
)
from drahealth.suites.targets.progress import Progress, silent

LINUX = Platform("linux", "amd64")
PACKAGE = kubernetes("1.37.1")

FILLER = """
import sys, time
from pathlib import Path
from drahealth.suites.targets.kubelet.binaries import Store
from drahealth.suites.targets.kubelet.binaries import Platform, kubernetes

class Slow:
    def get(self, order, progress):
        print("my turn")
        sys.stdin.readline()
        for name in order.programs:
            (order.into / name).write_text(name)
        return "a slow source"

print(Store(Path(sys.argv[1]), Platform("linux", "amd64")).ensure(kubernetes("1.37.1"), Slow(), print))
"""


@dataclass
class Shelf:
    """A source that notes what it was asked for."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    def get(self, order: Order, progress: Progress) -> str:
        self.asked.append(tuple(order.programs))
        for name in order.programs:
            (order.into / name).write_text(f"{name} of {order.package}")
        return "a shelf"


def filler(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", FILLER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", LINUX)


def test_cached_programs_are_not_fetched_again(store: Store) -> None:
    shelf = Shelf()
    folder = store.ensure(PACKAGE, shelf, silent)
    assert store.ensure(PACKAGE, shelf, silent) == folder
    assert shelf.asked == [PACKAGE.programs]
    assert os.access(folder / "kubelet", os.X_OK)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("kubelet of Kubernetes v1.37.0"),  # as long as it was
        lambda path: path.write_text("short"),
        lambda path: path.unlink(),
    ],
)
def test_only_a_damaged_file_is_fetched_again(store: Store, damage: Callable[[Path], None]) -> None:
    shelf = Shelf()
    folder = store.ensure(PACKAGE, shelf, silent)
    damage(folder / "kubelet")
    store.ensure(PACKAGE, shelf, silent)
    assert shelf.asked[1:] == [("kubelet",)]
    assert (folder / "kubelet").read_text() == "kubelet of Kubernetes v1.37.1"


def test_a_restored_file_with_another_time_is_good(store: Store) -> None:
    shelf = Shelf()
    os.utime(store.ensure(PACKAGE, shelf, silent) / "kubelet", (1, 1))
    store.ensure(PACKAGE, shelf, silent)
    assert len(shelf.asked) == 1


def test_without_a_manifest_every_file_is_fetched_again(store: Store) -> None:
    shelf = Shelf()
    (store.ensure(PACKAGE, shelf, silent) / "manifest.json").write_text("{")
    store.ensure(PACKAGE, shelf, silent)
    assert shelf.asked == [PACKAGE.programs, PACKAGE.programs]


def test_a_failed_source_leaves_no_files(store: Store) -> None:
    with pytest.raises(HarnessError, match=r"cannot get Kubernetes v1\.37\.1: .*nothing there.*; look again$"):
        store.ensure(PACKAGE, FirstThatCan([Empty()]), silent)
    assert [path.name for path in store.root.iterdir()] == ["lock"]


class Empty:
    """A source that can never help."""

    def get(self, order: Order, progress: Progress) -> str:
        (order.into / "kubelet").write_text("half of it")
        raise Unavailable("there is nothing there", "look again")


def test_the_next_source_is_tried_after_an_unavailable_one(store: Store) -> None:
    folder = store.ensure(PACKAGE, FirstThatCan([Empty(), Shelf()]), silent)
    assert (folder / "kubelet").read_text() == "kubelet of Kubernetes v1.37.1"


def test_a_second_process_waits_and_uses_the_files_of_the_first(tmp_path: Path) -> None:
    with filler(tmp_path) as first, filler(tmp_path) as second:
        ready, waiting = sorted([first, second], key=read_line, reverse=True)
        ready.communicate("go\n")
        told, _ = waiting.communicate()
    assert told.splitlines()[-1] == str(tmp_path / "kubernetes/v1.37.1/linux-amd64")
    assert "my turn" not in told


def test_a_killed_process_does_not_disturb_the_next(tmp_path: Path, store: Store) -> None:
    with filler(store.root) as process:
        assert read_line(process) == "my turn"
        process.send_signal(signal.SIGKILL)
    store.ensure(PACKAGE, Shelf(), silent)
    assert sorted(path.name for path in store.root.iterdir()) == ["kubernetes", "lock"]


def test_installed_releases_are_listed_by_version(store: Store) -> None:
    for version in ("1.37.1", "1.9.0", "1.37.1-rc.0", "1.36.3"):
        store.ensure(kubernetes(version), Shelf(), silent)
    listed = store.installed()
    assert [release.version for release in listed] == ["1.9.0", "1.36.3", "1.37.1-rc.0", "1.37.1"]
    assert listed[0].origins == ("a shelf",)


def test_etcd_is_removed_with_the_last_release(store: Store) -> None:
    for package in (PACKAGE, kubernetes("1.36.3"), etcd()):
        store.ensure(package, Shelf(), silent)
    assert store.remove("v1.36.3") > 0
    assert store.folder(etcd()).exists()
    store.remove("1.37.1")
    assert [path for path in store.root.rglob("*") if path.is_file()] == [store.root / "lock"]


def test_removing_an_unknown_release_lists_the_known_ones(store: Store) -> None:
    store.ensure(PACKAGE, Shelf(), silent)
    with pytest.raises(ConfigurationError, match=r"v1\.36\.3 is not in the cache .*; the cache has 1\.37\.1$"):
        store.remove("1.36.3")


def test_removing_helm_removes_nothing_else(store: Store) -> None:
    for package in (PACKAGE, helm()):
        store.ensure(package, Shelf(), silent)
    assert store.remove("helm") > 0
    assert (store.installed("helm"), len(store.installed())) == ([], 1)
    with pytest.raises(ConfigurationError, match=r"Helm is not in the cache .*; `drahealth binaries helm` gets it"):
        store.remove("helm")


def test_the_error_of_an_unwritable_cache_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match=r"cannot write the cache .*DRAHEALTH_CACHE"):
        Store(tmp_path / "file" / "cache", LINUX).ensure(PACKAGE, Shelf(), silent)
