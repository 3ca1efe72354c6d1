"""Which lines of an output explain the end of a program."""

import pytest

from drahealth.suites.driver_checks.output_text import cause_in, output_text

GO_FLAG = ("flag provided but not defined: -nod", "Usage of ./driver:", "  -node-name string", "    name of the node")
GO_PANIC = ("I1122 starting", "panic: runtime error: index out of range", "", "goroutine 1 [running]:", "main.main()")
PYTHON = ("starting", "Traceback (most recent call last):", '  File "error.py", line 1', "ValueError: no device")


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (GO_FLAG, GO_FLAG[0]),
        (GO_PANIC, GO_PANIC[1]),
        (PYTHON, PYTHON[-1]),
        (("E1122 cannot open /dev/gpu: permission denied", "bye"), "E1122 cannot open /dev/gpu: permission denied"),
        (("starting", "bye"), ""),
        ((), ""),
    ],
)
def test_cause_is_the_first_line_that_looks_like_one(output: tuple[str, ...], cause: str) -> None:
    assert cause_in(output) == cause


def test_text_has_the_cause_and_the_last_line_once() -> None:
    assert output_text(GO_FLAG) == f"; its output: {GO_FLAG[0]}; its last line of output: {GO_FLAG[-1]}"
    assert output_text(PYTHON) == f"; its last line of output: {PYTHON[-1]}"
    assert output_text(()) == ""
