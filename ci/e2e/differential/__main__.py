"""The module behind `ci/e2e/check-differential`: `python -m differential`. It needs the extra `test`."""

from differential.running import main

main()
