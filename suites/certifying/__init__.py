"""Certification of drivers, on top of the checks: `suites.checking` never imports it.

- `report` has the report as data, and what is made from it: a page, a badge, a text for a pull request.
"""
