"""`ci/differential` is this: `python -m drahealth.suites.differential`. It needs the extra `test`."""

import drahealth.suites.kep  # noqa: F401 -- first: it quiets gRPC
from drahealth.suites.differential.command import main

main()
