"""What a run is told: what makes sense is taken, the rest is refused in one sentence with a hint."""

import re
import shlex

import pytest

from drahealth.manager.profile import KEP, V1_37
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.options import Options

SENSIBLE = [
    Options(),
    Options(profile=V1_37),
    Options(driver="process"),
    Options(profile=V1_37, driver="process"),
    Options("kubelet", profile=V1_37),
    Options("kubelet", kubernetes="1.37.0", profile=V1_37, driver="process"),
]


def test_without_a_word_it_is_the_reference_as_the_kep_has_it() -> None:
    assert Options.make(None) == Options("reference", "1.37.1", KEP, "inline")


def test_a_real_kubelet_has_the_profile_of_its_release() -> None:
    assert Options.make("kubelet") == Options("kubelet", "1.37.1", V1_37)
    assert Options.make("kubelet", "v1.37.0", driver="process") == Options("kubelet", "1.37.0", V1_37, "process")


WRONG = [
    (("cluster",), "there is no target 'cluster'; choose one of reference, kubelet"),
    (("reference", None, "v9"), "there is no profile 'v9'; choose one of kep, v1.37"),
    ((None, None, None, "pod"), "there is no driver 'pod'; choose one of inline, process"),
    (("reference", "1.37.1"), "the reference target has no Kubernetes version; leave it out, or choose a --profile"),
    (("kubelet", None, "kep"), "a real kubelet's profile is that of its release; leave --profile out"),
    (
        ("kubelet", "1.20.0"),
        "how kubelets of Kubernetes 1.20.0 behave is not written down yet; choose a release of 1.37",
    ),
    (
        ("kubelet", "latest"),
        "'latest' is not the version of a Kubernetes release; give major, minor and patch, like 1.37.1",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_what_makes_no_sense_is_refused_with_a_hint(given: tuple[str | None, ...], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(sentence)}$"):
        Options.make(*given)


@pytest.mark.parametrize("options", SENSIBLE, ids=lambda options: options.flags)
def test_the_flags_lead_to_the_same_target_again(options: Options) -> None:
    words = shlex.split(options.flags)
    given = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    assert Options.make(given["target"], given.get("kubernetes"), given.get("profile"), given.get("driver")) == options


def test_the_flags_say_no_more_than_is_needed() -> None:
    assert [options.flags for options in SENSIBLE] == [
        "--target reference",
        "--target reference --profile v1.37",
        "--target reference --driver process",
        "--target reference --profile v1.37 --driver process",
        "--target kubelet --kubernetes 1.37.1",
        "--target kubelet --kubernetes 1.37.0 --driver process",
    ]


def test_a_target_is_told_in_a_few_words() -> None:
    assert [options.about for options in SENSIBLE[1:3] + SENSIBLE[-1:]] == [
        "the reference in process, profile v1.37",
        "the reference in process, profile kep, the fake driver in a process of its own",
        "a real kubelet, Kubernetes 1.37.0, the fake driver in a process of its own",
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
