"""Manifest files: their objects, and what the API server rejects."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.manager_command.manifests import Applier, Rejected, is_manifest, parse
from drahealth.suites.unit.manager_command.rig import CLAIM, DIRECT, SCHEDULED, pod

KINDS = "Pod, ResourceClaim, ResourceClaimTemplate, DeviceClass, Namespace"
SOURCES = "`resourceClaimName`, `resourceClaimTemplateName`"
NO_SOURCE = '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def read(text: str) -> list[Any]:
    return list(parse(text.encode(), "node-a"))


async def problem_of(text: bytes) -> tuple[int, str]:
    """The line and the error of a file, as the program reads it; no error for a valid one."""
    applier = Applier(ApiServer(), Path("pods"), "node-a", lambda file, line, problem: None)
    try:
        await applier.read("file.yaml", text)
    except Rejected as rejected:
        return rejected.line, rejected.problem
    return 0, ""


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


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "the file is empty; to delete its objects, delete the file"),
        ("- a", 1, "a manifest must be a mapping with apiVersion, kind, metadata and spec"),
        ("a: [", 1, "invalid YAML: expected the node content, but found '<stream end>'"),
        (pod().replace("kind: Pod", "kind: Job"), 3, f"unsupported kind 'Job'; supported kinds: {KINDS}"),
        (pod().replace("v1", "v2"), 2, "apiVersion of a Pod must be v1, got 'v2'"),
        (pod().replace("name: job", "nome: job"), 4, "invalid metadata.name of a Pod: nothing"),
        (pod("Job"), 4, "invalid metadata.name of a Pod: 'Job'"),
        (pod() + "  nodeName: b\n", 9, "nodeName must be node-a, got b; remove it"),
        (f"{pod()}---{pod()}", 10, "duplicate object Pod default/job"),
        (pod().replace("job", '"\\ud800"'), 2, "it has a number or a text that JSON does not have"),
        (pod(image=".nan"), 2, "it has a number or a text that JSON does not have"),
        ("x: [*a]", 1, "invalid YAML: found undefined alias 'a'"),
    ],
)
async def test_unreadable_manifest_is_rejected_with_the_line_number(text: str, line: int, problem: str) -> None:
    assert await problem_of(text.encode()) == (line, problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (pod(image="5"), "Pod default/job: spec.containers[0].image must be a string, got 5"),
        (
            pod(claim="resourceClaimName: null"),
            f"Pod default/job: spec.resourceClaims[0]: Invalid value: {NO_SOURCE}: must specify one of: {SOURCES}",
        ),
        (
            pod().replace("image:", "iamge:"),
            'Pod default/job: spec.containers[name="main"].iamge: field not declared in schema',
        ),
        (
            pod().replace("name: main", "nome: main"),
            "Pod default/job: an element of a list needs the keys name, got {'nome': 'main', 'image': 'one'}",
        ),
        (pod().replace("{name: job}", "{name: job, namespace: a.b}"), "Pod a.b/job: invalid namespace 'a.b'"),
        (
            CLAIM.replace("device: gpu-0", "device: 5"),
            "ResourceClaim default/gpu: status.allocation.devices.results[0].device must be a string, got 5",
        ),
    ],
)
async def test_object_that_the_api_server_rejects_is_named_with_its_field(text: str, problem: str) -> None:
    assert await problem_of(text.encode()) == (0, problem)


def test_only_manifest_file_names_are_accepted() -> None:
    names = ["a.yaml", "b.yml", "c.json", "d.txt", ".e.yaml", "default.job.status.yaml", "f.yaml~"]
    assert [name for name in names if is_manifest(name)] == ["a.yaml", "b.yml", "c.json"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
WHOLE = [found.named(found.key[2]) for found in read("---".join([pod(claim=DIRECT), CLAIM, SCHEDULED]))]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in inner for path in paths(item, (*at, key)))]


@given(st.data())
async def test_any_value_is_accepted_or_rejected_with_one_line(data: st.DataObject) -> None:
    whole = json.loads(json.dumps(data.draw(st.sampled_from(WHOLE))))
    *way, last = data.draw(st.sampled_from([path for path in paths(whole) if path]))
    place = whole
    for part in way:
        place = place[part]
    place[last] = data.draw(values)
    _, problem = await problem_of(json.dumps(whole).encode())
    assert "\n" not in problem


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
async def test_arbitrary_bytes_are_rejected_with_one_line(data: bytes) -> None:
    _, problem = await problem_of(data)
    assert (bool(problem), "\n" in problem) == (True, False)
