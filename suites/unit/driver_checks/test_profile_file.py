"""Driver profiles as files: every mistake has its key, and the run is that of the file."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.program.user_files import FileError
from drahealth.suites.commands import certify_run
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.profile.starting import driver_profile_schema
from drahealth.suites.driver_checks.subject.sandbox import Sandbox

FIRST = 'format = "driver-profile/v1"\n'
SMALL = FIRST + '[driver]\ncommand = ["./driver", "--dir={driver_dir}"]\n'
DEMO = """\
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: single, namespace: demo}
spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: demo}
"""


ONE_PROCESS = "[abilities]\nrolling-update = true\nseveral-processes = false\n"


def problems(tmp_path: Path, text: str) -> list[str]:
    """The key of each mistake, or the line of text that is no TOML; empty for the whole file."""
    path = tmp_path / "gpu.toml"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_profile(path)
    return [problem.where or (f"line {problem.line}" if problem.line else "") for problem in caught.value.problems]


def run_of(tmp_path: Path, text: str) -> DriverRun:
    path = tmp_path / "gpu.toml"
    path.write_text(text)
    return read_profile(path)


def test_profile_gives_a_run(tmp_path: Path) -> None:
    more = 'name = "gpu.example.com"\ngrace = "1m30s"\nenvironment = {LOG = "x"}\n[claim]\ndevices = "all"\n'
    found = run_of(tmp_path, SMALL + more)
    driver = found.profile.driver
    assert (driver.command, driver.name, driver.environment, driver.grace, found.profile.claim.devices) == (
        ("./driver", "--dir={driver_dir}"),
        "gpu.example.com",
        {"LOG": "x"},
        90.0,
        "all",
    )
    assert (found.level, found.name, driver.working_directory) == ("core", "gpu", tmp_path)


def test_paths_of_a_running_driver_are_relative_to_the_file(tmp_path: Path) -> None:
    found = run_of(tmp_path, FIRST + '[driver]\nrunning = {registry-dir = "reg", kubeconfig = "/etc/k"}\n')
    running = found.profile.driver.running
    assert running
    assert (running.registry_dir, found.profile.kubeconfig) == (tmp_path / "reg", Path("/etc/k"))


def test_cluster_of_a_kubeconfig_is_the_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    found = run_of(tmp_path, SMALL + '[api-server]\nkubeconfig = "~/.kube/config"\n')
    assert (found.profile.api_server_kind, found.profile.kubeconfig) == ("kubeconfig", Path("/home/user/.kube/config"))
    other = certify_run.run_of(tmp_path / "gpu.toml", api_server="memory").profile
    assert (other.api_server_kind, other.kubeconfig) == ("memory", None)


def test_sandbox_and_helpers_are_those_of_the_file(tmp_path: Path) -> None:
    helper = '[[helper]]\ncommand = ["daemon"]\nready = "{driver_dir}/d"\nlimit = "1m"\n[[helper]]\ncommand = ["nri"]\n'
    found = run_of(tmp_path, SMALL + '[sandbox]\nprivate = ["/dev"]\n' + helper)
    assert found.sandbox == Sandbox(private=("/dev",))
    daemon, nri = found.profile.helper
    assert (daemon.command, daemon.ready, daemon.limit) == (("daemon",), "{driver_dir}/d", 60.0)
    assert (nri.command, nri.ready, nri.limit) == (("nri",), "", 30.0)


def test_driver_that_cannot_run_twice_is_checked_one_process_at_a_time(tmp_path: Path) -> None:
    assert run_of(tmp_path, SMALL + "[abilities]\nseveral-processes = false\n").profile.sequential


def test_all_mistakes_are_reported_at_once_with_their_keys(tmp_path: Path) -> None:
    text = (
        FIRST + '[driver]\ncommand = [\n  "./driver",\n  "--d={drvier_dir}",\n]\ngrase = "10s"\n'
        'environment = { "A B" = "x" }\n[api-server]\nkind = "memroy"\n# a comment\n[claim]\n'
        "devices = 0\n[faults]\n"
    )
    assert problems(tmp_path, text) == [
        "api-server.kind",
        "claim.devices",
        "driver.command.1",
        "driver.environment.A B",
        "driver.grase",
        "faults",
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "driver"),
        (FIRST + "[driver\n", "line 2"),
        (FIRST + "[driver]\ncommand = [", "line 3"),
        (FIRST + "[driver]\ncommand = []\n", "driver"),
        (SMALL + "running = {registry-dir = '/r'}\n", "driver"),
        (FIRST + "[driver]\nrunning = {}\n", "driver.running"),
        (FIRST + "[driver]\ngrace = 1\nrunning = {socket = '/r'}\n", "driver.grace"),
        (SMALL + "grace = '5s..10s'\n", "driver.grace"),
        (SMALL + "name = 'A B'\n", "driver.name"),
        (SMALL + "working-directory = 'nowhere'\n", "driver.working-directory"),
        (SMALL + "[api-server]\nkubernetes = '1.37.1'\n", "api-server"),
        (SMALL + "[api-server]\nkind = 'real'\nkubeconfig = 'k'\n", "api-server"),
        (SMALL + "[api-server]\nkind = 'none'\nobjects = ['a.yaml']\n", "api-server"),
        (SMALL + "[api-server]\nobjects = [\n'a.yaml']\n", "api-server.objects.0"),
        (SMALL + "[claim]\ndevices = 2\nmanifests = ['a.yaml']\n", "claim"),
        (SMALL + "[sandbox]\nnamespaces = ['mounts']\n", "sandbox.namespaces.0"),
        (SMALL + "[sandbox]\nprivate = ['dev']\n", "sandbox.private.0"),
        (SMALL + "[sandbox]\nnamespaces = ['pid']\nprivate = ['/dev']\n", "sandbox"),
        (SMALL + "[[helper]]\n", "helper.0.command"),
        (SMALL + "[[helper]]\ncommand = ['{x}']\n", "helper.0.command.0"),
        (SMALL + "[[helper]]\ncommand = ['a']\nready = 'b'\nready-command = ['{x}']\n", "helper.0"),
        (SMALL + "[[helper]]\ncommand = ['a']\nready = 'b'\n[[helper]]\ncommand = []\nlimit = 5\n", "helper.1.command"),
        (FIRST + "[driver]\nrunning = {socket = '/r'}\n[sandbox]\n", ""),
        (SMALL + "[abilities]\nrolling-update = true\n", ""),
        (SMALL.replace("driver_dir", "pod_uid") + ONE_PROCESS, ""),
        (FIRST + "[driver]\nrunning = {socket = '/r'}\n[abilities]\nrolling-update = true\n", ""),
        (SMALL.replace("/v1", "/v2"), "format"),
        ("[driver]\ncommand = ['./d']\n", "format"),
    ],
)
def test_wrong_profile_is_rejected_at_a_key(tmp_path: Path, text: str, where: str) -> None:
    assert where in problems(tmp_path, text)


@pytest.mark.parametrize("key", ["fault", "helper"])
def test_single_brackets_around_a_list_are_named(tmp_path: Path, key: str) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(SMALL + f"[{key}]\n")
    with pytest.raises(FileError, match=rf"\[\[{key}\]\]") as caught:
        read_profile(path)
    assert [problem.where for problem in caught.value.problems] == [key]


def test_unknown_key_names_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(SMALL.replace("command", "comand"))
    with pytest.raises(FileError, match="unknown key; did you mean `command`"):
        read_profile(path)


@pytest.mark.parametrize(
    ("heal", "where"),
    [("{ run = 'text' }", "fault.0.heal.run"), ("{ rum = ['x'] }", "fault.0.heal.rum"), ("5", "fault.0.heal")],
)
def test_wrong_value_of_several_types_has_one_error(tmp_path: Path, heal: str, where: str) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(f"{SMALL}[[fault]]\nname = 'a'\nbreak = {{ run = ['x'] }}\nheal = {heal}\n")
    with pytest.raises(FileError) as caught:
        read_profile(path)
    assert [problem.where for problem in caught.value.problems] == [where]


@given(st.text(alphabet="[]{}=\"#.\n abc1,\\'é"))
def test_any_text_is_read_or_rejected_with_a_key_or_a_line_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(SMALL + text)
    found = [1]
    try:
        read_profile(path)
    except FileError as error:
        found = [problem.line for problem in error.problems]
    assert 0 <= min(found) <= max(found) <= len((SMALL + text).split("\n"))


def test_manifests_of_a_demo_give_claims_of_the_newest_version(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(DEMO)
    found = run_of(tmp_path, SMALL + '[claim]\nmanifests = ["demo.yaml"]\n').claim
    assert [one["kind"] for one in found] == ["Namespace", "ResourceClaim"]
    assert found[1]["spec"]["devices"]["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        "kind: Pod\nmetadata: {name: p}\n",
        "kind: ResourceClaim\nspec: {}\n",
        "[]\n",
        "a: [\n",
        "kind: ResourceClaim\napiVersion: v3\n",
    ],
)
def test_wrong_manifest_is_a_mistake_at_its_name(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "demo.yaml").write_text(manifest)
    found = problems(tmp_path, SMALL + "[claim]\nmanifests = ['demo.yaml']\n")
    assert {where.removesuffix(".0") for where in found} == {"claim.manifests"}


@pytest.mark.parametrize(
    "manifest",
    [
        "kind: Pod\n",
        "kind: Pod\napiVersion: v1\n",
        "kind: Pood\napiVersion: v1\nmetadata: {name: a}\n",
        "kind: DeviceClass\nmetadata: {name: a}\n",
        "kind: DeviceClass\napiVersion: resource.k8s.io/v3\nmetadata: {name: a}\n",
        "- 1\n",
    ],
)
def test_wrong_object_is_a_mistake_at_its_name(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "objects.yaml").write_text(manifest)
    assert set(problems(tmp_path, SMALL + "[api-server]\nobjects = ['objects.yaml']\n")) == {"api-server.objects.0"}


def test_objects_can_be_of_any_kind(tmp_path: Path) -> None:
    kinds = [("v1", "ConfigMap"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("example.com/v1", "Node")]
    texts = [f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n" for version, kind in kinds]
    (tmp_path / "objects.yaml").write_text("---\n".join(texts))
    found = run_of(tmp_path, SMALL + "[api-server]\nobjects = ['objects.yaml']\n").objects
    assert [(one["apiVersion"], one["kind"]) for one in found] == kinds


def test_schema_accepts_a_profile_that_the_model_accepts(tmp_path: Path) -> None:
    text = SMALL + 'grace = "5s"\n[api-server]\nkind = "real"\nkubernetes = "1.37.1"\n[claim]\ndevices = "all"\n'
    run_of(tmp_path, text)
    jsonschema.validate(tomllib.loads(text), json.loads(json.dumps(driver_profile_schema())))


def test_device_plugin_is_the_subject_of_its_profile(tmp_path: Path) -> None:
    path = tmp_path / "plugin.toml"
    path.write_text(FIRST + '[driver]\nkind = "device-plugin"\ncommand = ["./plugin", "{device_plugins_dir}"]\n')
    assert read_profile(path).profile.subject == "device-plugin"


def test_device_plugin_must_be_started(tmp_path: Path) -> None:
    text = FIRST + '[driver]\nkind = "device-plugin"\nrunning = { registry-dir = "/r" }\n'
    assert problems(tmp_path, text) == ["driver"]


@pytest.mark.parametrize("name", ["pod_uid", "instance"])
def test_driver_with_distinct_instances_supports_rolling_update(tmp_path: Path, name: str) -> None:
    more = "[abilities]\nrolling-update = true\n"
    assert run_of(tmp_path, SMALL.replace("driver_dir", name) + more).profile.abilities.rolling_update
    assert not run_of(tmp_path, SMALL).profile.abilities.rolling_update
