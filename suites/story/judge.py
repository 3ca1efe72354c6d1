"""What a story is judged by while it is told: the requirement at stake, and the known issues of the release."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from drahealth.suites.judging.ledger import KnownIssue, known_issues
from drahealth.suites.judging.violation import STORY, Violation


class Judge:
    """What fails, fails for the requirement at stake: the first of the scenario's own, or that of a block.

    `tell` takes a line for the story's time line.
    """

    def __init__(self, profile: str, title: str, judges: Sequence[str], tell: Callable[[str], None]) -> None:
        self.requirement, self._assertion = (judges[0] if judges else ""), STORY
        self.deviations: list[KnownIssue] = []
        self.stale: list[KnownIssue] = []
        """Known issues that always happen and did not."""
        self._profile = profile
        self._title = title
        self._tell = tell

    @contextmanager
    def judging(self, requirement: str, assertion: str) -> Iterator[None]:
        """What fails in here fails for this requirement; where that is a known issue the story goes on."""
        before, (self.requirement, self._assertion) = (self.requirement, self._assertion), (requirement, assertion)
        issue = next((i for i in known_issues(self._profile) if i.covers(requirement, assertion, self._title)), None)
        try:
            yield
            if issue and issue.happens == "always":
                self.stale.append(issue)
        except Violation as violation:
            if issue is None or (violation.requirement, violation.assertion) != (requirement, assertion):
                raise
            self._tell(f"known issue {issue.id}: {issue.what}")
            self.deviations.append(issue)
        finally:
            self.requirement, self._assertion = before

    def check(self, true: bool, expected: str, seen: object) -> None:
        """Raises Violation if it is not so."""
        if not true:
            raise Violation(self.requirement, self._assertion, expected, str(seen))
