"""A kubelet that the user built: its release, and files that are no kubelet."""

from pathlib import Path

import pytest

from drahealth.manager.releases import FIXABLE, MINORS, NEWEST
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.options import Options
from drahealth.suites.targets.kubelet import doctor
from drahealth.suites.targets.kubelet.ensure import check_release, own_release

HELP = 'The kubelet is the primary "node agent" that runs on each\nnode.'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for programs; its name has a space."""
    (tmp_path / "my kubelets").mkdir()
    return tmp_path / "my kubelets"


def program(folder: Path, version: str, text: str = HELP) -> Path:
    """A program that prints these for --version and --help."""
    path = folder / "kubelet"
    path.write_text(f"#!/bin/sh\nif [ $1 = --version ]; then echo '{version}'; else echo '{text}'; fi\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "own", "release"),
    [
        ("Kubernetes v1.37.1", "1.37.1", "1.37.1"),
        ("Kubernetes v1.37.3-rc.0.12+8a8e2f-dirty", "1.37.3", "1.37.3"),
        ("Kubernetes v0.0.0-master+$Format:%H$", "0.0.0", "1.37.1"),
    ],
)
def test_a_kubelet_of_the_release_or_without_one_is_accepted(
    folder: Path, version: str, own: str, release: str
) -> None:
    kubelet = program(folder, version)
    assert (check_release(kubelet, "1.37.1"), own_release(kubelet)) == (release, own)


@pytest.mark.parametrize(
    ("version", "profile"), [("v1.36.3", "v1.36"), ("v1.36.5", "v1.36.4"), ("v0.0.0-master", "v1.36")]
)
def test_a_kubelet_behaves_as_its_patch_level(folder: Path, version: str, profile: str) -> None:
    kubelet = program(folder, f"Kubernetes {version}")
    options = Options.make({"target": "kubelet", "kubernetes": "1.36.3", "kubelet": str(kubelet)})
    assert (options.profile.name, options.configuration.is_own_kubelet) == (profile, True)


def test_next_is_an_own_kubelet_with_all_open_fixes(folder: Path) -> None:
    kubelet = str(program(folder, "Kubernetes v0.0.0-master"))
    options = Options.make({"target": "kubelet", "kubernetes": "next", "kubelet": kubelet, "fixed": "B-05"})
    assert (options.profile, {*options.fixed}) == (NEWEST, {"B-05", *FIXABLE})


def test_a_kubelet_of_another_release_is_rejected_with_the_option_to_select_it(folder: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_release(program(folder, "Kubernetes v1.36.3"), "1.37.1")
    assert "--kubernetes 1.36.0" in refused.value.hint


def test_a_newer_kubelet_is_judged_by_the_newest_profile_and_the_title_says_so(folder: Path) -> None:
    kubelet = program(folder, "Kubernetes v1.99.2")
    options = Options.make({"target": "kubelet", "kubernetes": "1.99.0", "kubelet": str(kubelet)})
    assert (options.profile, options.configuration.kubelets) == (NEWEST, ("1.99.2",))
    assert f"newer than {MINORS[-1]}, the newest known release" in options.about


def test_a_newer_kubelet_needs_a_control_plane_of_its_release(folder: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_release(program(folder, "Kubernetes v1.99.2"), "1.37.1")
    assert "--kubernetes 1.99.0" in refused.value.hint


def test_a_kubelet_of_an_older_release_is_rejected_with_the_supported_ones(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not support Kubernetes 1\.33, the release of") as refused:
        check_release(program(folder, "Kubernetes v1.33.2"), "1.37.1")
    assert ", ".join(MINORS[::-1]) in refused.value.hint


@pytest.mark.parametrize(
    ("version", "text"),
    [("Kubernetes v1.37.1", "The Kubernetes API server validates"), ("", HELP), ("kubelet 9", HELP)],
)
def test_another_program_is_rejected(folder: Path, version: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match="--kubelet must be a kubelet"):
        check_release(program(folder, version, text), "1.37.1")


def test_a_file_that_is_no_program_is_rejected(folder: Path) -> None:
    (folder / "kubelet").write_bytes(b"\x7fELF")
    (folder / "kubelet").chmod(0o755)
    with pytest.raises(ConfigurationError, match="--kubelet must be a kubelet"):
        check_release(folder / "kubelet", "1.37.1")


def test_a_run_has_the_kubelet_in_its_flags_and_its_description(folder: Path) -> None:
    kubelet = program(folder, "Kubernetes v1.37.2")
    options = Options.make({"target": "kubelet", "kubernetes": "1.37.1", "kubelet": str(kubelet)})
    assert options.flags == f"--target kubelet --kubernetes 1.37.1 --kubelet '{kubelet}'"
    assert options.about == f"a real kubelet, Kubernetes 1.37.1, the kubelet {kubelet}"


@pytest.mark.parametrize("name", ["nothing", "."])
def test_a_path_that_cannot_be_executed_is_rejected(folder: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="--kubelet must be an executable file"):
        Options.make({"target": "kubelet", "kubelet": str(folder / name)})


@pytest.mark.parametrize(("kubernetes", "ok"), [("1.37.1", True), ("1.36.3", False)])
def test_the_doctor_checks_the_release_of_the_kubelet(folder: Path, kubernetes: str, ok: bool) -> None:
    assert doctor.own_kubelet(program(folder, "Kubernetes v1.37.1"), kubernetes).ok is ok
