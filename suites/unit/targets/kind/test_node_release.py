"""The release of a cluster, and the requested release."""

import pytest

from drahealth.suites.targets.engine import find_engine
from drahealth.suites.targets.kind.program import differs, release_of
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


@pytest.mark.parametrize(
    ("wanted", "found", "exact", "different"),
    [
        ("1.37.0", "v1.37.0", True, False),
        ("1.37.0", "v1.37.1+build", True, True),
        ("1.37.0", "v1.37.1+build", False, False),
        ("1.37.0", "v1.36.0", False, True),
        ("1.3.0", "1.37.0", False, True),
    ],
)
def test_a_named_release_includes_the_patch_version(wanted: str, found: str, exact: bool, different: bool) -> None:
    assert differs(wanted, found, exact=exact) is different


async def test_a_node_image_names_its_release(fake: FakeEngine) -> None:
    fake.says("image-version", "v1.36.1")
    engine = await find_engine()
    assert [await release_of(engine, image) for image in ("here:1", "elsewhere:1")] == ["v1.36.1", None]


async def test_an_image_may_name_no_release(fake: FakeEngine) -> None:
    assert await release_of(await find_engine(), "here:1") is None
