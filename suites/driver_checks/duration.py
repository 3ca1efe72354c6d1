"""How long the experiments of a run usually take. Pure."""

from collections.abc import Sequence

from drahealth.suites.driver_checks.experiment import Experiment
from drahealth.suites.driver_checks.settings import Settings, plan

REAL_SERVER = 10.0
"""Seconds until a real API server of a driver process is ready."""


def duration(settings: Settings) -> float:
    """Seconds that the experiments usually take."""
    by_process: dict[str, list[Experiment]] = {}
    for experiment, excluded in plan(settings):
        if not excluded:
            by_process.setdefault(experiment.process, []).append(experiment)
    times = [_seconds(settings, experiments) for experiments in by_process.values()]
    servers = REAL_SERVER * (len(times) if settings.sequential else 1) if settings.api_server == "real" else 0.0
    return (sum(times) if settings.sequential else max(times, default=0.0)) + servers


def _seconds(settings: Settings, experiments: Sequence[Experiment]) -> float:
    """The time of one process: experiments wait for those that must be done or have ended before."""
    waiting, ends = {one.name: one for one in experiments}, dict[str, float]()
    while waiting:
        for one in list(waiting.values()):
            before = {one.requires, *one.after}
            if not before & waiting.keys():
                start = max((ends.get(name, 0.0) for name in before), default=0)
                ends[waiting.pop(one.name).name] = start + settings.seconds_of(one)
    return max(ends.values(), default=0.0)
