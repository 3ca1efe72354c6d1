"""One process makes the cluster, and its workers hear of it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.run.distribution import SharedCluster, shared, want
from drahealth.suites.targets.kind.cluster.site import SharedSite
from drahealth.suites.targets.kind.cluster.site_maker import SiteMaker
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.progress import silent
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


def worker(told: dict[str, Any]) -> pytest.Config:
    """The configuration of a worker process that was told this."""
    return cast("pytest.Config", SimpleNamespace(workerinput={"workerid": "gw3", **told}))


def test_a_process_that_was_told_of_no_cluster_makes_its_own(fake: FakeEngine) -> None:
    assert shared(worker({})) is None
    assert shared(cast("pytest.Config", SimpleNamespace())) is None


def test_workers_hear_why_there_is_no_cluster_and_it_is_tried_once(fake: FakeEngine) -> None:
    told: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        maker = SiteMaker(KindOptions(name="one"), "1.37.1", {}, silent, lambda: False)
        cluster = SharedCluster(maker, lambda work: runner.run(cast("Any", work)))
        cluster.tell(told)
        cluster.make()  # nobody has a scenario yet
        found = shared(worker(told))
        assert found
        assert not found.site.exists()
        want(found)
        cluster.make()
        cluster.make()
        with pytest.raises(HarnessError, match="There is a kind cluster one already; choose another --name"):
            runner.run(SharedSite(found.site).up())
        cluster.close()
    assert (found.worker, found.site.exists(), fake.calls.count("kind get clusters")) == (3, False, 1)
