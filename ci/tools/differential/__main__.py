"""The module behind `ci/differential`: `python -m tools.differential`. It needs the extra `test`."""

from tools.differential.running import main

main()
