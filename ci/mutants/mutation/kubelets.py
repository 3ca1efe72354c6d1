"""Wrong kubelets: real kubelets with one bug each, their builds, and whether scenarios notice the bug.

    ci/mutants/check-wrong-kubelets [NAME ...] [--all] [--write] [-n N]

The bugs are in ci/mutants/wrong-kubelets: changes of a source file of Kubernetes, each with the scenarios that must
fail. The built kubelets are kept outside of the checkout, beside the kubelets of releases, and never in place of
one. It needs Go, and what a real kubelet needs: see `drahealth doctor --target kubelet`.

NAME selects wrong kubelets. --all runs all scenarios on each, which takes 4 minutes for each kubelet. --write
writes ci/mutants/wrong-kubelets.json. Exits 1 if a wrong kubelet is not caught, 2 for a wrong name or file, and 3 if
one cannot be built or judged.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.binaries import Package
from drahealth.suites.targets.kubelet.sources import (
    GoFailed,
    Module,
    go_mod,
    linker_flags,
    module_path,
    program_path,
    run_go,
)
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.run_directory import default_root, held
from mutation.hand import ROOT, DoesNotApplyError, HandMutant, HandMutantError, part_and_entries
from mutation.running import Trial

# Wrong kubelets: a real kubelet with one bug each, and what its scenarios say of it.
#
# Each is data: a file in `ci/mutants/wrong-kubelets` has those of one part of a kubelet's work. Pure, except for
# `read_wrong_kubelets`.

_TEXTS = {"name", "does", "file", "old", "new"}
_KEYS = {*_TEXTS, "scenarios"}
_GOOD = ("passed", "known issue")


@dataclass(frozen=True, slots=True)
class WrongKubelet:
    """A kubelet with one bug, and the scenarios that must notice it."""

    change: HandMutant
    """The bug: a text of one source file of Kubernetes that another one replaces."""
    scenarios: tuple[str, ...]
    """The names of the scenarios, without `test_`."""

    @property
    def name(self) -> str:
        """Names it, in words with hyphens."""
        return self.change.name

    @property
    def folder(self) -> str:
        """The name of the folder with its program. Another bug has another folder."""
        return self.change.trial_key.rsplit(" ", 1)[1]


def read_wrong_kubelets(folder: Path) -> list[WrongKubelet]:
    """The wrong kubelets of all files in the folder. Raises HandMutantError, OSError."""
    found = [one for file in sorted(folder.glob("*.toml")) for one in parse_wrong_kubelets(file.read_text(), file.name)]
    if twice := [name for name, number in Counter(one.name for one in found).items() if number > 1]:
        raise HandMutantError(f"two wrong kubelets have the name {twice[0]}")
    return found


def parse_wrong_kubelets(text: str, file: str) -> list[WrongKubelet]:
    """The wrong kubelets of one file. Raises HandMutantError."""
    return list(_kubelets(file, *part_and_entries(text, file, "kubelet")))


def _kubelets(file: str, part: str, entries: Iterable[dict[str, Any]]) -> Iterator[WrongKubelet]:
    for number, entry in enumerate(entries, start=1):
        if set(entry) != _KEYS or not all(isinstance(entry[key], str) for key in _TEXTS):
            raise HandMutantError(
                f"{file}: kubelet {number} must have the texts {', '.join(sorted(_TEXTS))} and the list `scenarios`"
            )
        names = entry["scenarios"]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            raise HandMutantError(f"{file}: kubelet {number} must have a list of names as `scenarios`")
        if not all(entry[key] for key in _TEXTS - {"new"}):
            raise HandMutantError(f"{file}: kubelet {number} has an empty text")
        change = HandMutant(entry["name"], part, entry["does"], entry["file"], entry["old"], entry["new"])
        yield WrongKubelet(change, tuple(names))


def outcomes(report: Mapping[str, Any]) -> dict[str, str]:
    """The outcome of each scenario of a report, by its name without `test_`."""
    return {_short(one["name"]): one["outcome"] for one in report["scenarios"]}


def judge(wrong: WrongKubelet, right: Mapping[str, str], report: Mapping[str, Any] | None, output: str) -> Trial:
    """The result of a wrong kubelet. `right`: the outcomes of its scenarios on the right kubelet.

    Outcomes: `caught` if a scenario fails that does not fail on the right kubelet; else `survived`. `reason` then names
    a scenario with a known issue on the right kubelet, which can hide the bug. `error` if no scenario could be judged;
    `reason` is then the last line of the output.
    """
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if report is None or not report["scenarios"]:
        return Trial(wrong.name, "error", reason=last)
    failed = [
        one for one in report["scenarios"] if one["outcome"] == "failed" and right.get(_short(one["name"])) in _GOOD
    ]
    if failed:
        return Trial(wrong.name, "caught", tuple(failed[0]["broken"]), _short(failed[0]["name"]))
    if any(one["outcome"] == "error" for one in report["scenarios"]):
        return Trial(wrong.name, "error", reason=last)
    known = [name for name in wrong.scenarios if right.get(name) == "known issue"]
    reason = f"{known[0]} has a known issue on the right kubelet, which can hide the bug" if known else ""
    return Trial(wrong.name, "survived", reason=reason)


def _short(name: str) -> str:
    return name.removeprefix("test_")


# Builds kubelets from a copy of the source of Kubernetes in which one file is replaced.
#
#     <root>/source/              the source, as published; Go does not replace files of its own module cache
#     <root>/build/               a module that requires it
#     <root>/kubelets/HASH/kubelet  a built kubelet
#     <root>/lock                 held by the process that builds
#
# A folder is made with the name NAME.part and renamed when it is complete, so an interrupted build starts again.

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


# wrong-kubelets.md of the evidence: which scenarios notice the bugs of real kubelets. Pure.


def page(wrong: Sequence[WrongKubelet], trials: Mapping[str, Trial], version: str) -> str:
    """The documentation page, for results on kubelets of this release."""
    caught = sum(trial.outcome == "caught" for trial in trials.values())
    lines = [_HEADER.format(version=version, caught=caught, number=len(wrong))]
    for part in dict.fromkeys(one.change.part for one in wrong):
        lines += [f"## Bugs in {part}\n", *_table([one for one in wrong if one.change.part == part], trials), ""]
    return "\n".join(lines)


def table(wrong: Sequence[WrongKubelet], trials: Mapping[str, Trial]) -> list[str]:
    """The results for a terminal, one line each, and their number."""
    width = max((len(one.name) for one in wrong), default=0)
    rows = [f"{one.name:{width}}  {_result(trials[one.name])}" for one in wrong]
    caught = sum(trial.outcome == "caught" for trial in trials.values())
    return [*rows, f"caught {caught} of {len(wrong)}"]


def _table(wrong: Sequence[WrongKubelet], trials: Mapping[str, Trial]) -> list[str]:
    head = ["| wrong kubelet | bug | file in `pkg/kubelet` | result |", "| --- | --- | --- | --- |"]
    rows = ((one, trials[one.name]) for one in wrong)
    return head + [
        f"| `{one.name}` | {one.change.does} | `{one.change.path.removeprefix('pkg/kubelet/')}` | {_result(trial)} |"
        for one, trial in rows
    ]


def _result(trial: Trial) -> str:
    if trial.outcome != "caught":
        return f"{trial.outcome}: {trial.reason}" if trial.reason else trial.outcome
    broken = ", ".join(trial.requirements)
    return f"caught by “{trial.scenario.replace('_', ' ')}”" + (f" ({broken})" if broken else "")


_HEADER = """\
# Wrong kubelets

