"""Makes the target that a run asks for. Each is imported only where it is used."""

from drahealth.suites.local.progress import Progress
from drahealth.suites.options import Options
from drahealth.suites.target import Target


def make_target(options: Options, progress: Progress) -> Target:
    """The target, not started. Raises HarnessError if it cannot be had on this machine."""
    if options.target == "kubelet":
        from drahealth.suites.kubelet import KubeletTarget

        return KubeletTarget(options.kubernetes, options.profile, progress, processes=options.driver == "process")
    from drahealth.suites.reference import ReferenceTarget

    return ReferenceTarget(options.profile, processes=options.driver == "process")
