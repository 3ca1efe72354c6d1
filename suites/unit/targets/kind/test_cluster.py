"""The cluster of a run: errors, existing clusters, locks, and what workers read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kind.cluster import (
    ClusterMaker,
    hold,
)
from drahealth.suites.targets.kind.options import OPTIONS, KindOptions
from drahealth.suites.targets.kind.ownership import records
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.progress import silent
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


async def refusal(**given: str) -> HarnessError:
    """What is said when a cluster cannot be made; nothing of it is on record afterwards."""
    options: Mapping[str, str] = {name.replace("_", "-"): value for name, value in given.items()}
    maker = ClusterMaker(KindOptions.of(Values(options, OPTIONS)), "1.37.1", {}, silent, lambda: False)
    with pytest.raises(HarnessError) as refused:
        await maker.up()
    assert records() == []
    return refused.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "one"}, "the kind cluster one exists; choose another --name, or pass --reuse one"),
        (
            {"reuse": "three"},
            "there is no kind cluster three; kind has one, two; remove --reuse to make a new one",
        ),
    ],
    ids=["taken", "missing"],
)
async def test_a_taken_or_unknown_name_is_an_error(fake: FakeEngine, given: dict[str, str], said: str) -> None:
    assert str(await refusal(**given)) == said
    assert not [call for call in fake.calls if "create" in call or "delete" in call]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (b"kind: Cluster\nname: \xff\n", "must be UTF-8, got an invalid byte at position 21"),
        (b"kind: Cluster\n", "line 1: it has no `apiVersion: kind.x-k8s.io/v1alpha4`"),
    ],
    ids=["bytes", "shape"],
)
async def test_a_configuration_that_cannot_be_merged_starts_nothing(
    fake: FakeEngine, tmp_path: Path, config: bytes, said: str
) -> None:
    file = tmp_path / "kind.yaml"
    file.write_bytes(config)
    error = await refusal(kind_config=str(file))
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert str(file) in str(error)
    assert not [call for call in fake.calls if "create" in call]


async def test_a_cluster_that_kind_cannot_make_leaves_nothing(fake: FakeEngine) -> None:
    fake.says("kind-exits", "1")
    fake.says("kind-says", "ERROR: failed to create cluster: no space left on device")
    error = await refusal(name="mine", driver_image="here:1")
    assert "no space" in str(error) or "disk" in str(error)
    assert fake.containers == []


# An existing cluster that runs use.


def test_one_run_at_a_time_uses_a_cluster(tmp_path: Path) -> None:
    held = hold("mine", "AB:CD", tmp_path)
    with pytest.raises(HarnessError, match=r"another run uses the cluster mine"):
        hold("mine", "AB:CD", tmp_path)
    hold("mine", "EF:GH", tmp_path).release()
    held.release()
    hold("mine", "AB:CD", tmp_path).release()


def test_an_unwritable_lock_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match=r"cluster mine in .*/file: .* set XDG_STATE_HOME"):
        hold("mine", "AB:CD", tmp_path / "file")
