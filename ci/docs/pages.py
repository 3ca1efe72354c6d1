"""The commands and the files of a Markdown page, as a reader has them. Pure."""

import re
import textwrap
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby

PROGRAMS = set("docker drahealth export git helm kubectl make pip printf pytest python python3 until".split())  # noqa: SIM905
"""The first words of blocks of commands without prompts. Programs in `ci/` and `.venv/bin/` begin such blocks, too."""

_BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<fenced>(?:.*\n)*?)```$|(?<=\n\n)(?P<indented>(?:    .*\n)+(?:\n+(?:    .*\n)+)*)",
    re.MULTILINE,
)
_FILE = re.compile(r"^`([\w./-]+)`(?:, run by `([^`]+)`)?:$")
_HEREDOC = re.compile(r"<<-?'?(\w+)'?")
_VARYING = re.compile(r"0x[0-9a-f]+|\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,}\b|\d+")


@dataclass(slots=True)
class Command:
    """A command, and the output that the page prints for it."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page shows with its name."""

    line: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Other:
    """A block that is neither: an output, a part of a file, or the syntax of a command."""

    line: int
    text: str


Block = Command | File | Other


def read_page(page: str) -> Iterator[Block]:
    """The content of each block of a page, from top to bottom."""
    for found in _BLOCK.finditer(page):
        before = page[: found.start()].rstrip()
        line = page.count("\n", 0, found.start()) + 1
        text = found["fenced"] if found["fenced"] is not None else textwrap.dedent(found["indented"])
        named = _FILE.match(before[before.rfind("\n") + 1 :])
        if named:
            yield File(line, named[1], text)
            if named[2]:
                yield Command(line, named[2])
        elif text.startswith("$ "):
            yield from _prompts(text, line)
        elif _is_commands(text):
            yield from _lines(text, line)
        else:
            yield Other(line, text)


def sections(page: str, blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks below each heading of level 2, without empty sections."""
    headings = [page.count("\n", 0, found.start()) for found in re.finditer(r"^## ", page, re.MULTILINE)]
    return [list(part) for _, part in groupby(blocks, lambda block: bisect(headings, block.line))]


def shows(printed: Sequence[str], output: Sequence[str]) -> bool:
    """Whether an output has the printed lines, in this order. Numbers, ids and widths can differ.

    `...` in the printed text stands for anything, also for lines.
    """
    rest = iter([_alike(line) for line in output])
    return all(any(fnmatchcase(line, wanted) for line in rest) for wanted in map(_pattern, printed) if wanted != "*")


def _pattern(line: str) -> str:
    escaped = re.sub(r"([][*?])", r"[\1]", _alike(line))
    return escaped.replace("...", "*")


def _alike(line: str) -> str:
    """The line without what varies from run to run."""
    return " ".join(_VARYING.sub("0", re.sub(r"\d+\.\d+", "0", line)).split())


def _is_commands(text: str) -> bool:
    first = text.split(maxsplit=1)[0]
    return (first.removeprefix(".venv/bin/") in PROGRAMS or first.startswith("ci/")) and "[--" not in text


def _lines(text: str, start: int) -> Iterator[Command]:
    """Each line is a command, which `\\` at its end continues."""
    whole: list[str] = []
    for number, line in enumerate(text.splitlines(), start):
        whole.append(line)
        if line and not line.endswith("\\"):
            yield Command(number - len(whole) + 1, "\n".join(whole))
            whole = []


def _prompts(text: str, start: int) -> Iterator[Command]:
    """Each `$ ` begins a command; the lines after it are its output, unless the command goes on."""
    command: Command | None = None
    until = ""
    for number, line in enumerate(text.splitlines(), start):
        if until or (command and command.text.endswith("\\")):
            assert command
            command.text += f"\n{line}"
            until = "" if line == until else until
        elif line.startswith("$ "):
            if command:
                yield command
            command = Command(number, line[2:])
            heredoc = _HEREDOC.search(line)
            until = heredoc[1] if heredoc else ""
        elif command:
            command.output.append(line)
    if command:
        yield command
