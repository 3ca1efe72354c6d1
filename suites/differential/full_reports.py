"""Reports at the limit of devices of a driver (H-13): one that fills the list, and others that replace names in it."""

from collections.abc import Sequence

from hypothesis import strategies as st

from drahealth.manager.profile import V1_37
from drahealth.suites.differential.script import Reading

MOST = V1_37.devices_per_driver or 0
TIMEOUT = 10
"""Seconds: longer than the handling of a full report."""
_POOL = "full"
_TIMEOUTS = (0, 0, 3600, TIMEOUT)


@st.composite
def readings(draw: st.DrawFn, held: Sequence[tuple[str, str]], is_full: bool) -> tuple[Reading, ...]:
    """A report with about as many devices as the limit. `held` are the pools and names of devices that pods can hold.

    In a list that is full already, it has other names in place of some earlier ones.
    """
    new = draw(st.sampled_from((1, 2, 300))) if is_full else 0
    kept = MOST - new - draw(st.sampled_from((0, 0, 1, 2, 5)))
    timeout = draw(st.sampled_from(_TIMEOUTS))
    says = [Reading(_POOL, "kept", draw(st.sampled_from((1, 2))), timeout=timeout, count=kept)]
    if new:
        says.append(Reading(_POOL, draw(st.sampled_from(("new", "newer"))), 1, timeout=timeout, count=new))
    for pool, name in held:
        if draw(st.booleans()):
            says.append(Reading(pool, name, draw(st.sampled_from((1, 2, 2))), draw(st.sampled_from(("", "hot")))))
    return tuple(draw(st.permutations(says)))


def pause(says: Sequence[Reading]) -> float:
    """Seconds until the short timeouts of the report are over."""
    return TIMEOUT + 1.0 if any(reading.timeout == TIMEOUT for reading in says) else 0.0
