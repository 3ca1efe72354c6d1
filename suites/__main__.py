"""The entry point of `drahealth`, also as `python -m drahealth.suites`.

Commands of the fakes run without the rest of `drahealth`, so that `drahealth ctl` starts faster.
"""

import sys

from drahealth.fakes.program.usage import take_variable

OF_FAKES = ("ctl", "driver")


def main() -> None:
    """Runs the command in `sys.argv`."""
    take_variable()
    if sys.argv[1:2] and sys.argv[1] in OF_FAKES:
        from drahealth.fakes.command import main as run
    else:
        from drahealth.suites.command import main as run
    run()


if __name__ == "__main__":
    main()
