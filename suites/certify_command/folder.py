"""The directory of a certificate: one run at a time, and a certificate is never overwritten by accident."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import filelock

from drahealth.suites.check_command.signals import signals_held
from drahealth.suites.errors import ConfigurationError

EVIDENCE, REPORT, PAGE, JUNIT, TEXT, BADGE = (
    *("evidence.jsonl", "report.json", "report.html"),
    *("junit.xml", "summary.md", "badge.svg"),
)
FILES = (EVIDENCE, REPORT, PAGE, JUNIT, TEXT, BADGE)
"""The files of a certificate."""
_LOCK, _NEW = ".lock", ".new-"


@contextmanager
def certificate_folder(path: Path, *, overwrite: bool = False) -> Generator[Path, None, None]:
    """A directory for the files of a run. They move to `path` at its end; after an exception `path` is as before.

    Raises ConfigurationError if `path` has files of a run and `overwrite` is not set, if another run uses it, or if it
    cannot be written.
    """
    try:
        is_new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path / _LOCK, timeout=0, mode=0o600)
        lock.acquire()
    except filelock.Timeout:
        raise ConfigurationError(f"another certification writes to {path}", "pass another --out") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write to {path}: {error.strerror}", "pass another --out") from None
    try:
        if not overwrite and (found := [name for name in FILES if (path / name).exists()]):
            raise ConfigurationError(
                f"{path} has files of an earlier run, such as {found[0]}", "pass --overwrite, or another --out"
            )
        for left in path.glob(f"{_NEW}*"):  # of a run that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_NEW, dir=path) as made:
            yield Path(made)
            with signals_held():  # files of two runs are never side by side
                for name in FILES:
                    (path / name).unlink(missing_ok=True)
                for name in FILES:
                    if (Path(made) / name).exists():
                        (Path(made) / name).rename(path / name)
    finally:
        (path / _LOCK).unlink(missing_ok=True)
        lock.release()
        if is_new and not any(path.iterdir()):
            path.rmdir()
