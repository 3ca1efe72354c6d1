"""`drahealth play`: play timelines on a target, like `drahealth run` for scenarios."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.story import stories
from drahealth.suites.commands.run_scenarios import run_scenarios
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.case_names import STANDARD_INPUT, TIMELINE_SUFFIX


def play_timelines(
    paths: Sequence[Path],
    flags: Mapping[str, str | None],
    *,
    exitfirst: bool = False,
    report: str | None = None,
    junitxml: str | None = None,
    histories: str | None = None,
) -> int:
    """Play the timelines of files, folders and standard input (-). Raises ConfigurationError with all errors."""
    with _with_standard_input(paths) as played:
        _check([file for path in played for file in _files(path)], flags.get("seed"))
        return run_scenarios(
            flags, exitfirst=exitfirst, report=report, junitxml=junitxml, histories=histories, played=played
        )


@contextmanager
def _with_standard_input(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The paths, with a file that has the standard input in place of `-`."""
    with tempfile.TemporaryDirectory(prefix="drahealth-") as folder:
        file = Path(folder, STANDARD_INPUT)
        if Path("-") in paths:
            file.write_bytes(sys.stdin.buffer.read())
        yield [file if path == Path("-") else path for path in paths]


def _check(files: Sequence[Path], seed: str | None) -> None:
    """Raises ConfigurationError with all errors of all files."""
    wrong = list[str]()
    for file in files:
        try:
            stories(file, seed=int(seed) if seed else None)
        except FileError as error:
            wrong.append(str(error))
        except OSError as error:
            wrong.append(f"{error.filename or file} cannot be read: {error.strerror}")
    if wrong:
        raise ConfigurationError("\n".join(wrong))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.rglob(f"*{TIMELINE_SUFFIX}"))
        if not files:
            raise ConfigurationError(f"no timelines in {path}", f"their file names must end in {TIMELINE_SUFFIX}")
        return files
    if path.exists() and not path.name.endswith(TIMELINE_SUFFIX):
        raise ConfigurationError(f"{path} is not a timeline", f"its file name must end in {TIMELINE_SUFFIX}")
    return [path]
