"""The options of a run: accepted ones, rejected ones, and those for the same run again."""

import shlex
from pathlib import Path

import pytest

from drahealth.manager.profile import KEP
from drahealth.manager.releases import DEFAULT_VERSION, FIXABLE, MINORS, NEWEST, PROFILES, with_fixes
from drahealth.proto.health_apis import NODE_HEALTH, NODE_HEALTH_DRAFT, V1, V1ALPHA1
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.run.options import Options
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.kind.target import KindConfiguration
from drahealth.suites.targets.kubelet.target import KubeletConfiguration
from drahealth.suites.targets.reference.target import ReferenceConfiguration

KIND = "--target kind"
ACCEPTED = {
    "--target reference": ReferenceConfiguration(KEP),
    f"--target reference --profile {NEWEST.name}": ReferenceConfiguration(NEWEST),
    f"--target reference --profile {NEWEST.name} --driver process": ReferenceConfiguration(NEWEST, "process"),
    "--target reference --api-server real --kubernetes 1.36.3": ReferenceConfiguration(
        api_server="real", kubernetes="1.36.3"
    ),
    "--target reference --profile v1.34 --api-server real --kubernetes 1.34.4": ReferenceConfiguration(
        PROFILES["v1.34"], api_server="real", kubernetes="1.34.4"
    ),
    f"--target kubelet --kubernetes {DEFAULT_VERSION}": KubeletConfiguration(NEWEST),
    f"--target kubelet --kubernetes {NEWEST.release}.0 --driver process": KubeletConfiguration(
        NEWEST, f"{NEWEST.release}.0", "process"
    ),
    KIND: KindConfiguration(NEWEST, program.DEFAULT),
    f"{KIND} --nodes 3 --name x --keep failed": KindConfiguration(
        NEWEST, program.DEFAULT, KindOptions(nodes=3, name="x", keep="failed")
    ),
    f"{KIND} --kubernetes {DEFAULT_VERSION} --image me/node:1": KindConfiguration(
        NEWEST, DEFAULT_VERSION, KindOptions(exact=True, node_image="me/node:1")
    ),
    f"{KIND} --kind-config /dev/null --driver-base me/python:3": KindConfiguration(
        NEWEST, program.DEFAULT, KindOptions(config=Path("/dev/null"), driver_base="me/python:3")
    ),
    f"{KIND} --reuse mine --driver-image me/fakes:1": KindConfiguration(
        NEWEST, program.DEFAULT, KindOptions(reuse="mine", driver_image="me/fakes:1")
    ),
}


def made(flags: str) -> Options:
    """The options of these flags."""
    words = shlex.split(flags)
    return Options.make(dict(zip((w.removeprefix("--") for w in words[::2]), words[1::2], strict=True)))


@pytest.mark.parametrize(("flags", "configuration"), ACCEPTED.items())
def test_options_are_the_configuration_of_a_target(flags: str, configuration: object) -> None:
    assert made(flags).configuration == configuration


@pytest.mark.parametrize("target", ["kubelet", "kind"])
def test_issues_that_the_kubelet_has_fixed_are_in_the_flags(target: str) -> None:
    options = Options.make({"target": target, "fixed": "B-29, B-05"})
    assert options.fixed == ("B-05", "B-29")
    assert "--fixed B-05,B-29" in options.flags


def test_next_is_a_profile_of_the_reference() -> None:
    assert Options.make({"kubernetes": "next"}) == made("--target reference --profile next")


@pytest.mark.parametrize("issue", FIXABLE)
def test_the_reference_behaves_as_with_one_open_fix(issue: str) -> None:
    configuration = ReferenceConfiguration(with_fixes(PROFILES["v1.36"], [issue]))
    options = made(f"--target reference --profile v1.36 --fixed {issue}")
    assert (options.configuration, options.fixed) == (configuration, (issue,))


def test_an_unknown_fixed_issue_is_rejected_with_similar_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"--fixed: 'XID-9' is no known issue; docs/reference/known-issues.md"):
        Options.make({"target": "kubelet", "fixed": "B-29,XID-9"})


@pytest.mark.parametrize("flags", ACCEPTED)
def test_the_flags_of_a_run_are_the_shortest_ones(flags: str) -> None:
    assert made(flags).flags == flags


def test_default_target_is_the_reference_with_the_kep_profile() -> None:
    assert Options.make({}) == made("--target reference --profile kep")


def test_a_real_kubelet_has_the_profile_of_its_release() -> None:
    version = f"{NEWEST.release}.0"
    found = made(f"--target kubelet --kubernetes v{version}").configuration
    assert found == KubeletConfiguration(NEWEST, version)


@pytest.mark.parametrize(
    ("flags", "health_api"),
    [
        (f"--target reference --profile {NEWEST.name} --health-api v1alpha1.DRAResourceHealth", V1ALPHA1),
        ("--target reference --health-api v1alpha1.NodeHealth/WatchDevicesStatus", NODE_HEALTH_DRAFT),
        (f"--target kubelet --kubernetes {DEFAULT_VERSION} --health-api v1.DRAResourceHealth", V1),
    ],
)
def test_the_drivers_may_have_a_single_health_api(flags: str, health_api: object) -> None:
    options = made(flags)
    assert (options.health_api, options.flags) == (health_api, flags)


def test_the_short_name_of_node_health_is_its_newest_method() -> None:
    assert made("--target reference --health-api NodeHealth").health_api is NODE_HEALTH


