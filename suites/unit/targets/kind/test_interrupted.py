"""A run that is interrupted while kind creates its cluster."""

import signal
import subprocess
import sys

import pytest

from drahealth.suites.targets.kind.ownership import records
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine

RUN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from drahealth.suites.command import main
sys.argv[1:] = "run --target kind --name mine --driver-image here:1".split()
main()
"""
SLOW_KIND = """#!/bin/sh
PATH=/usr/bin:/bin
cd {root}
case "$1 $2" in
"version "*) cat kind-version ;;
"create cluster") cat > config; exec sleep 60 ;;
"delete cluster") rm -f containers/* ;;
esac
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_run_leaves_no_cluster(fake: FakeEngine, how: signal.Signals) -> None:
    fake.install("kind", SLOW_KIND)
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        assert run.stderr
        said = [next(line for line in run.stderr if line.startswith(b"Making the cluster mine"))]
        run.send_signal(how)
        said += run.stderr.readlines()
    assert (run.returncode, said[1:]) == (3, [b"Removing the cluster mine\n", b"drahealth: interrupted\n"])
    assert (records(), fake.containers) == ([], [])
