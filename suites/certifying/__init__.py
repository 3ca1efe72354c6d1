"""Certification of drivers: `drahealth certify`, on top of the checks: `suites.checking` never imports it.

- `certificate` is what a run certifies, and how reports are compared.
- `faults` has the fault adapters, which break and heal the devices of a driver.
- `profile` is the driver profile: one TOML file that says how to start a driver and what it can do.
- `report` has the report as data, and what is made from it: a page, a badge, a text for a pull request.
"""
