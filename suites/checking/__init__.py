"""Checks of DRA drivers: `drahealth check` runs experiments, writes evidence, and judges it.

- `experiments` are what is done to a driver. Each writes events, and decides nothing.
- `evidence` is the file of one run: a header, the events with their times and experiments, and a closing line.
- `ledger` has the requirements that bind drivers.
- `checks` are pure functions from evidence to findings, one or more for each requirement.
- `judge` calls the checks and combines their findings to one verdict for each requirement, and one for the driver.
"""
