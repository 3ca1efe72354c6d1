"""A violation of a requirement by the tested kubelet or driver. Harness errors are no violations."""

from drahealth.suites.judging.status_content import Sought

STEP_FAILED = "a step failed"
"""The assertion of a check outside of all `judging` blocks."""

HOLDS = "holds throughout"
"""The assertion of the invariants of the whole history."""


class StepFailed(AssertionError):
    """A failed step of a timeline, such as an expectation of its author. It violates no requirement."""

    def __init__(self, where: str, what: str, expected: str, seen: str) -> None:
        super().__init__(where, what, expected, seen)
        self.where = where
        """The step, with its file and line."""
        self.sought: Sought | None = None
        """What the step looked for, if it was in a Pod status."""
        self.at = float("inf")
        """When it failed, on the clock of the history."""
        self.what = what
        """What has failed: the expectation of the author, or another step."""
        self.expected = expected
        self.seen = seen

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  expected: {self.expected}\n  seen:     {self.seen}"


class Violation(AssertionError):
    """A failed requirement, with the expected and the observed state.

    `assertion` names the check in the scenario, so that a known issue can cover only this one.
    """

    where = ""
    """For a timeline: the failed step, with its file and line."""

    def __init__(self, requirement: str, assertion: str, expected: str, seen: str) -> None:
        super().__init__(requirement, assertion, expected, seen)
        self.requirement = requirement
        self.assertion = assertion
        self.expected = expected
        self.seen = seen
        self.sought: Sought | None = None
        """What the check looked for, if it was one device, one driver or one pod."""
        self.at = float("inf")
        """When it failed, on the clock of the history."""

    def __str__(self) -> str:
        expected = f"{self.where}: {self.expected}" if self.where else self.expected
        return f"{self.requirement}: {self.assertion}\n  expected: {expected}\n  seen:     {self.seen}"
