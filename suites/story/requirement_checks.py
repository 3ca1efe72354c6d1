"""The requirement that a scenario checks at the moment, and the known issues of the release."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from drahealth.suites.judging.ledger import KnownIssue, known_issues
from drahealth.suites.judging.status_content import Sought
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
        issue = self._issue(requirement, assertion)
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

    @property
    def is_known(self) -> bool:
        """Whether a failure now is a known issue of the release."""
        return self._issue(self.requirement, self._assertion) is not None

    def check(self, true: bool, expected: str, seen: object, sought: Sought | None = None) -> None:
        """Raises Violation if the condition is false."""
        if not true:
            violation = Violation(self.requirement, self._assertion, expected, str(seen))
            violation.sought = sought
            raise violation

    def _issue(self, requirement: str, assertion: str) -> KnownIssue | None:
        return next((i for i in known_issues(self._profile) if i.covers(requirement, assertion, self._title)), None)
