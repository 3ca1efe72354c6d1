"""Checks of a machine; some machine properties are simulated."""

from pathlib import Path

import pytest

from drahealth.suites.processes import sandbox as namespaces
from drahealth.suites.targets.kubelet import doctor
from drahealth.suites.targets.kubelet.binaries import ETCD_VERSION


def test_a_release_in_the_cache_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path))
    (tmp_path / "kubernetes/v1.37.1" / doctor.system().found).mkdir(parents=True)
    assert doctor.programs("v1.37.1", obtainable=False).ok


def test_a_missing_release_has_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path))
    found = doctor.programs("1.37.1", obtainable=False)
    assert (found.ok, found.found) == (False, "not in the cache, and cannot be got")
    assert found.hint


def test_missing_etcd_fails_beside_a_release_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path))
    (tmp_path / "kubernetes/v1.37.1" / doctor.system().found).mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Go
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no network
    checks = {check.name: check for check in doctor.examine("1.37.1")}
    etcd = checks[f"etcd {ETCD_VERSION}"]
    assert (checks["Kubernetes 1.37.1"].ok, etcd.ok, etcd.needed) == (True, False, True)


def test_a_malformed_version_is_a_failed_check() -> None:
    assert "'1.x'" in doctor.programs("1.x", obtainable=True).found


def test_go_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    go = doctor.go_toolchain()
    assert (go.ok, go.found, go.needed) == (False, "none", False)


@pytest.mark.parametrize(
    ("made", "ok", "found"),
    [("cgroup.controllers", True, "version 2"), ("memory", True, "version 1"), ("other", False, "none at ")],
)
def test_control_groups_of_both_versions_are_known(tmp_path: Path, made: str, ok: bool, found: str) -> None:
    (tmp_path / made).mkdir()
    check = doctor.cgroups(tmp_path)
    assert check.ok is ok
    assert check.found.startswith(found)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces=10000"),
        ("user/max_user_namespaces", "96365", "run as root"),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named(tmp_path: Path, name: str, value: str, hint: str) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")
    assert hint in namespaces.allow_hint(tmp_path)


def test_a_check_that_is_ok_gives_no_hint() -> None:
    assert doctor.python().hint == ""
