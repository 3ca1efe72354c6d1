"""Builds of wrong kubelets: one process at a time."""

import fcntl
from pathlib import Path

from drahealth.suites.targets.progress import silent
from mutation.kubelets import KubeletBuilds


def test_build_logs_once_that_it_waits_for_another_build(tmp_path: Path) -> None:
    lines: list[str] = []
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def notify(line: str) -> None:
            lines.append(line)
            fcntl.flock(other, fcntl.LOCK_UN)

        KubeletBuilds(tmp_path, "1.37.1", silent, notify).keep_only([])
    assert lines == [f"waits for another build of kubelets in {tmp_path}"]


def test_build_without_a_concurrent_build_logs_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    KubeletBuilds(tmp_path, "1.37.1", silent, lines.append).keep_only([])
    assert (lines, (tmp_path / "kubelets").is_dir()) == ([], True)
