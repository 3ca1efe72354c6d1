"""A violation: the subject did not do what a requirement asks. The subject's fault, never the harness'."""

STORY = "the story"
"""The assertion of what stands in no `judging` block: it may break any requirement that its scenario judges."""


class Violation(AssertionError):
    """What was expected, what was seen, and which requirement says so.

    `assertion` names the place in the scenario in words, so that a known issue can cover just this one.
    """

    where = ""
    """Of a timeline: the step that came to nothing, with its file and line."""

    def __init__(self, requirement: str, assertion: str, expected: str, seen: str) -> None:
        super().__init__(requirement, assertion, expected, seen)
        self.requirement = requirement
        self.assertion = assertion
        self.expected = expected
        self.seen = seen

    def __str__(self) -> str:
        expected = f"{self.where}: {self.expected}" if self.where else self.expected
        return f"{self.requirement}: {self.assertion}\n  expected: {expected}\n  seen:     {self.seen}"
