"""`drahealth explain ID --reproduce`: a directory that shows a known issue, with a bug report for Kubernetes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import KnownIssue, Quote, every_known_issue, quotes, requirements
from drahealth.suites.judging.reproductions import Reproduction, reproductions, unreported
from drahealth.suites.run.scenario import source_of

SCRIPT, REPORT, SCENARIO, HISTORY = "reproduce.sh", "bug-report.md", "scenario.py", "history.txt"
"""The files of a reproduction. The report has the form of the bug report of kubernetes/kubernetes."""
_TREE = "https://github.com/kubernetes/kubernetes/blob"
_LONGEST = 3000
"""Characters of the longest observed value in the report."""


def write(names: Sequence[str], parent: Path) -> list[Path]:
    """Writes a directory for each known issue below `parent`, and returns them.

    Raises ConfigurationError for an ID without a reproduction, or if a directory has other files.
    """
    made = {name: files_of(name) for name in dict.fromkeys(name.upper() for name in names)}
    for name, files in made.items():
        folder = parent / name
        try:
            if other := [path.name for path in folder.iterdir() if path.name not in files] if folder.exists() else []:
                raise ConfigurationError(f"{folder} has other files, such as {other[0]}", "pass another --out")
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
            (folder / SCRIPT).chmod(0o755)
        except OSError as error:
            raise ConfigurationError(f"cannot write to {folder}: {error.strerror}", "pass another --out") from None
    return [parent / name for name in made]


def files_of(name: str) -> dict[str, str]:
    """The files of a reproduction. Pure. Raises ConfigurationError for an ID without one."""
    issues, found = unreported().get(name), reproductions().get(name)
    if issues is None or found is None:
        known = [issue for issue in every_known_issue() if issue.id == name]
        if known and known[0].threads:
            raise ConfigurationError(f"{name} has a report upstream: {known[0].threads[0]}", "see that thread")
        raise ConfigurationError(
            f"{name} is no known issue of kubelets, so there is nothing to reproduce",
            f"the known issues without a report upstream are {', '.join(unreported())}",
        )
    files = {
        SCRIPT: _script(name, found),
        REPORT: "\n".join(_report(name, issues, found)),
        SCENARIO: f'"""The scenario {found.scenario}, as drahealth plays it."""\n\n{source_of(found.scenario)}',
    }
    return {**files, HISTORY: found.history + "\n"} if found.history else files


def _script(name: str, found: Reproduction) -> str:
    return f"""\
#!/bin/sh
# Shows {name} on a real kubelet, API server, scheduler and etcd, as processes of this user. Containers and devices are
# fake. Needs drahealth, Linux with user namespaces or root, and a network for the first run.
#
#   ./reproduce.sh                                  on Kubernetes {found.release}
#   KUBELET=_output/bin/kubelet ./reproduce.sh      on your build; KUBERNETES selects its control plane
#
# It prints the expected and the observed status. Exit codes: 1 the kubelet has the issue, 0 it does not, 3 no result.
KUBERNETES=${{KUBERNETES:-{found.release}}}
exec ${{DRAHEALTH:-drahealth}} run --target kubelet --kubernetes "$KUBERNETES" ${{KUBELET:+--kubelet "$KUBELET"}} \\
  --fixed {name} -k {quote(found.scenario)} "$@"
"""


def _report(name: str, issues: Sequence[KnownIssue], found: Reproduction) -> Iterator[str]:
    """The lines of the report, with the headings of the template of kubernetes/kubernetes."""
    violated = dict.fromkeys(check.requirement for check in found.checks) or dict.fromkeys(
        one.requirement for one in issues
    )
    mine = [one for one in issues if one.requirement in violated]
    yield "### What happened?\n"
    yield from dict.fromkeys(one.what for one in mine)
    if conditions := [one for one in dict.fromkeys(one.settings for one in mine) if one != "none"]:
        yield f"\nIt happens with: {'; '.join(conditions)}."
    yield f"\nReleases with it: {'; '.join(dict.fromkeys(one.releases_text for one in mine))}."
    if found.checks:
        yield f"\nObserved with Kubernetes {found.release} (`entry [resourceID=health 'message']`):\n"
        yield _block([check.seen for check in found.checks])
    yield "\n### What did you expect to happen?\n"
    for requirement in violated:
        yield requirements()[requirement].sentence
        yield from (f"- {_cited(one)}" for one in quotes(requirement, found.scenario)[:2])
    if found.checks:
        yield "\nExpected:\n"
        yield _block([check.expected for check in found.checks])
    yield "\n### How can we reproduce it (as minimally and precisely as possible)?\n"
    yield f"`./{SCRIPT}` plays one scenario of drahealth on a real kubelet {found.release}, with a fake DRA driver or"
    yield "device plugin. It needs no cluster, GPU or root permissions. It exits with 1 if the kubelet has the issue."
    yield f"`KUBELET=FILE ./{SCRIPT}` plays it on another build.\n"
    yield "```python"
    yield source_of(found.scenario).rstrip()
    yield "```"
    if found.history:
        yield f"\n`{HISTORY}` has all events of this run.\n"
    yield "\n### Anything else we need to know?\n"
    yield from (f"- Source: {_source(one, found)}" for one in _by_source(mine))
    yield f"- drahealth lists it as known issue {name}, a violation of {', '.join(violated)}."
    yield f"\n### Kubernetes version\n\nv{found.release} of kubelet, API server, scheduler and controller manager"
    yield "\n### Cloud provider\n\nnone: the programs run on one machine"
    yield f"\n### OS version\n\n{found.system or 'Linux'}"
    ran = f" {found.drahealth}, run of {found.started}" if found.started else ""
    yield f"\n### Install tools\n\ndrahealth{ran}"
    yield "\n### Container runtime (CRI) and version (if applicable)\n\nthe fake container runtime of drahealth"
    yield "\n### Related plugins (CNI, CSI, ...) and versions (if applicable)\n\nthe fake drivers of drahealth\n"


def _block(texts: Sequence[str]) -> str:
    text = "\n".join(dict.fromkeys(texts))
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return f"````text\n{shown}\n````"


def _cited(quote: Quote) -> str:
    return f"{quote} {quote.link}".rstrip()


def _by_source(issues: Sequence[KnownIssue]) -> Iterator[KnownIssue]:
    """One entry for each source."""
    return iter({one.link: one for one in issues}.values())


def _source(issue: KnownIssue, found: Reproduction) -> str:
    """The source in the release that showed the issue, with its lines if they are known."""
    path, _, rest = issue.link.partition(", ")
    if "://" in path:
        return issue.link
    lines = found.lines.get(issue.link)
    where = f"#L{lines[0]}-L{lines[1]}" if lines else ""
    return f"{_TREE}/v{found.release}/{path}{where}" + (f" ({rest})" if rest else "")
