"""The module behind `ci/differential`: `python -m drahealth.suites.differential`. It needs the extra `test`."""

import drahealth.suites.kep  # noqa: F401 -- first, because it silences the log of gRPC
from drahealth.suites.differential.command import main

main()
