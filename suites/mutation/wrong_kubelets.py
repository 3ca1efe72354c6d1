"""Wrong kubelets: a real kubelet with one bug each, and what its scenarios say of it.

Each is data: a file in `ci/wrong-kubelets` has those of one part of a kubelet's work. Pure, except for
`read_wrong_kubelets`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.suites.mutation.hand import HandMutant, HandMutantError, part_and_entries
from drahealth.suites.mutation.running import Trial

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
