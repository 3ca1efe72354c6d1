"""The requirement that a scenario checks at the moment, and the known issues of the release."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from drahealth.suites.judging.ledger import KnownIssue, known_issues
from drahealth.suites.judging.violation import STEP_FAILED, Violation


class RequirementChecks:
    """Checks of a scenario. A failure counts for the requirement of the current `judging` block.

    Outside of a block it counts for the first requirement of the scenario. `log` adds a line to the history.
    """

    def __init__(self, profile: str, title: str, requirements: Sequence[str], log: Callable[[str], None]) -> None:
        self.requirement, self._assertion = (requirements[0] if requirements else ""), STEP_FAILED
        self.deviations: list[KnownIssue] = []
        self.stale: list[KnownIssue] = []
        """Known issues with `happens = "always"` that did not happen."""
        self._profile = profile
        self._title = title
        self._log = log

    @contextmanager
    def judging(self, requirement: str, assertion: str) -> Iterator[None]:
        """A failure in this block counts for this requirement. After a known issue the scenario continues."""
        before, (self.requirement, self._assertion) = (self.requirement, self._assertion), (requirement, assertion)
        issue = next((i for i in known_issues(self._profile) if i.covers(requirement, assertion, self._title)), None)
        try:
            yield
            if issue and issue.happens == "always":
                self.stale.append(issue)
        except Violation as violation:
            if issue is None or (violation.requirement, violation.assertion) != (requirement, assertion):
                raise
            self._log(f"known issue {issue.id}: {issue.what}")
            self.deviations.append(issue)
        finally:
            self.requirement, self._assertion = before

    def check(self, true: bool, expected: str, seen: object) -> None:
        """Raises Violation if the condition is false."""
        if not true:
            raise Violation(self.requirement, self._assertion, expected, str(seen))
