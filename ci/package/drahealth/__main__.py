"""`python -m drahealth`: the command `drahealth`, also where its script is not on the PATH."""

from drahealth.suites.__main__ import main

if __name__ == "__main__":
    main()
