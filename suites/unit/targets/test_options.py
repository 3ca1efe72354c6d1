"""What a run is told: what makes sense is taken, the rest is refused in one sentence with a hint."""

import re
import shlex
from pathlib import Path

import pytest

from drahealth.manager.profile import KEP, V1_37
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH_DRAFT, V1, V1ALPHA1
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.options import Options

SENSIBLE = [
    Options(),
    Options(profile=V1_37),
    Options(driver="process"),
    Options(profile=V1_37, driver="process"),
    Options("kubelet", profile=V1_37),
    Options("kubelet", kubernetes="1.37.0", profile=V1_37, driver="process"),
    Options(profile=V1_37, health_api=V1ALPHA1),
    Options(health_api=NODE_HEALTH_DRAFT),
    Options("kubelet", profile=V1_37, health_api=V1),
    Options("kind", kubernetes="1.37.0", profile=V1_37),
    Options("kind", kubernetes="1.37.0", profile=V1_37, kind=KindOptions(nodes=3, name="x", keep="failed")),
    Options("kind", profile=V1_37, kind=KindOptions(exact=True, node_image="me/node:1")),
    Options(
        "kind",
        kubernetes="1.37.0",
        profile=V1_37,
        kind=KindOptions(config=Path("/dev/null"), driver_base="me/python:3"),
    ),
    Options("kind", kubernetes="1.37.0", profile=V1_37, kind=KindOptions(reuse="mine", driver_image="me/fakes:1")),
]


def test_without_a_word_it_is_the_reference_as_the_kep_has_it() -> None:
    assert Options.make({}) == Options("reference", "1.37.1", KEP, "inline")


def test_a_real_kubelet_has_the_profile_of_its_release() -> None:
    assert Options.make({"target": "kubelet"}) == Options("kubelet", "1.37.1", V1_37)
    given = {"target": "kubelet", "kubernetes": "v1.37.0", "driver": "process"}
    assert Options.make(given) == Options("kubelet", "1.37.0", V1_37, "process")


KIND = {"target": "kind"}
WRONG: list[tuple[dict[str, str], str]] = [
    ({"target": "cluster"}, "there is no target 'cluster'; choose one of reference, kubelet, kind"),
    ({"profile": "v9"}, "there is no profile 'v9'; choose one of kep, v1.37, v1.36, v1.35, v1.34"),
    ({"driver": "pod"}, "there is no driver 'pod'; choose one of inline, process"),
    (
        {"health-api": "v1.Node"},
        f"there is no health API 'v1.Node'; choose one of {', '.join(HEALTH_APIS)}",
    ),
    (
        {"profile": "v1.37", "health-api": "v1alpha1.NodeHealth/WatchResources"},
        (
            "profile v1.37 does not speak v1alpha1.NodeHealth/WatchResources; "
            "choose one of v1.DRAResourceHealth, v1alpha1.DRAResourceHealth"
        ),
    ),
    (
        {"target": "kubelet", "kubernetes": "1.36.3", "health-api": "v1.DRAResourceHealth"},
        "Kubernetes 1.36.3 does not speak v1.DRAResourceHealth; choose one of v1alpha1.DRAResourceHealth",
    ),
    ({"kubernetes": "1.37.1"}, "the reference target has no Kubernetes version; leave it out, or choose a --profile"),
    ({"target": "kubelet", "profile": "kep"}, "a real kubelet's profile is that of its release; leave --profile out"),
    (
        {"target": "kubelet", "kubernetes": "1.20.0"},
        "how kubelets of Kubernetes 1.20.0 behave is not written down yet; choose a release of 1.37, 1.36, 1.35, 1.34",
    ),
    (
        {"target": "kind", "kubernetes": "latest"},
        "'latest' is not the version of a Kubernetes release; give major, minor and patch, like 1.37.1",
    ),
    ({"nodes": "2"}, "--nodes is for the kind target; add --target kind, or leave it out"),
    ({**KIND, "driver": "process"}, "on kind the fake driver lives in a pod; leave --driver out"),
    ({**KIND, "nodes": "0"}, "a cluster cannot have '0' nodes; give a number from 1 to 20"),
    ({**KIND, "nodes": "two"}, "a cluster cannot have 'two' nodes; give a number from 1 to 20"),
    ({**KIND, "keep": "me"}, "--keep cannot be 'me'; choose one of never, failed, always"),
    ({**KIND, "name": "-x"}, "'-x' is no name for a kind cluster; use small letters, digits, dots and hyphens"),
    (
        {**KIND, "kind-config": "/no.yaml"},
        "/no.yaml cannot be read: No such file or directory; name a kind configuration",
    ),
    (
        {**KIND, "reuse": "a", "nodes": "2"},
        "--nodes is for a cluster that is made, and --reuse names one that is there; leave one out",
    ),
    (
        {**KIND, "driver-image": "a", "driver-base": "b"},
        "--driver-base is for an image that is built, and with --driver-image none is; leave one out",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_what_makes_no_sense_is_refused_with_a_hint(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(sentence)}$"):
        Options.make(given)


@pytest.mark.parametrize("options", SENSIBLE, ids=lambda options: options.flags)
def test_the_flags_lead_to_the_same_target_again(options: Options) -> None:
    words = shlex.split(options.flags)
    assert Options.make(dict(zip((w.removeprefix("--") for w in words[::2]), words[1::2], strict=True))) == options


def test_the_flags_say_no_more_than_is_needed() -> None:
    assert [options.flags for options in SENSIBLE] == [
        "--target reference",
        "--target reference --profile v1.37",
        "--target reference --driver process",
        "--target reference --profile v1.37 --driver process",
        "--target kubelet --kubernetes 1.37.1",
        "--target kubelet --kubernetes 1.37.0 --driver process",
        "--target reference --profile v1.37 --health-api v1alpha1.DRAResourceHealth",
        "--target reference --health-api v1alpha1.NodeHealth/WatchDevicesStatus",
        "--target kubelet --kubernetes 1.37.1 --health-api v1.DRAResourceHealth",
        "--target kind",
        "--target kind --nodes 3 --name x --keep failed",
        "--target kind --kubernetes 1.37.1 --image me/node:1",
        "--target kind --kind-config /dev/null --driver-base me/python:3",
        "--target kind --reuse mine --driver-image me/fakes:1",
    ]


def test_as_options_of_pytest_the_flags_have_a_prefix_and_the_values_have_none() -> None:
    options = Options("kind", kubernetes="1.37.0", profile=V1_37, kind=KindOptions(name="a--b", keep="failed"))
    assert options.flags_as("--drahealth-") == ("--drahealth-target kind --drahealth-name a--b --drahealth-keep failed")


def test_a_target_is_told_in_a_few_words() -> None:
    assert [options.about for options in SENSIBLE[1:3] + SENSIBLE[5:8:2] + SENSIBLE[11:12] + SENSIBLE[-1:]] == [
        "the reference in process, profile v1.37",
        "the reference in process, profile kep, the fake driver in a process of its own",
        "a real kubelet, Kubernetes 1.37.0, the fake driver in a process of its own",
        "the reference in process, profile kep, health over v1alpha1.NodeHealth/WatchDevicesStatus",
        "a kind cluster, Kubernetes 1.37.1",
        "the kind cluster mine, Kubernetes 1.37",
    ]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (HarnessError("it broke"), "it broke"),
        (HarnessError("it broke.\n", "mend it."), "it broke; mend it"),
        (ConfigurationError("no such file", ""), "no such file"),
    ],
)
def test_an_error_is_what_happened_and_what_to_do(error: HarnessError, sentence: str) -> None:
    assert str(error) == sentence
