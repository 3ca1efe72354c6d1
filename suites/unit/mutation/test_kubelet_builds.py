"""Builds of wrong kubelets: one process at a time."""

import fcntl
from pathlib import Path

from drahealth.suites.mutation.kubelet_builds import KubeletBuilds
from drahealth.suites.targets.progress import silent


def test_a_build_waits_for_another_one_and_says_so_once(tmp_path: Path) -> None:
    lines: list[str] = []
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def notify(line: str) -> None:
            lines.append(line)
            fcntl.flock(other, fcntl.LOCK_UN)

        KubeletBuilds(tmp_path, "1.37.1", silent, notify).keep_only([])
    assert lines == [f"waits for another build of kubelets in {tmp_path}"]


def test_a_build_that_is_alone_says_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    KubeletBuilds(tmp_path, "1.37.1", silent, lines.append).keep_only([])
    assert (lines, (tmp_path / "kubelets").is_dir()) == ([], True)
