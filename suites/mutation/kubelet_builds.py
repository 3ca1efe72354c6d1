"""Builds kubelets from a copy of the source of Kubernetes in which one file is replaced.

    <root>/source/              the source, as published; Go does not replace files of its own module cache
    <root>/build/               a module that requires it
    <root>/kubelets/HASH/kubelet  a built kubelet
    <root>/lock                 held by the process that builds

A folder is made with the name NAME.part and renamed when it is complete, so an interrupted build starts again.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from drahealth.suites.errors import HarnessError
from drahealth.suites.mutation.hand import DoesNotApplyError
from drahealth.suites.mutation.wrong_kubelets import WrongKubelet
from drahealth.suites.targets.held_lock import held
from drahealth.suites.targets.kubelet.binaries.build import GoFailed, run_go
from drahealth.suites.targets.kubelet.binaries.go_modules import (
    Module,
    go_mod,
    linker_flags,
    module_path,
    program_path,
)
from drahealth.suites.targets.kubelet.binaries.releases import Package
from drahealth.suites.targets.progress import Progress

_PROGRAM = "kubelet"
_NEEDED = ("api", "cmd", "pkg", "plugin", "third_party")
"""The folders of the source that a kubelet is built from."""


class KubeletBuilds:
    """The kubelets of one release, in the folder `root`."""

    def __init__(self, root: Path, version: str, progress: Progress, notify: Callable[[str], None]) -> None:
        """`notify` gets a line when this process must wait for another one."""
        self._root = root
        self._package = Package("kubernetes", "Kubernetes", version, (_PROGRAM,))
        self._progress = progress
        self._notify = notify
        self._module: Module | None = None

    def build(self, wrong: WrongKubelet) -> Path:
        """The kubelet with this bug; built if it is not there.

        Raises DoesNotApplyError if the source does not have the text to replace, GoFailed if Go cannot compile it, and
        HarnessError without Go, its module proxy or room in the cache.
        """
        folder = self._root / "kubelets" / wrong.folder
        if (folder / _PROGRAM).exists():
            return folder / _PROGRAM
        with self._alone():
            module = self._prepared()
            source = self._root / "source" / wrong.change.path
            if not source.is_file():
                raise DoesNotApplyError(f"{self._package} has no file {wrong.change.path}")
            part = _empty(folder.with_name(f"{folder.name}.part"))
            (part / "changed.go").write_text(wrong.change.changed(source.read_text()))
            overlay = {"Replace": {str(source): str(part / "changed.go")}}
            (part / "overlay.json").write_text(json.dumps(overlay))
            self._go(
                f"Compiling the kubelet {wrong.name}",
                *("build", "-overlay", str(part / "overlay.json"), "-trimpath"),
                *("-ldflags", linker_flags(self._package, module), "-o", str(part / _PROGRAM)),
                program_path(self._package, _PROGRAM),
            )
            part.rename(folder)
        return folder / _PROGRAM

    def keep_only(self, wanted: list[WrongKubelet]) -> None:
        """Removes the kubelets with other bugs."""
        names = {wrong.folder for wrong in wanted}
        with self._alone():
            for folder in (self._root / "kubelets").glob("*"):
                if folder.name not in names:
                    shutil.rmtree(folder)

    def _prepared(self) -> Module:
        """The module of the release; its source is in place then."""
        if self._module is None:
            _make(self._root / "build")
            try:
                self._module = self._prepare()
            except GoFailed as failure:
                raise HarnessError(
                    f"cannot get the source of {self._package}: {failure}", "see the output of Go"
                ) from None
        return self._module

    def _prepare(self) -> Module:
        mod = self._root / "build" / "go.mod"
        name = f"{module_path(self._package)}@v{self._package.version}"
        if not mod.exists():
            mod.write_text("module drahealth.local/build\n")
        answer = json.loads(self._go(f"Fetching the module {name}", "mod", "download", "-json", name))
        time = json.loads(Path(answer["Info"]).read_text()).get("Time", "")
        module = Module(answer["Path"], answer["Version"], Path(answer["GoMod"]).read_text(), time)
        source = self._root / "source"
        if not source.exists():
            _copy(Path(answer["Dir"]), source)
        text = f"{go_mod(module)}replace {module.path} => {source}\n"
        if not (self._root / "build" / "complete").exists():
            mod.write_text(text)
            tool = f"{program_path(self._package, _PROGRAM)}@{module.version}"
            self._go(f"Resolving the modules of {self._package}", "get", "-tool", tool)
            (self._root / "build" / "complete").touch()
        return module

    def _go(self, stage: str, *arguments: str) -> str:
        go = shutil.which("go")
        if go is None:
            raise HarnessError("there is no Go toolchain to build kubelets with", "install Go from https://go.dev/dl")
        fixed = {"GO111MODULE": "on", "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
        return run_go([go, *arguments], self._root / "build", {**os.environ, **fixed}, stage, self._progress)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        def waiting(_: float) -> None:
            self._notify(f"waits for another build of kubelets in {self._root}")

        try:
            _make(self._root / "kubelets")
            with held(filelock.FileLock(self._root / "lock"), waiting, again=-1):
                yield
        except OSError as error:
            raise HarnessError(
                f"cannot write the cache {self._root}: {error}",
                "free some disk space, correct its permissions, or set DRAHEALTH_CACHE to another folder",
            ) from error


def _copy(published: Path, source: Path) -> None:
    part = _empty(source.with_name(f"{source.name}.part"))
    shutil.copyfile(published / "go.mod", part / "go.mod")
    for name in _NEEDED:
        _copy_folder(published / name, part / name)
    part.rename(source)


def _copy_folder(published: Path, copy: Path) -> None:
    """Copies a folder without its permissions: Go's module cache is read-only."""
    copy.mkdir()
    for entry in published.iterdir():
        if entry.is_dir():
            _copy_folder(entry, copy / entry.name)
        else:
            shutil.copyfile(entry, copy / entry.name)


def _make(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return _make(folder)
