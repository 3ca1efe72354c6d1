"""The owner of a cluster, and the removal of owned clusters."""

import tempfile
from datetime import UTC, datetime

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.kind.ownership import (
    Claim,
    ClusterSurvey,
    Container,
    Record,
    clean,
    default_base,
    holdings,
    mark,
    owned,
    records,
    remove,
    run_id_of,
    sweep,
)
from drahealth.suites.targets.kind.program import Kind
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine

ENGINE = "docker AB:CD"
DOCKER = Engine("docker", ENGINE)
KIND = Kind(DOCKER)
OLD = "2026-01-01T00:00:00+00:00"


def record(run_id: str, cluster: str = "c", engine: str = ENGINE, kept: bool = False, in_use: bool = False) -> Record:
    return Record(run_id, cluster, engine, OLD, kept, in_use)


def container(cluster: str, *mounts: str, role: str = "control-plane") -> Container:
    return Container(f"{cluster}-{role}", f"{cluster}-{role}", cluster, role, mounts)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drahealth.suites.targets.kind.ownership._AGAIN", 0.01)


def left_behind(fake: FakeEngine, cluster: str, *, kept: bool = False) -> Claim:
    claim = Claim.make(cluster, ENGINE)
    fake.add(cluster, mark(claim.run_id))
    if kept:
        claim.keep()
    claim.release()
    return claim


def test_records_are_sorted_by_the_containers_of_their_clusters() -> None:
    a, b, c = record("aaaa"), record("bbbb", kept=True), record("cccc", in_use=True, kept=True)
    d, e = record("dddd"), record("eeee", engine="docker other")
    there = [container(r.run_id, mark(r.run_id)) for r in (a, b, c, e)]
    assert holdings([a, b, c, d, e], there, ENGINE) == ClusterSurvey((a,), (b,), (c,), (d,), (e,))


def test_a_cluster_without_a_mark_is_never_ours() -> None:
    ours = record("aaaa", cluster="mine")
    assert holdings([ours], [container("mine", "/var")], ENGINE) == ClusterSurvey(gone=(ours,))


def test_a_marked_cluster_without_a_record_is_not_ours() -> None:
    assert holdings([], [container("theirs", mark("aaaa"))], ENGINE) == ClusterSurvey(unknown=("theirs",))


def test_a_load_balancer_belongs_to_its_nodes() -> None:
    node, balancer = container("a", mark("aaaa")), container("a", role="external-load-balancer")
    assert owned([node, balancer], "aaaa") == [node, balancer]
    assert owned([node, balancer, container("a", role="worker")], "aaaa") == [node]


@pytest.mark.parametrize(
    "mounts", [["/var"], [mark("aaaa"), mark("bbbb")], [f"{mark('aaaa')}/x"], [mark("aaaa") + "A"]]
)
def test_zero_two_or_half_marks_name_no_run(mounts: list[str]) -> None:
    assert run_id_of(mounts) is None


def test_a_run_id_is_hexadecimal() -> None:
    with pytest.raises(ValueError, match=r"^'\.\./x' is no run id: 4 to 64"):
        mark("../x")


async def test_a_sweep_removes_only_abandoned_clusters(fake: FakeEngine) -> None:
    fake.add("foreign")
    used = Claim.make("used", ENGINE)
    fake.add("used", mark(used.run_id))
    left_behind(fake, "kept", kept=True)
    left_behind(fake, "dead")
    assert [line.partition(",")[0] for line in await sweep(DOCKER, KIND)] == ["removed the cluster dead"]
    assert fake.containers == ["foreign-control-plane", "kept-control-plane", "used-control-plane"]
    assert sorted(r.cluster for r in records()) == ["kept", "used"]
    used.release()


async def test_a_cluster_kept_during_a_sweep_is_not_removed(fake: FakeEngine) -> None:
    claim = left_behind(fake, "mine")
    fake.before("docker", f": > {claim.folder}/kept")
    assert await sweep(DOCKER, KIND) == []
    assert ([(r.cluster, r.kept) for r in records()], fake.containers) == ([("mine", True)], ["mine-control-plane"])
    assert [line.partition(",")[0] for line in await sweep(DOCKER, KIND, kept=True)] == ["removed the cluster mine"]


async def test_a_cluster_of_ours_is_removed_by_its_name(fake: FakeEngine) -> None:
    left_behind(fake, "dead")
    await sweep(DOCKER, KIND)
    assert [call for call in fake.calls if call.startswith("kind delete cluster --name dead --kubeconfig /")]


