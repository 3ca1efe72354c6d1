"""Makes the target that a run asks for. Each is imported only where it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drahealth.suites.targets.gates import feature_gates
from drahealth.suites.targets.options import Options
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.target import Target

if TYPE_CHECKING:
    from drahealth.suites.targets.kind.cluster.site_maker import SiteMaker


@dataclass(frozen=True)
class Shared:
    """What a worker of a distributed run is told: the file about the site, and its own number."""

    site: Path
    worker: int


def site_maker(options: Options, progress: Progress, failed: Callable[[], bool]) -> "SiteMaker":
    """Makes the site that the options ask for. `failed` says at the end whether a scenario has failed."""
    from drahealth.suites.targets.kind.cluster.site_maker import SiteMaker

    return SiteMaker(options.kind, options.kubernetes, feature_gates(options.profile), progress, failed)


def make_target(options: Options, progress: Progress, failed: Callable[[], bool], shared: Shared | None) -> Target:
    """The target, not started. `failed` says at the end whether a scenario has failed.

    Raises HarnessError if it cannot be had on this machine.
    """
    if options.target == "kubelet":
        from drahealth.suites.targets.kubelet.binaries.ensure import ensure
        from drahealth.suites.targets.kubelet.target import KubeletTarget

        # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
        found = ensure(options.kubernetes, progress)
        return KubeletTarget(found, options.profile, processes=options.driver == "process")
    if options.target == "kind":
        from drahealth.suites.targets.kind.cluster.site import SharedSite
        from drahealth.suites.targets.kind.target import KindTarget

        if shared:
            return KindTarget(SharedSite(shared.site), options.profile, worker=shared.worker)
        return KindTarget(site_maker(options, progress, failed), options.profile)
    from drahealth.suites.targets.reference.target import ReferenceTarget

    return ReferenceTarget(options.profile, processes=options.driver == "process")
