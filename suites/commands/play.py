"""`drahealth play`: play timelines on a target, like `drahealth run` for scenarios."""

from collections.abc import Mapping
from pathlib import Path

from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.story import stories
from drahealth.suites.commands.run_scenarios import run_scenarios
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.case_names import TIMELINE_SUFFIX


def play_timelines(path: Path, flags: Mapping[str, str | None], *, report: str | None, histories: str | None) -> int:
    """Play the timelines of a file or folder. Raises ConfigurationError with all errors of all files."""
    seed, wrong = flags.get("seed"), list[str]()
    for file in _files(path):
        try:
            stories(file, seed=int(seed) if seed else None)
        except FileError as error:
            wrong.append(str(error))
        except OSError as error:
            wrong.append(f"{error.filename or file} cannot be read: {error.strerror}")
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    return run_scenarios(flags, report=report, histories=histories, played=path)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.rglob(f"*{TIMELINE_SUFFIX}"))
        if not files:
            raise ConfigurationError(f"no timelines in {path}", f"their file names must end in {TIMELINE_SUFFIX}")
        return files
    if path.exists() and not path.name.endswith(TIMELINE_SUFFIX):
        raise ConfigurationError(f"{path} is not a timeline", f"its file name must end in {TIMELINE_SUFFIX}")
    return [path]
