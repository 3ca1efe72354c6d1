"""Docker or Podman by its command line."""

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.kind.ownership import Container, node_containers
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine

_PODMAN = "#!/bin/sh\necho {root} $*\n"


async def test_docker_is_found_with_its_identity(fake: FakeEngine) -> None:
    engine = await find_engine()
    assert (engine.name, engine.identity) == ("docker", "docker AB:CD")


async def test_podman_is_used_if_docker_does_not_answer(fake: FakeEngine) -> None:
    fake.install("podman", _PODMAN)
    fake.says("refusal", "Cannot connect to the Docker daemon. Is the docker daemon running?")
    assert (await find_engine()).name == "podman"


async def test_the_variable_of_kind_chooses_the_engine(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.install("podman", _PODMAN)
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    engine = await find_engine()
    assert engine.environment == {"KIND_EXPERIMENTAL_PROVIDER": "podman"}


async def test_podman_under_the_name_of_docker_is_podman(fake: FakeEngine) -> None:
    fake.says("version", "podman version 5.0.0")
    fake.install("podman", _PODMAN)
    assert (await find_engine()).name == "podman"


@pytest.mark.parametrize(
    ("named", "sentence"),
    [("nerdctl", "docker or podman, got nerdctl; unset"), ("podman", "which is not on the PATH; install it")],
)
async def test_unknown_or_missing_engine_in_the_variable_is_rejected(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, named: str, sentence: str
) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", named)
    with pytest.raises(HarnessError, match=f"^KIND_EXPERIMENTAL_PROVIDER .*{sentence}"):
        await find_engine()


async def test_missing_container_engine_raises_an_error(fake: FakeEngine) -> None:
    fake.uninstall("docker")
    with pytest.raises(HarnessError, match=r"no container engine; install Docker \("):
        await find_engine()


async def test_the_error_of_the_only_engine_is_raised(fake: FakeEngine) -> None:
    fake.says("refusal", "permission denied while trying to connect to the Docker daemon socket")
    with pytest.raises(
        HarnessError, match=r"^Could not run `docker ps -q` because you have no permission .*; join its group"
    ):
        await find_engine()


async def test_nodes_are_the_containers_of_all_clusters(fake: FakeEngine) -> None:
    fake.add("one", "/kind/mine")
    assert await node_containers(Engine("docker")) == [
        Container(
            id="one-control-plane",
            name="one-control-plane",
            cluster="one",
            role="control-plane",
            mounts=("/kind/mine", "/var"),
        )
    ]


async def test_no_clusters_have_no_nodes(fake: FakeEngine) -> None:
    assert await node_containers(Engine("docker")) == []


async def test_a_node_removed_during_a_read_is_ignored(fake: FakeEngine) -> None:
    script = (
        '#!/bin/sh\ncase $1 in ps) echo gone ;; *) echo "[]"; echo "Error: No such container: gone" >&2; exit 1 ;; esac'
    )
    fake.install("docker", script)
    assert await node_containers(Engine("docker")) == []


async def test_an_image_has_an_id_or_is_missing(fake: FakeEngine) -> None:
    engine = Engine("docker")
    assert [await engine.image_id("here:1"), await engine.image_id("gone:1")] == ["here:1", None]


async def test_an_engine_error_is_not_a_missing_image(fake: FakeEngine) -> None:
    fake.says("refusal", "Is the docker daemon running?")
    with pytest.raises(HarnessError, match="because the container engine is not running"):
        await Engine("docker").image_id("here:1")


async def test_a_command_that_takes_too_long_is_named(fake: FakeEngine) -> None:
    fake.install("docker", "#!/bin/sh\nexec /bin/sleep 60\n")
    with pytest.raises(HarnessError, match=r"^`docker build -t x \.\.\.` did not end within 0.3 s; check that"):
        await Engine("docker").run("build", "-t", "x", ".", limit=0.3)
