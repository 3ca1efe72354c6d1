"""A violation of a requirement by the tested kubelet or driver. Harness errors are no violations."""

STEP_FAILED = "a step failed"
"""The assertion of a check outside of all `judging` blocks."""


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

    def __str__(self) -> str:
        expected = f"{self.where}: {self.expected}" if self.where else self.expected
        return f"{self.requirement}: {self.assertion}\n  expected: {expected}\n  seen:     {self.seen}"