The scenarios must detect bugs of real kubelets. Wrong kubelets test this. A wrong kubelet is the kubelet of Kubernetes
{version} with one bug: a change of one file in `pkg/kubelet`.

`ci/mutants/check-wrong-kubelets` builds each wrong kubelet, and runs the scenarios that must find its bug. A bug is
*caught* if one of these scenarios fails on the wrong kubelet, but does not fail on the unchanged kubelet. A failure
with a known issue of {version} does not count. The column `result` names the scenario that caught the bug, and the
violated requirements.

Caught bugs: {caught} of {number}.
"""

FOLDER = ROOT / "ci" / "mutants" / "wrong-kubelets"
RESULTS = ROOT / "ci" / "mutants" / "wrong-kubelets.json"


def main() -> int:
    options = _parser().parse_args()
    try:
        every = read_wrong_kubelets(FOLDER)
        wanted = _chosen(every, options.names)
        root = default_root() / "wrong-kubelets" / f"v{DEFAULT_VERSION}"
        builds = KubeletBuilds(root, DEFAULT_VERSION, _progress, _notify)
        builds.keep_only(every)
        trials = _try_all(wanted, builds, options)
    except HandMutantError as error:
        sys.stderr.write(f"ci/mutants/check-wrong-kubelets: {error}\n")
        return 2
    except HarnessError as error:
        sys.stderr.write(f"ci/mutants/check-wrong-kubelets: {error}\n")
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: built kubelets are kept\n")
        return 130
    sys.stdout.write("\n".join(table(wanted, trials)) + "\n")
    found = {trial.outcome for trial in trials.values()}
    if options.write and not options.names and found <= {"caught", "survived"}:
        results = {
            name: {key: value for key, value in asdict(trial).items() if value} for name, trial in trials.items()
        }
        RESULTS.write_text(json.dumps({"version": DEFAULT_VERSION, "results": results}, indent=1) + "\n")
    return 3 if found - {"caught", "survived"} else int(found != {"caught"})


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="ci/mutants/check-wrong-kubelets", description=__doc__, formatter_class=layout
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these wrong kubelets")
    parser.add_argument("--all", action="store_true", help="run all scenarios on each, not only those that must fail")
    parser.add_argument("-n", dest="nodes", type=int, default=2, metavar="N", help="nodes side by side, 2 by default")
    parser.add_argument("--write", action="store_true", help="write ci/mutants/wrong-kubelets.json")
    return parser


def _chosen(every: Sequence[WrongKubelet], names: Sequence[str]) -> list[WrongKubelet]:
    known = [wrong.name for wrong in every]
    if unknown := [name for name in names if name not in known]:
        raise HandMutantError(f"unknown wrong kubelet {unknown[0]!r}; valid: {', '.join(known)}")
    return [wrong for wrong in every if not names or wrong.name in names]


def _try_all(wanted: Sequence[WrongKubelet], builds: KubeletBuilds, options: argparse.Namespace) -> dict[str, Trial]:
    """The result of each wrong kubelet, by name. Raises HarnessError if a scenario fails on the right kubelet."""
    names = sorted({name for wrong in wanted for name in wrong.scenarios})
    report, output = _play(() if options.all else names, None, options.nodes)
    right = outcomes(report) if report else {}
    if missing := [name for name in names if right.get(name) not in ("passed", "known issue")]:
        sys.stderr.write(output)
        state = right.get(missing[0], "no such scenario")
        raise HarnessError(f"the scenario {missing[0]} must pass on the right kubelet, got: {state}")
    trials: dict[str, Trial] = {}
    for wrong in wanted:
        since = time.monotonic()
        trials[wrong.name] = trial = _try(wrong, right, builds, options)
        by = f" by {trial.scenario}" if trial.scenario else ""
        reason = f": {trial.reason}" if trial.reason else ""
        sys.stdout.write(f"{time.monotonic() - since:6.0f} s  {trial.outcome}{by}: {wrong.name}{reason}\n")
        sys.stdout.flush()
    return trials


def _try(wrong: WrongKubelet, right: Mapping[str, str], builds: KubeletBuilds, options: argparse.Namespace) -> Trial:
    try:
        kubelet = builds.build(wrong)
    except DoesNotApplyError as error:
        return Trial(wrong.name, "does not apply", reason=str(error))
    except GoFailed as error:
        return Trial(wrong.name, "not compiled", reason=str(error))
    report, output = _play(() if options.all else wrong.scenarios, kubelet, options.nodes)
    return judge(wrong, right, report, output)


def _play(scenarios: Sequence[str], kubelet: Path | None, nodes: int) -> tuple[dict[str, Any] | None, str]:
    """The report of a run of these scenarios, of all if there are none named, and its output."""
    with tempfile.TemporaryDirectory(prefix="drahealth-wrong-kubelet-") as folder:
        report = Path(folder) / "report.json"
        words = ["suites/kep", "-q", "-n", str(nodes), "-p", "no:cacheprovider", "--drahealth-target", "kubelet"]
        words += [f"--drahealth-kubernetes={DEFAULT_VERSION}", f"--drahealth-report={report}"]
        words += [f"--drahealth-kubelet={kubelet}"] if kubelet else []
        words += ["-k", " or ".join(f"test_{name}" for name in scenarios)] if scenarios else []
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return json.loads(report.read_text()) if report.exists() else None, done.stdout + done.stderr


def _progress(stage: str, done: int | None = None, total: int | None = None) -> None:
    """Shows the stage in place, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{stage}")


def _notify(line: str) -> None:
    """Writes a line, in place of the stage that a terminal shows."""
    sys.stderr.write("\r\033[K" * sys.stderr.isatty() + f"ci/mutants/check-wrong-kubelets {line}\n")


if __name__ == "__main__":
    sys.exit(main())
