"""Makes the target that a run asks for. Each is imported only where it is used."""

from drahealth.suites.binaries.progress import Progress
from drahealth.suites.options import Options
from drahealth.suites.targets.target import Target


def make_target(options: Options, progress: Progress) -> Target:
    """The target, not started. Raises HarnessError if it cannot be had on this machine."""
    if options.target == "kubelet":
        from drahealth.suites.binaries.ensure import ensure
        from drahealth.suites.targets.kubelet import KubeletTarget

        # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
        found = ensure(options.kubernetes, progress)
        return KubeletTarget(found, options.profile, processes=options.driver == "process")
    from drahealth.suites.targets.reference import ReferenceTarget

    return ReferenceTarget(options.profile, processes=options.driver == "process")
