"""docs/wrong-kubelets.md: which scenarios notice the bugs of real kubelets. Pure."""

from collections.abc import Mapping, Sequence

from drahealth.suites.mutation.running import Trial
from drahealth.suites.mutation.wrong_kubelets import WrongKubelet


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

<!-- written by ci/check-wrong-kubelets --write from ci/wrong-kubelets; change those files -->

The scenarios must detect bugs of real kubelets. Wrong kubelets test this. A wrong kubelet is the kubelet of Kubernetes
{version} with one bug: a change of one file in `pkg/kubelet`. [mutants.md](mutants.md) has a similar test with changed
copies of the reference.

`ci/check-wrong-kubelets` builds each wrong kubelet, and runs the scenarios that must detect its bug. A bug is *caught*
if one of these scenarios fails on the wrong kubelet, but does not fail on the unchanged kubelet. A failure with a known
issue of {version} does not count. The column `result` names the scenario that caught the bug, and the violated
requirements.

Caught bugs: {caught} of {number}.
"""
