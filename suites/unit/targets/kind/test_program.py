"""The kind program."""

import tempfile
from pathlib import Path

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.kind.program import Kind, Stages, find_kind, node_image, other_release
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine

KIND = Kind(Engine("docker"))


async def test_kind_is_found_with_its_version(fake: FakeEngine) -> None:
    assert (await find_kind(Engine("docker"))).version == "v0.33.0"


@pytest.mark.parametrize("version", ["v0.29.0", "v0.9.9"])
async def test_old_kind_version_is_rejected(fake: FakeEngine, version: str) -> None:
    fake.says("kind-version", f"kind {version} go1.24 linux/amd64")
    with pytest.raises(HarnessError, match=rf"^kind {version} is too old .*; install kind v0\.30 or newer"):
        await find_kind(Engine("docker"))


async def test_missing_kind_program_raises_an_error(fake: FakeEngine) -> None:
    fake.uninstall("kind")
    with pytest.raises(HarnessError, match=r"^The program kind was not found on the PATH; install kind"):
        await find_kind(Engine("docker"))


async def test_program_without_a_kind_version_is_rejected(fake: FakeEngine) -> None:
    fake.says("kind-version", "hello")
    with pytest.raises(HarnessError, match=r"no version: 'hello'; install kind"):
        await find_kind(Engine("docker"))


async def test_a_cluster_is_made_from_the_configuration_with_its_own_kubeconfig(
    fake: FakeEngine, tmp_path: Path
) -> None:
    await KIND.create("one", "image:1", "kind: Cluster\n", tmp_path / "kubeconfig")
    wanted = f"kind create cluster --name one --image image:1 --config - --kubeconfig {tmp_path}/kubeconfig"
    assert fake.calls == [wanted]
    assert (fake.root / "config").read_text() == "kind: Cluster\n"


async def test_the_stages_of_kind_are_shown(fake: FakeEngine, tmp_path: Path) -> None:
    fake.says("kind-says", "warning\nCreating cluster ...\n • Preparing nodes 📦   ...\n ✓ Preparing nodes 📦\n bye")
    stages: list[str] = []
    await KIND.create("one", "image:1", "", tmp_path / "kubeconfig", stages.append)
    assert stages == ["Preparing nodes"]


def test_a_long_stage_is_shown_with_its_seconds() -> None:
    told: list[str] = []
    stages = Stages("Making the cluster", told.append)
    for line in ("kind create (5 s)", "• Ensuring node image (a/b:1) 🖼️  ...", "• Ensuring ... (5 s)", "? (10 s)"):
        stages(line)
    image = "Ensuring node image (a/b:1)"
    assert told == ["Making the cluster (5 s)", image, f"{image} (5 s)", f"{image} (10 s)"]


async def test_a_failed_kind_has_a_reason(fake: FakeEngine, tmp_path: Path) -> None:
    fake.says("kind-exits", "1")
    fake.says("kind-says", 'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "one"')
    with pytest.raises(HarnessError, match=r"^Could not make the cluster one with i:1 because a cluster with"):
        await KIND.create("one", "i:1", "", tmp_path / "kubeconfig")


async def test_deleting_a_cluster_does_not_use_the_users_kubeconfig(fake: FakeEngine) -> None:
    fake.add("one")
    fake.add("two")
    await KIND.delete("one")
    assert fake.containers == ["two-control-plane"]
    assert "--kubeconfig" in fake.calls[0]


async def test_a_docker_image_is_loaded_directly(fake: FakeEngine) -> None:
    await KIND.load("image:1", "one")
    assert fake.calls == ["kind load docker-image image:1 --name one"]


async def test_a_podman_image_is_loaded_from_an_archive(fake: FakeEngine) -> None:
    fake.install("podman", '#!/bin/sh\necho "podman $1 $6" >> {root}/calls\n')
    await Kind(Engine("podman")).load("image:1", "one")
    save, load = fake.calls
    assert save == "podman save image:1"
    assert load.startswith("kind load image-archive ")


@pytest.mark.parametrize("doing", ["delete", "load"])
async def test_a_missing_temporary_folder_is_an_error(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(fake.root / "nowhere"))
    podman = Kind(Engine("podman"))
    with pytest.raises(HarnessError, match=r"temporary folder: .*; free some disk space, or set TMPDIR to"):
        await (podman.delete("one") if doing == "delete" else podman.load("image:1", "one"))


async def test_all_clusters_have_names(fake: FakeEngine) -> None:
    assert await KIND.names() == ["one", "two"]


async def test_kind_uses_the_engine_it_was_given(fake: FakeEngine) -> None:
    fake.install("kind", "#!/bin/sh\necho $KIND_EXPERIMENTAL_PROVIDER\n")
    assert await Kind(Engine("podman")).names() == ["podman"]


def test_the_node_image_is_that_of_kind_unless_another_is_named(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node_image("1.37.1") == "kindest/node:v1.37.1"
    monkeypatch.setenv("DRAHEALTH_NODE_IMAGE", "theirs:1")
    assert [node_image("1.37.1"), node_image("1.37.1", "named:1")] == ["theirs:1", "named:1"]


@pytest.mark.parametrize(
    ("version", "reused", "named"),
    [
        ("v1.36.0+x", "", ("node image i:1", "1.36.0", "1.37.1", "--image")),
        ("v1.36.0", "mine", ("cluster mine", "1.36.0", "1.37.1", "--reuse")),
    ],
)
def test_another_release_than_the_wanted_one_is_an_error(version: str, reused: str, named: tuple[str, ...]) -> None:
    error = other_release("1.37.1", version, "i:1", reused=reused)
    assert [words for words in named if words not in str(error)] == []
