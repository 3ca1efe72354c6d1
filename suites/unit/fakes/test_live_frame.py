"""The frame of a live view, on an emulated terminal."""

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyte
import pytest
from rich.console import Console
from rich.text import Text

from drahealth.fakes.program.live_frame import LogAbove, live_frame

ROWS = 12


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> "Terminal":
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


class Terminal:
    """A terminal, and a frame on it that shows the text `view`."""

    def __init__(self) -> None:
        self.view = "a\nb"
        self._out = io.StringIO()
        self._console = Console(file=self._out, force_terminal=True, width=60, height=ROWS, color_system=None)
        self._screen = pyte.Screen(60, ROWS)
        self._handler = LogAbove(self._console)

    @contextmanager
    def frame(self) -> Iterator[Callable[[], None]]:
        """The function that refreshes the frame."""
        with live_frame(self._console, lambda: Text(self.view), self._handler) as refresh:
            refresh()
            yield refresh

    def log(self, text: str) -> None:
        self._handler.handle(logging.LogRecord("test", logging.WARNING, "test.py", 1, text, None, None))

    def become(self, columns: int, rows: list[str]) -> None:
        """Changes the width. The terminal then shows these rows."""
        self._screen = pyte.Screen(columns, ROWS)
        self._out.seek(0)
        self._out.truncate()
        self._out.write("\n".join(rows))
        self._console.width = columns

    def rows(self) -> list[str]:
        """The rows that are not empty, without the time and the level of log lines."""
        pyte.Stream(self._screen).feed(self._out.getvalue().replace("\n", "\r\n"))
        self._out.seek(0)
        self._out.truncate()
        return [row.partition("WARNING")[2].strip() or row.strip() for row in self._screen.display if row.strip()]


@pytest.mark.parametrize("view", ["c", "c\nd\ne\nf"])
def test_log_lines_are_above_a_frame_that_changes_its_height(terminal: Terminal, view: str) -> None:
    with terminal.frame() as refresh:
        terminal.log("first")
        terminal.view = view
        refresh()
        terminal.log("second")
        assert terminal.rows() == ["first", "second", *view.split()]


@pytest.mark.parametrize("columns", [50, 100])
def test_after_a_change_of_the_size_no_stale_row_is_left(terminal: Terminal, columns: int) -> None:
    with terminal.frame() as refresh:
        terminal.log("first")
        terminal.log("second")
        terminal.become(columns, ["first", "second", "a", "which the terminal has wrapped", "b", "also wrapped"])
        refresh()
        terminal.log("third")
        assert terminal.rows() == ["first", "second", "third", "a", "b"]


def test_resized_frame_fills_the_terminal_with_log_lines(terminal: Terminal) -> None:
    with terminal.frame() as refresh:
        for number in range(100):
            terminal.log(str(number))
        terminal.become(50, [])
        refresh()
        assert terminal.rows() == [*map(str, range(90, 100)), "a", "b"]
