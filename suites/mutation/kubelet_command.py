"""Builds real kubelets with one bug each, and runs scenarios on them: do the scenarios notice the bug?

    ci/check-wrong-kubelets [NAME ...] [--all] [--write] [-n N]

The bugs are in ci/wrong-kubelets. Each is a change of one source file of Kubernetes, with the scenarios that must fail.
The built kubelets are kept outside of the checkout, beside the kubelets of releases, and never in place of one.
It needs Go, and what a real kubelet needs: see `drahealth doctor --target kubelet`.

NAME selects wrong kubelets. --all runs all scenarios on each, which takes 4 minutes for each kubelet. --write writes
docs/wrong-kubelets.md. Exits 1 if a wrong kubelet is not caught, 2 for a wrong name or file, and 3 if one cannot be
built or judged.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drahealth.suites.errors import HarnessError
from drahealth.suites.mutation.hand import DoesNotApplyError, HandMutantError
from drahealth.suites.mutation.kubelet_builds import KubeletBuilds
from drahealth.suites.mutation.kubelet_page import page, table
from drahealth.suites.mutation.modules import ROOT
from drahealth.suites.mutation.running import Trial
from drahealth.suites.mutation.wrong_kubelets import WrongKubelet, judge, outcomes, read_wrong_kubelets
from drahealth.suites.targets.cache import default_root
from drahealth.suites.targets.kubelet.binaries.build import GoFailed
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION

FOLDER = ROOT / "ci" / "wrong-kubelets"
PAGE = ROOT / "docs" / "wrong-kubelets.md"


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
        sys.stderr.write(f"ci/check-wrong-kubelets: {error}\n")
        return 2
    except HarnessError as error:
        sys.stderr.write(f"ci/check-wrong-kubelets: {error}\n")
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: built kubelets are kept\n")
        return 130
    sys.stdout.write("\n".join(table(wanted, trials)) + "\n")
    found = {trial.outcome for trial in trials.values()}
    if options.write and not options.names and found <= {"caught", "survived"}:
        PAGE.write_text(page(wanted, trials, DEFAULT_VERSION))
    return 3 if found - {"caught", "survived"} else int(found != {"caught"})


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="ci/check-wrong-kubelets", description=__doc__, formatter_class=layout)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these wrong kubelets")
    parser.add_argument("--all", action="store_true", help="run all scenarios on each, not only those that must fail")
    parser.add_argument("-n", dest="nodes", type=int, default=2, metavar="N", help="nodes side by side, 2 by default")
    parser.add_argument("--write", action="store_true", help="write docs/wrong-kubelets.md")
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
    sys.stderr.write("\r\033[K" * sys.stderr.isatty() + f"ci/check-wrong-kubelets {line}\n")


if __name__ == "__main__":
    sys.exit(main())