@pytest.mark.parametrize(
    ("flags", "basic", "played"),
    [
        ("--target reference", True, (None, V1ALPHA1, NODE_HEALTH, NODE_HEALTH_DRAFT)),
        ("--target reference", False, (None,)),
        (f"--target reference --profile {NEWEST.name}", True, (None, V1ALPHA1)),
        ("--target reference --profile v1.36", True, (None,)),
        ("--target reference --health-api v1.DRAResourceHealth", True, (V1,)),
        ("--target reference --health-api all", False, (V1, V1ALPHA1, NODE_HEALTH, NODE_HEALTH_DRAFT)),
        (f"--target kubelet --kubernetes {DEFAULT_VERSION}", True, (None,)),
        (f"--target kubelet --kubernetes {DEFAULT_VERSION} --health-api all", True, (V1, V1ALPHA1)),
    ],
)
def test_options_select_the_health_apis_of_a_scenario(flags: str, basic: bool, played: tuple[object, ...]) -> None:
    options = made(flags)
    assert options.health_apis(options.profile, basic=basic) == played


def test_all_health_apis_are_a_flag_of_the_run() -> None:
    options = made(f"--target kubelet --kubernetes {DEFAULT_VERSION} --health-api all")
    assert (options.flags, options.about) == (
        f"--target kubelet --kubernetes {DEFAULT_VERSION} --health-api all",
        f"a real kubelet, Kubernetes {DEFAULT_VERSION}, each health API in turn",
    )


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--target clusters", ("--target", "reference, kubelet, kind, cluster")),
        ("--profile v9", ("--profile", ", ".join(PROFILES), f"such as v{DEFAULT_VERSION}, got 'v9'")),
        ("--profile v1.33.2", ("--profile", ", ".join(PROFILES), "got 'v1.33.2'")),
        ("--driver pod", ("--driver", "inline, process")),
        ("--health-api v1.NodeHealth", ("--health-api", "v1.DRAResourceHealth, v1alpha1.DRAResourceHealth")),
        (
            f"--profile {NEWEST.name} --health-api v1alpha1.NodeHealth/WatchResources",
            (f"profile {NEWEST.name}", "v1.DRAResourceHealth"),
        ),
        (
            "--target kubelet --kubernetes 1.36.3 --health-api v1.DRAResourceHealth",
            ("Kubernetes 1.36.3", "choose one of v1alpha1.DRAResourceHealth"),
        ),
        (f"--kubernetes {DEFAULT_VERSION}", ("--kubernetes", "--target kubelet or kind")),
        ("--target kubelet --profile kep", ("--profile", "--target reference")),
        ("--api-server etcd", ("--api-server", "memory, real")),
        ("--target kubelet --api-server real", ("--api-server", "--target reference")),
        ("--api-server real --profile v1.34", (f"--kubernetes {DEFAULT_VERSION}", f"--profile {NEWEST.name} or kep")),
        ("--api-server real --kubernetes 1.35.4", ("1.35.4", "--profile v1.35")),
        ("--nodes 2", ("--nodes", "--target kind")),
        ("--target kubelet --kubernetes next", ("--kubernetes next", "--kubelet FILE")),
        (f"{KIND} --kubernetes next", ("--kubernetes next", "--kubelet FILE")),
        ("--fixed B-02", ("--fixed", f"--profile {NEWEST.name}")),
        ("--profile v1.35 --fixed B-29", ("B-29", "B-02")),
        (f"{KIND} --driver process", ("--driver", "--target reference or kubelet")),
        ("--target kubelet --kubernetes 1.20.0", ("1.20.0", f"{', '.join(MINORS[::-1])}")),
        (f"{KIND} --kubernetes latest", ("'latest'", DEFAULT_VERSION)),
        (f"{KIND} --nodes 0", ("--nodes", "from 1 to 20")),
        (f"{KIND} --nodes two", ("--nodes", "from 1 to 20")),
        (f"{KIND} --keep me", ("--keep", "never, failed, always")),
        (f"{KIND} --name=-x", ("--name", "'-x'")),
        (f"{KIND} --kind-config /no.yaml", ("--kind-config", "No such file or directory")),
        (f"{KIND} --reuse a --nodes 2", ("--nodes", "--reuse")),
        (f"{KIND} --driver-image a --driver-base b", ("--driver-base", "--driver-image")),
    ],
)
def test_a_wrong_option_is_rejected_and_named(flags: str, named: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        made(flags.replace("=", " "))
    assert [words for words in named if words not in str(refused.value)] == []


def test_as_options_of_pytest_the_names_have_a_prefix() -> None:
    options = made(f"{KIND} --name a--b --keep failed")
    assert options.flags_as("--drahealth-") == "--drahealth-target kind --drahealth-name a--b --drahealth-keep failed"


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (f"--profile {NEWEST.name}", f"the reference, profile {NEWEST.name}"),
        ("--profile v1.36.5", "the reference, profile v1.36.4"),
        ("--driver process", "the reference, profile kep, the fake driver in a process of its own"),
        (f"--target kubelet --kubernetes {NEWEST.release}.0", f"a real kubelet, Kubernetes {NEWEST.release}.0"),
        (
            "--health-api v1alpha1.NodeHealth/WatchDevicesStatus",
            "the reference, profile kep, health over v1alpha1.NodeHealth/WatchDevicesStatus",
        ),
        (f"{KIND} --kubernetes {DEFAULT_VERSION}", f"a kind cluster, Kubernetes {DEFAULT_VERSION}"),
        (f"{KIND} --reuse mine", f"the kind cluster mine, Kubernetes {NEWEST.release}"),
    ],
)
def test_a_run_is_described_in_a_few_words(flags: str, about: str) -> None:
    assert made(flags).about == about


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (HarnessError("it broke"), "it broke"),
        (HarnessError("it broke.\n", "mend it."), "it broke; mend it"),
        (ConfigurationError("no such file", ""), "no such file"),
    ],
)
def test_error_text_joins_the_message_and_the_hint(error: HarnessError, sentence: str) -> None:
    assert str(error) == sentence
