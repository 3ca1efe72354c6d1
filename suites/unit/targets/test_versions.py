"""Parsing of versions, and the text of errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from drahealth.manager.releases import DEFAULT_VERSION, MINORS, RELEASES
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.run.options import Options
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.kind.target import KindConfiguration
from drahealth.suites.targets.option import KUBERNETES, Values
from drahealth.suites.targets.versions import NEWEST, parse_version

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.37.1", "1.37.1"),
        ("v1.37.1", "1.37.1"),
        (" 1.34.0 ", "1.34.0"),
        ("v1.38.0-alpha.2", "1.38.0-alpha.2"),
        (MINORS[-1], DEFAULT_VERSION),
        (f"v{MINORS[0]}", RELEASES[0].newest),
    ],
)
def test_a_version_may_have_a_leading_v_or_no_patch(text: str, version: str) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["1", "banana", "1.37.x", "", "1.37.1.2", "1.037.1", "latest", "1.37.1-dirty", "../1.37.1"]
)
def test_an_invalid_version_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"got .*; for example {MINORS[-1]} or {DEFAULT_VERSION}$"):
        parse_version(text)


def test_unknown_minor_release_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_version("1.33")
    assert error.value.message == "drahealth does not support Kubernetes 1.33"
    assert error.value.hint == f"choose a release of {', '.join(MINORS[::-1])}"


def test_every_profile_of_a_release_has_a_newest_patch_on_each_target() -> None:
    assert ({*NEWEST}, {*program.NEWEST}) == ({*MINORS}, {*MINORS})
    assert DEFAULT_VERSION in NEWEST.values()


def test_ci_runs_on_each_release() -> None:
    found = subprocess.run([sys.executable, ROOT / "ci/releases", "matrix"], capture_output=True, text=True, check=True)
    outputs = dict(line.split("=", 1) for line in found.stdout.splitlines())
    assert json.loads(outputs["kubelet"]) == [release.newest for release in RELEASES]
    assert [one["kubernetes"] for one in json.loads(outputs["kind"])] == [release.node_image for release in RELEASES]
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    assert outputs.keys() == jobs["releases"]["outputs"].keys()
    assert all("fromJSON(needs.releases" in str(jobs[job]["strategy"]["matrix"]) for job in ("kubelet", "kind"))


@pytest.mark.parametrize(
    ("target", "given", "release", "title"),
    [
        ("kubelet", "1.36", NEWEST["1.36"], f"a real kubelet, Kubernetes {NEWEST['1.36']}"),
        ("kind", "1.36", "1.36", "a kind cluster, Kubernetes 1.36"),
        ("kind", "1.36.3", "1.36.3", "a kind cluster, Kubernetes 1.36.3"),
    ],
)
def test_minor_release_means_its_newest_patch_on_the_target(target: str, given: str, release: str, title: str) -> None:
    options = Options.make({"target": target, "kubernetes": given})
    assert KindConfiguration.of(Values({"kubernetes": "1.36"}, [KUBERNETES])).kubernetes == "1.36.1"
    assert (options.flags.partition("--kubernetes ")[2].split()[0], options.about) == (release, title)


def test_error_text_joins_message_and_hint_in_one_sentence() -> None:
    assert str(HarnessError("The disk is full.", "make room")) == "The disk is full; make room"
    assert str(HarnessError("The disk is full")) == "The disk is full"
