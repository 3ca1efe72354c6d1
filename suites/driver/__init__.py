"""`drahealth check` as a pytest suite: `pytest --pyargs drahealth.suites.driver --drahealth-check COMMAND`."""
