"""The module behind `ci/differential`: `python -m drahealth.suites.differential`. It needs the extra `test`."""

from drahealth.suites.differential.command import main

main()
