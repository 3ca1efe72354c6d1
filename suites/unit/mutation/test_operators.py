"""The operators that change the reference."""

import ast
import copy
from collections.abc import Iterator

import pytest

from mutation.hand import ROOT, changed_modules
from mutation.operators import OPERATORS, mutated, mutations, sample


def changes(source: str) -> list[tuple[str, str, str]]:
    return [(one.operator, one.before, one.after) for one in mutations("m.py", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a == b", ("comparison", "a == b", "a != b")),
        ("a < b", ("comparison", "a < b", "a <= b")),
        ("a and b", ("connective", "a and b", "a or b")),
        ("a + b", ("arithmetic", "a + b", "a - b")),
        ("x = not a", ("negation", "not a", "a")),
        ("x = True", ("constant", "True", "False")),
        ("x = 5", ("constant", "5", "6")),
        ("x = 0.5", ("constant", "0.5", "5.0")),
        ("x = 0.0", ("constant", "0.0", "1.0")),
        ("x = min(a)", ("function", "min", "max")),
        ("if a: b", ("condition", "a", "not a")),
        ("self.x = a", ("statement", "self.x = a", "pass")),
        ("f()", ("statement", "f()", "pass")),
        ("while a: break", ("jump", "break", "pass")),
    ],
)
def test_each_operator_makes_one_change(source: str, expected: tuple[str, str, str]) -> None:
    assert changes(source) == [expected]


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "log.info('x', 1)",
        "self._observe(E(1))",
        "raise ValueError(1)",
        "assert a == 1",
        "import a",
        "def _observe_report(self):\n    f(1)",
        "def f(a: int = 1) -> None: ...",
        "def __str__(self):\n    return 1 + 1",
        "if self._observe is not ignore:\n    f(1)",
        "x = f'{1 + 1}'",
        "x = 'a' + b",
        "self._complaint = a == b",
        "if why != self._last_problem: pass",
        "x: A | None = a",
    ],
)
def test_code_unrelated_to_kubelet_behaviour_is_not_changed(source: str) -> None:
    assert changes(source) == []


def test_a_changed_module_has_only_the_change() -> None:
    source = "def f(a, b):\n    if a == b:\n        return a + 1\n"
    found = [ast.unparse(mutated("m.py", source, one.index)) for one in mutations("m.py", source)]
    assert found == [
        "def f(a, b):\n    if a != b:\n        return a + 1",
        "def f(a, b):\n    if a == b:\n        return a - 1",
        "def f(a, b):\n    if a == b:\n        return a + 2",
    ]


def test_a_change_is_named_by_its_function() -> None:
    source = "class A:\n    async def f(self):\n        self.x = a\n"
    assert [one.key for one in mutations("m.py", source)] == ["m.py A.f: self.x = a -> pass"]


def statements(source: str) -> Iterator[str]:
    """The statements of a module, and those of its classes, each without the others: so a change compiles fast."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                alone = copy.copy(statement)
                alone.body = [inner]
                yield ast.unparse(alone)
        else:
            yield ast.unparse(statement)


@pytest.mark.parametrize("path", changed_modules())
def test_each_change_of_the_reference_compiles(path: str) -> None:
    source, compiled = (ROOT / path).read_text(), 0
    for statement in statements(source):
        for one in mutations(path, statement):
            compile(mutated(path, statement, one.index), path, "exec")
            compiled += 1
    assert compiled == len(mutations(path, source))


def test_each_operator_changes_the_reference() -> None:
    found = {one.operator for path in changed_modules() for one in mutations(path, (ROOT / path).read_text())}
    assert found == OPERATORS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "if a:\n    log.info('x')",
        "if self._logs:\n    self._observe_call(f(1))\nelse:\n    log.info('y')",
        "wrong.append(f(1))",
        "GATHERING = 0.5",
        "x = f(time.perf_counter() - y)",
        "pause = min(pause * 2, b)",
        "x = f(y, debounce=50)",
        "def abandon(self):\n    f()",
        "def turned(a):\n    f()",
        "self._is_abandoned = a",
        "class HealthFile:\n    def close(self):\n        f()",
        "x = clock.sleep(2.0)",
    ],
)
def test_changes_that_a_rule_leaves_out_are_not_made(source: str) -> None:
    assert changes(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "if self._profile.pod_level:\n    f(a < b)\nelse:\n    f(1)",
            ["self._profile.pod_level", "f(a < b)", "a < b"],
        ),
        ("x = 1 if profile.watches == 'all' else 2", ["profile.watches == 'all'", "2"]),
        ("x = self.profile.pod_level or f(1)", ["self.profile.pod_level or f(1)"]),
        ("x = profile.pod_level and f(1)", ["profile.pod_level and f(1)", "1"]),
        ("x = not profile.pod_level and f(1)", ["not profile.pod_level and f(1)", "not profile.pod_level"]),
        ("x = self.rules.has_pod_field or f(1)", ["self.rules.has_pod_field or f(1)"]),
        ("x = profile.unheard_of and f(1)", ["profile.unheard_of and f(1)", "1"]),
        ("if a or profile.pod_level:\n    x = 1\nelse:\n    x = 2", ["a or profile.pod_level", "1"]),
    ],
)
def test_code_that_only_releases_run_is_left_out(source: str, expected: list[str]) -> None:
    assert list(dict.fromkeys(before for _, before, _ in changes(source))) == expected


@pytest.mark.parametrize(
    "source",
    [
        "if a == b:\n    log.info('x')\n    f(a)",
        "if a == b:\n    raise A",
        "if a == b:\n    x = f(a)",
    ],
)
def test_a_condition_that_does_more_than_log_is_changed(source: str) -> None:
    assert ("comparison", "a == b", "a != b") in changes(source)


def test_equal_changes_of_a_function_have_names_of_their_own() -> None:
    assert [one.key for one in mutations("m.py", "f(a)\nf(a)")] == ["m.py : f(a) -> pass", "m.py : f(a) -> pass #2"]


def test_a_sample_keeps_its_changes_when_the_code_grows() -> None:
    before, after = (mutations("m.py", "\n".join(f"f{i}()" for i in range(number))) for number in (50, 51))
    chosen, later = ({one.key for one in sample(every, 10, seed=1)} for every in (before, after))
    assert len(chosen & later) >= 9
    assert chosen != {one.key for one in sample(before, 10, seed=2)}
