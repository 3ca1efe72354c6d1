"""Tools that test drahealth itself. They are not installed: `ci/` is on the import path of tests and scripts."""
