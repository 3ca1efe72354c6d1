"""Parsing of manifest files into objects."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.suites.manager_command.manifest_directory import is_manifest
from drahealth.suites.manager_command.manifests import parse
from drahealth.suites.unit.manager_command.rig import CLAIM, DIRECT, SCHEDULED, pod
from drahealth.suites.yaml_tree import Malformed

KINDS = "Pod, ResourceClaim, ResourceClaimTemplate, DeviceClass, Namespace"
SOURCES = "`resourceClaimName`, `resourceClaimTemplateName`"
NO_SOURCE = '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def read(text: str) -> list[Any]:
    return list(parse(text.encode(), "node-a"))


def test_a_file_may_hold_several_objects_of_all_kinds() -> None:
    found = read("---".join([pod(claim=DIRECT), CLAIM, SCHEDULED]))
    names = ["Pod default/job", "ResourceClaim default/gpu", "DeviceClass gpu", "ResourceClaimTemplate default/one-gpu"]
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}]
    assert list(map(str, found)) == names
    assert found[1].allocation == {"devices": {"results": results}}


def test_json_manifest_is_accepted() -> None:
    (from_yaml,) = read(pod())
    (from_json,) = read(json.dumps(from_yaml.object, indent="\t"))
    assert from_json == from_yaml


def test_fields_added_by_the_api_server_are_ignored() -> None:
    (plain,) = read(pod())
    full = {**plain.object, "status": {"phase": "Running"}}
    full["metadata"] = {**full["metadata"], "uid": "u", "resourceVersion": "7", "creationTimestamp": None}
    full["spec"] = {**full["spec"], "nodeName": "node-a"}
    assert read(json.dumps(full)) == [plain]


def test_manifests_are_parsed_as_yaml_1_2() -> None:
    (found,) = read(pod().replace("{name: job}", "{name: job, labels: {a: no, b: 'x', c: 2020-01-01}}"))
    assert found.object["metadata"]["labels"] == {"a": "no", "b": "x", "c": "2020-01-01"}


def test_digest_ignores_comments_and_changes_with_the_object() -> None:
    assert read(pod())[0].digest == read(f"# a comment\n{pod()}")[0].digest
    assert read(pod())[0].digest != read(pod(image="two"))[0].digest


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "the file is empty; to delete its objects, delete the file"),
        ("- a", 1, "a manifest must be a mapping with apiVersion, kind, metadata and spec"),
        ("a: [", 1, "expected the node content, but found '<stream end>'"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}", 3, "invalid namespace 'a.b'"),
        (pod().replace("kind: Pod", "kind: Job"), 3, f"unsupported kind 'Job'; supported kinds: {KINDS}"),
        (pod().replace("v1", "v2"), 2, "apiVersion of a Pod must be v1, got 'v2'"),
        (pod(image="5"), 8, "spec.containers[0].image of a Pod: must be a string"),
        (pod().replace("name: main", "nome: main"), 7, "spec.containers[0].name of a Pod: this field is required"),
        (
            pod(claim="resourceClaimName: null"),
            2,
            f'Pod "job" is invalid: spec.resourceClaims[0]: Invalid value: {NO_SOURCE}: must specify one of: {SOURCES}',
        ),
        (pod() + "  nodeName: b\n", 9, "nodeName must be node-a, got b; remove it"),
        (f"{pod()}---{pod()}", 10, "duplicate object Pod default/job"),
        (pod().replace("image:", "iamge:"), 8, 'unknown field "spec.containers[0].iamge"'),
        (pod().replace("job", '"\\ud800"'), 4, "invalid Unicode text"),
        ("x: &a [*a]", 1, "an alias refers to a node that contains the alias"),
        ("[" * 5000, 1, "it is nested too deeply"),
    ],
)
def test_invalid_manifest_is_rejected_with_the_line_number(text: str, line: int, problem: str) -> None:
    with pytest.raises(Malformed) as refused:
        read(text)
    assert (refused.value.line, refused.value.problem) == (line, problem)


def test_only_manifest_file_names_are_accepted() -> None:
    names = ["a.yaml", "b.yml", "c.json", "d.txt", ".e.yaml", "default.job.status.yaml", "f.yaml~"]
    assert [name for name in names if is_manifest(name)] == ["a.yaml", "b.yml", "c.json"]


def outcome(text: str) -> tuple[int, str]:
    """How many objects were taken, and what was wrong."""
    try:
        return len(read(text)), ""
    except Malformed as refused:
        return 0, refused.problem


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
WHOLE = [
    {**found.object, "status": {"allocation": found.allocation}}
    for found in read("---".join([pod(claim=DIRECT), CLAIM, SCHEDULED]))
]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in inner for path in paths(item, (*at, key)))]


@given(st.data())
def test_any_value_is_accepted_or_rejected_with_one_line(data: st.DataObject) -> None:
    whole = json.loads(json.dumps(data.draw(st.sampled_from(WHOLE))))
    *way, last = data.draw(st.sampled_from([path for path in paths(whole) if path]))
    place = whole
    for part in way:
        place = place[part]
    place[last] = data.draw(values)
    taken, problem = outcome(json.dumps(whole))
    assert (taken, bool(problem), "\n" in problem) in ((1, False, False), (0, True, False))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
def test_arbitrary_bytes_are_rejected_with_one_line(data: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        parse(data, "node-a")
    assert "\n" not in refused.value.problem
