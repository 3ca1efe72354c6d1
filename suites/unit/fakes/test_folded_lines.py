"""Lines on terminals of different widths."""

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from drahealth.fakes.program.console import print_line

SENTENCE = "  PASS  a device that its driver never reported shows unknown in the status of its Pod  STATUS-16"
LINK = "  link  https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"


def printed(line: str, width: int, *, terminal: bool = True) -> list[str]:
    out = StringIO()
    print_line(Console(file=out, width=width, force_terminal=terminal, color_system=None), Text(line))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 30])
def test_a_narrow_terminal_folds_at_words_and_indents_what_follows(width: int) -> None:
    first, *others = printed(SENTENCE, width)
    assert max(map(len, (first, *others))) <= width
    assert (first[:8], {line[:6] for line in others}) == ("  PASS  ", {" " * 6})
    assert " ".join(map(str.strip, (first, *others))).split() == SENTENCE.split()


@pytest.mark.parametrize(
    ("line", "width", "terminal"), [(SENTENCE, 100, True), (SENTENCE, 50, False), (LINK, 50, True)]
)
def test_other_lines_stay_whole(line: str, width: int, terminal: bool) -> None:
    assert printed(line, width, terminal=terminal) == [line]
