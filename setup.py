"""The packages of drahealth: each folder is `drahealth.FOLDER`, and `ci/package/drahealth` is their parent.

The rest is in pyproject.toml, which cannot put found packages below another name.
"""

from setuptools import find_packages, setup

PARTS = ("proto", "manager", "fakes", "suites")
INCLUDE = [pattern for part in PARTS for pattern in (part, f"{part}.*")]

setup(
    packages=["drahealth", *(f"drahealth.{name}" for name in find_packages(include=INCLUDE, exclude=["suites.unit*"]))],
    package_dir={"drahealth": "ci/package/drahealth", **{f"drahealth.{part}": part for part in PARTS}},
)