async def test_nodes_that_share_their_name_with_others_are_removed_one_by_one(fake: FakeEngine) -> None:
    left_behind(fake, "dead")
    fake.add("dead", role="worker")
    await sweep(DOCKER, KIND)
    assert fake.containers == ["dead-worker"]
    assert not [call for call in fake.calls if call.startswith("kind delete")]


@pytest.mark.parametrize("how", ["missing", "broken", "idle", "without room"])
async def test_the_engine_removes_the_nodes_if_kind_fails(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    left_behind(fake, "dead")
    if how == "broken":
        fake.says("kind-is-broken", "")
    elif how == "idle":
        fake.install("kind", "#!/bin/sh\n")
    elif how == "without room":
        monkeypatch.setattr(tempfile, "tempdir", str(fake.root / "nowhere"))
    await sweep(DOCKER, None if how == "missing" else KIND)
    assert fake.containers == []
    assert "docker rm -f -v dead-control-plane" in fake.calls


async def test_a_failed_removal_keeps_its_record_and_removes_other_clusters(fake: FakeEngine) -> None:
    left_behind(fake, "stuck")
    left_behind(fake, "dead")
    fake.says("stuck", "stuck-control-plane")
    with pytest.raises(HarnessError, match=r"nodes stuck-control-plane"):
        await sweep(DOCKER, None)
    assert (fake.containers, [r.cluster for r in records()]) == (["stuck-control-plane"], ["stuck"])


async def test_a_new_record_without_a_cluster_is_not_removed(fake: FakeEngine) -> None:
    Claim.make("young", ENGINE).release()
    old = Claim.make("old", ENGINE)
    text = (old.folder / "record").read_text()
    (old.folder / "record").write_text(text.replace(old.record.made, OLD))
    old.release()
    assert await sweep(DOCKER, KIND) == []
    assert [r.cluster for r in records()] == ["young"]


async def test_a_run_removes_its_own_cluster_and_its_record(fake: FakeEngine) -> None:
    claim = Claim.make("mine", ENGINE)
    fake.add("mine", mark(claim.run_id))
    told: list[str] = []
    await remove(claim, DOCKER, KIND, lambda stage, done=None, total=None: told.append(stage))
    assert (fake.containers, records(), told) == ([], [], ["Removing the cluster mine"])


@pytest.mark.parametrize(("program", "verb"), [("kind", "delete"), ("docker", "rm")])
async def test_a_long_removal_is_shown_with_its_seconds(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, program: str, verb: str
) -> None:
    monkeypatch.setattr("drahealth.suites.processes.child.QUIET", 0.05)
    claim, told = left_behind(fake, "slow"), list[str]()
    fake.waits(program, verb)

    def listen(stage: str, done: int | None = None, total: int | None = None) -> None:
        told.append(stage)
        if stage.endswith(" s)") and fake.is_waiting:
            fake.goes_on()

    await remove(claim, DOCKER, KIND if program == "kind" else None, listen)
    assert told[:2] == ["Removing the cluster slow", "Removing the cluster slow (0 s)"]


async def test_removing_a_missing_cluster_is_harmless(fake: FakeEngine) -> None:
    await remove(Claim.make("mine", ENGINE), DOCKER, KIND)
    assert records() == []


async def test_clean_lists_removed_and_remaining_clusters(fake: FakeEngine) -> None:
    left_behind(fake, "dead")
    kept = left_behind(fake, "kept", kept=True)
    fake.add("foreign", mark("abcdef"))
    (removed, images), left = await clean()
    assert (removed.partition(",")[0], images) == ("removed the cluster dead", "images are not removed")
    assert left == [
        f"not removed: the cluster kept, created {kept.record.made}, is kept; pass --kept to remove it",
        "not removed: the cluster foreign, which has no record here",
    ]


async def test_clean_removes_kept_clusters_on_request(fake: FakeEngine) -> None:
    left_behind(fake, "kept", kept=True)
    await clean(kept=True)
    assert (fake.containers, records()) == ([], [])


async def test_clean_needs_no_engine_without_records(fake: FakeEngine) -> None:
    fake.uninstall("docker")
    assert await clean() == ([], [])
    assert not default_base().exists()


def test_the_age_of_a_record_is_counted_from_now() -> None:
    assert record("aaaa").age(datetime(2026, 1, 1, 0, 1, tzinfo=UTC)) == 60
