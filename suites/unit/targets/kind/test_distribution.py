"""One process creates the cluster and shares it with its workers."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.run.session import WorkerEnvironment, request, shared_file
from drahealth.suites.targets.kind.cluster import ClusterMaker, PreparedCluster
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.pods.target import Joined, Shared
from drahealth.suites.targets.progress import silent
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


def worker(received: dict[str, Any]) -> pytest.Config:
    """The configuration of a worker process that received this."""
    return cast("pytest.Config", SimpleNamespace(workerinput={"workerid": "gw3", **received}))


def test_a_process_without_a_controller_makes_its_own_cluster(fake: FakeEngine) -> None:
    assert shared_file(worker({})) is None
    assert shared_file(cast("pytest.Config", SimpleNamespace())) is None


def test_workers_get_the_error_of_a_cluster_that_is_made_once(fake: FakeEngine) -> None:
    received: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        maker = ClusterMaker(KindOptions(name="one"), "1.37.1", {}, silent, lambda: False)
        environment = WorkerEnvironment(Shared(maker), lambda work: runner.run(cast("Any", work)))
        environment.announce(received)
        environment.make()  # no worker has scenarios yet
        found = shared_file(worker(received))
        assert found
        assert not found.path.exists()
        request(found)
        environment.make()
        environment.make()
        with pytest.raises(HarnessError, match="kind cluster one exists"):
            runner.run(Joined(found, PreparedCluster).up())
        environment.close()
    assert (found.worker, found.path.exists(), fake.calls.count("kind get clusters")) == (3, False, 1)
