"""The errors of engines and kind, with their reasons and hints."""

import pytest

from drahealth.suites.targets.kind.program import explain

_KUBEADM = """Creating cluster "a" ...
 \x1b[31m✗\x1b[0m Starting control-plane
ERROR: failed to create cluster: failed to init node with kubeadm: command "docker exec a kubeadm init" failed
Command Output: I0101 dial unix: connect: permission denied
[certs] Generating keys
error: error execution phase wait-control-plane: context deadline exceeded
k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow.(*Runner).Run.func1
"""


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("write /var/lib/docker/x: no space left on device", "no disk space is left"),
        ("permission denied while trying to connect to the Docker daemon socket", "you have no permission"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "the container engine is not running"),
        ("Error: unable to connect to Podman socket: dial unix", "the container engine is not running"),
        ("toomanyrequests: You have reached your pull rate limit", "the registry limits pulls"),
        (
            "Error response from daemon: manifest for kindest/node:v1 not found",
            "the engine does not have the node image",
        ),
        ("pull access denied for x, repository does not exist", "the engine does not have the image"),
        ('Get "https://registry.example.com/v2/": dial tcp: lookup', "the engine does not have the image"),
        ("Error: localhost/x: image not known", "the engine does not have the image"),
        ('node(s) already exist for a cluster with the name "a"', "a cluster with that name exists"),
        ("could not find a log line that matches", "the node did not start as a node of kind"),
        ("'A' is not a valid cluster name", "kind rejects its configuration"),
        (_KUBEADM, "kubeadm failed"),
    ],
)
def test_a_known_error_has_a_reason_and_a_hint(said: str, because: str) -> None:
    error = explain("do it", said)
    assert error.message.startswith(f"Could not do it because {because}")
    assert error.hint


@pytest.mark.parametrize("why", ["manifest for kindest/node:v1.37.9 not found", "dial tcp: lookup failed"])
def test_a_missing_node_image_has_a_hint_to_the_releases_of_kind(why: str) -> None:
    said = f'ERROR: failed to create cluster: failed to pull image "kindest/node:v1.37.9": it ended\nError: {why}'
    error = explain("make it", said)
    assert error.message.startswith("Could not make it because the engine does not have the node image ")
    assert "https://github.com/kubernetes-sigs/kind/releases" in error.hint


def test_the_error_of_a_rejected_configuration_has_its_line() -> None:
    said = (
        "ERROR: failed to create cluster: unable to decode config: yaml: unmarshal errors:\n  line 3: field x not found"
    )
    error = explain("make it", said)
    assert error.message == "Could not make it because kind rejects its configuration: line 3: field x not found"


def test_an_unknown_error_shows_its_most_important_line() -> None:
    error = explain("do it", "Some warning\nERROR: failed to create cluster: it broke\nSee 'docker run --help'.\n")
    assert error.message == "Could not do it: it broke"


def test_error_for_a_command_without_output_reports_the_missing_output() -> None:
    assert explain("do it", "").message == "Could not do it: it printed nothing"


def test_important_lines_are_notes_of_the_error() -> None:
    error = explain("make it", _KUBEADM)
    assert error.message.endswith(": error execution phase wait-control-plane: context deadline exceeded")
    assert error.__notes__[0].startswith("ERROR: failed to create cluster: failed to init node")
    assert "Generating keys" not in str(error.__notes__)
