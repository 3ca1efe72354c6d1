"""`python -m drahealth.fakes`: the command where nothing but proto and fakes is."""

from drahealth.fakes.command import main

main()
