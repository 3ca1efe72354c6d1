"""The experiments as data: what each does, which driver process it needs, and what it costs."""

from dataclasses import dataclass
from typing import Literal

Process = Literal["main", "refused", "restarted", "cut-off"]
"""Label of a driver process. Each has its own directories, API server objects and node name; all run side by side."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment."""

    name: str
    sentence: str
    """What it does."""
    process: Process
    seconds: float
    """The usual duration. Experiments of different processes run side by side."""
    needs: frozenset[Literal["start", "claim", "api-server", "health"]] = frozenset()
    """`start`: drahealth starts the driver. `claim`: the driver publishes a device that can be allocated, or the user
    gives a claim. `api-server`: the driver uses an API server that drahealth controls. `health`: it serves a health
    API."""


EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            "registration", "Wait for the registration socket, call GetInfo, and accept the registration.", "main", 2
        ),
        Experiment("services", "Call each DRA and health service, advertised or not.", "main", 1),
        Experiment(
            "slices",
            "List the ResourceSlices, and watch them until the end of the health watch.",
            "main",
            36,
            frozenset({"api-server"}),
        ),
        Experiment(
            "watch", "Watch each health API that the driver serves for 36 s.", "main", 36, frozenset({"health"})
        ),
        Experiment(
            "subscribers",
            "Open two more streams of a health API at once; cancel a third one, and subscribe again.",
            "main",
            36,
            frozenset({"health"}),
        ),
        Experiment(
            "claims",
            "Prepare and unprepare claims: one twice, several in a call, an unknown one, and one with a device that "
            "another claim holds.",
            "main",
            3,
            frozenset({"claim"}),
        ),
        Experiment(
            "slow-prepare",
            "Hold back the driver's read of a claim during Prepare, and open a health stream meanwhile.",
            "main",
            6,
            frozenset({"claim", "health", "api-server"}),
        ),
        Experiment("reregistration", "Register at the same socket again, as a restarted kubelet does.", "main", 1),
        Experiment(
            "end", "Send SIGTERM, wait for the exit, and list the sockets that remain.", "main", 2, frozenset({"start"})
        ),
        Experiment(
            "refused-registration",
            "Refuse the registration, and watch whether the driver keeps its socket or exits.",
            "refused",
            8,
            frozenset({"start"}),
        ),
        Experiment(
            "driver-restart",
            "Prepare a claim, kill the driver, start it again, prepare again, and unprepare.",
            "restarted",
            6,
            frozenset({"start", "claim"}),
        ),
        Experiment(
            "slice-deletion",
            "Delete a ResourceSlice, and wait until the driver publishes it again.",
            "restarted",
            5,
            frozenset({"start", "api-server"}),
        ),
        Experiment(
            "api-server-down",
            "Start the driver while its API server is down; start the API server, wait for slices, and stop it again.",
            "cut-off",
            20,
            frozenset({"start", "api-server"}),
        ),
    )
}
"""All experiments by name, in the order of a run."""
