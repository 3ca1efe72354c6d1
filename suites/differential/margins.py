"""How long a target may take over what no event tells of. Data: real seconds, for a loaded machine of two cores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Margins:
    """`receipt`: from a driver's message until the kubelet has dealt with it; `each`: the same for each device in it.
    `rounds`: how often the fence pod is changed. A kubelet syncs a pod again only once it has looked at its containers
    since the last sync, which it does every second: the fence pod's second change comes after such a look, and so after
    what waited for it. `settle`: from the fence pod's status to those of other pods that were told before it.
    `stuck`: from a sync that is asked for to its status; after that the fence pod is asked, whether it is refused.
    `reopened`: past the retry, until a stream is open again. `restarted`: until all streams are, after a restart of
    the kubelet. `started`: until a pod runs, if its status is not refused; `gone`: until a deleted one is gone.
    """

    receipt: float
    each: float
    rounds: int
    settle: float
    stuck: float
    reopened: float
    restarted: float
    started: float
    gone: float


REAL = Margins(
    receipt=0.15,
    each=0.0001,
    rounds=2,
    settle=0.3,
    stuck=3.0,
    reopened=3.0,
    restarted=20.0,
    started=30.0,
    gone=12.0,
)
REFERENCE = Margins(
    receipt=0.1, each=0.00005, rounds=2, settle=0.1, stuck=2.0, reopened=1.5, restarted=5.0, started=5.0, gone=5.0
)
