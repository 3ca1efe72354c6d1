"""docs/reference/known-issues.md: where released kubelets differ, from known_issues.toml and results."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from drahealth.suites.judging.ledger import KnownIssue, every_known_issue

REAL = "a real kubelet, Kubernetes "
"""Begins the name of each column of results of real kubelets."""
Results = Mapping[str, Mapping[str, Sequence[str]]]
"""docs/reference/results.json: by target and scenario, the outcome and the ids of the shown known issues."""
INTRODUCTION = """\
A known issue is a difference between a release of Kubernetes and a requirement. Its id is the id of a fact in
[facts.md](../facts.md). An issue can violate several requirements. Each row of its tables is one violation.
This page has only the violations that a scenario shows; facts.md names more.

A row names an assertion that fails in a scenario. If the row also names a scenario, it applies only to this scenario.
The column `fails` has one of these values:

- `always`: on the releases of the row, this assertion must fail in each scenario that contains it and can run there. If
  the assertion holds, the run fails, and the row must be corrected.
- `sometimes`: the assertion can hold or fail.

“Fixed in next” means that a fix is an open pull request of Kubernetes, so that no release has it. The profile `next`
of the reference has all these fixes.

The rows also apply to the reference with the profile of the release. The text of an issue and the column `condition`
name the exceptions.

The assertion “holds throughout” belongs to an invariant: a requirement that drahealth checks on the history of every
scenario. The assertion fails if the requirement is violated at any time in the scenario. “The pod's own field” is
`allocatedResourcesStatus` of the Pod status itself. The KEP defines this field, but no release has it.

A source that starts with `pkg/` or `staging/` is a path in the repository kubernetes/kubernetes.

The command after “To see it” runs a scenario that showed the issue in the published results
([releases.md](releases.md)).

The command after “To report it” writes a directory that shows the issue on a real kubelet, with a bug report for
Kubernetes ([kubelets.md](../kubelets.md#report-a-known-issue-to-kubernetes)). Issues with threads have a report.
"""


def known_issues_page(note: str, results: Results) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note, results))


def _parts(note: str, results: Results) -> Iterator[str]:
    yield f"# Known issues of released kubelets\n\n{note}{INTRODUCTION}"
    issues = every_known_issue()
    for id_ in dict.fromkeys(issue.id for issue in issues):
        yield f"\n## {id_}\n"
        mine = [issue for issue in issues if issue.id == id_]
        for what in dict.fromkeys(issue.what for issue in mine):
            yield f"\n{what}\n\n| requirement | failed assertion | releases | fails | condition | source |\n"
            yield "| --- " * 6 + "|\n"
            yield from (_row(issue) for issue in mine if issue.what == what)
        if threads := mine[0].threads:
            yield f"\nThreads: {', '.join(f'[#{Path(link).name}]({link})' for link in threads)}\n"
        yield f"\nTo see it: {_command(id_, results)}\n"
        if not mine[0].threads:
            yield f"\nTo report it: `drahealth explain {id_} --reproduce`\n"


def _row(issue: KnownIssue) -> str:
    condition = "" if issue.settings == "none" else issue.settings
    assertion = f"“{issue.assertion}”" + (f", in “{issue.scenario}”" if issue.scenario else "")
    cells = (issue.requirement, assertion, issue.releases_text, issue.happens, condition, issue.link)
    return f"| {' | '.join(cells)} |\n"


def _command(id_: str, results: Results) -> str:
    """A run of one scenario, on the newest release that showed the issue; of a scenario with few other issues."""
    found = [
        (len(others), release, scenario)
        for target, outcomes in results.items()
        if target.startswith(REAL)
        for release in [target.removeprefix(REAL)]
        for scenario, (_, *others) in outcomes.items()
        if id_ in others
    ]
    if not found:
        return "no published result shows it."
    newest = max((release for _, release, _ in found), key=lambda release: [*map(int, release.split("."))])
    _, _, scenario = min(one for one in found if one[1] == newest)
    return f"`drahealth run --target kubelet --kubernetes {newest} -k {scenario.removeprefix('test_')}`"
