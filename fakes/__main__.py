"""`python -m drahealth.fakes`: the command with proto and fakes only."""

from drahealth.fakes.command import main

main()
