"""A kubelet that is older than its control plane: which releases go together, and what judges the run."""

from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.run.options import Options
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.unit.targets.kubelet.test_own_kubelet import program


def made(**given: str) -> Options:
    return Options.make({"target": "kubelet", **{name.replace("_", "-"): text for name, text in given.items()}})


def test_the_kubelet_has_its_own_profile_and_the_api_server_another_one() -> None:
    options = made(kubernetes="1.36.5", control_plane="1.37.2")
    assert (options.profile.name, options.api_server, options.configuration.kubelets) == (
        "v1.36.4",
        "v1.37",
        ("1.36.5",),
    )
    assert options.about == "a real kubelet, Kubernetes 1.36.5, control plane 1.37.2"
    assert options.flags == "--target kubelet --kubernetes 1.36.5 --control-plane 1.37.2"


def test_a_control_plane_of_the_same_release_is_no_skew() -> None:
    assert made(kubernetes="1.37.2", control_plane="1.37.2") == made(kubernetes="1.37.2")


def test_a_newer_patch_release_of_the_control_plane_has_the_profile_of_the_kubelet() -> None:
    assert made(kubernetes="1.37.0", control_plane="1.37.2").api_server == ""


def test_the_run_lacks_what_either_release_lacks() -> None:
    missing = made(kubernetes="1.35.4", control_plane="1.37.2").missing
    assert {Capability.SWITCH_MESSAGES, Capability.SWITCH_DRA} <= missing.keys()


def test_a_kubelet_of_the_user_names_the_release_itself(tmp_path: Path) -> None:
    kubelet = str(program(tmp_path, "Kubernetes v1.36.3"))
    options = made(kubelet=kubelet, control_plane="1.37.2")
    assert options.flags == f"--target kubelet --kubernetes 1.36.3 --control-plane 1.37.2 --kubelet {kubelet}"


@pytest.mark.parametrize(
    ("kubernetes", "control_plane", "problem"),
    [
        ("1.37.2", "1.36.5", "is older than the kubelet, 1.37.2"),
        ("1.34.4", "1.38.0", "is more than 3 minor releases newer than the kubelet, 1.34.4"),
        ("1.37.2", "2.0.0", "newer than the kubelet"),
        ("1.34.4", "1.33.0", "is older than the kubelet, 1.34.4"),
    ],
)
def test_a_skew_that_kubernetes_does_not_support_is_rejected(kubernetes: str, control_plane: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        made(kubernetes=kubernetes, control_plane=control_plane)


def test_another_target_has_no_control_plane_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="--control-plane is not an option of the reference target"):
        Options.make({"control-plane": "1.37.2"})


def test_requirements_of_the_api_server_have_the_known_issues_of_its_release() -> None:
    def how_often(profile: str, api_server: str = "") -> list[str]:
        found = known_issues(profile, api_server=api_server)
        return [one.happens for one in found if (one.id, one.requirement) == ("A-06", "GATE-05")]

    assert (how_often("v1.35"), how_often("v1.35", "v1.37"), how_often("v1.37", "v1.35")) == (
        ["sometimes"],
        ["always"],
        ["sometimes"],
    )


def test_other_requirements_have_the_known_issues_of_the_kubelet() -> None:
    def of_kubelet(profile: str, api_server: str = "") -> list[str]:
        return [one.id for one in known_issues(profile, api_server=api_server) if one.requirement == "STATUS-12"]

    assert of_kubelet("v1.35", "v1.37") == of_kubelet("v1.35") != of_kubelet("v1.37")
