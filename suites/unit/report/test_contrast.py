"""The colours of the page: readable by WCAG 2.2, level AA, in each theme."""

import re

import pytest

from drahealth.suites.report.page import text_of
from drahealth.suites.report.text import COLORS

TEXT = ("text", "faint", "link", "good", "bad", "open", "calm", "static")
GRAPHICS = ("healthy", "unhealthy", "unknown", "late", "report")
NAMES = ("light", "dark", "print")


def themes() -> dict[str, dict[str, str]]:
    """The colours of each theme, by name. Print keeps those of light that it does not replace."""
    blocks = re.findall(r":root \{(.*?)\}", text_of("page.css"), re.DOTALL)
    found = [dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block)) for block in blocks]
    light, dark, printed = found
    return dict(zip(NAMES, (light, dark, light | printed), strict=True))


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", NAMES)
def test_text_has_a_contrast_of_at_least_4_5(theme: str) -> None:
    colors = themes()[theme]
    low = [(name, on) for name in TEXT for on in ("back", "panel") if contrast(colors[name], colors[on]) < 4.5]
    assert low == []


@pytest.mark.parametrize("theme", NAMES)
def test_graphics_have_a_contrast_of_at_least_3(theme: str) -> None:
    colors = themes()[theme]
    assert [name for name in GRAPHICS if contrast(colors[name], colors["panel"]) < 3] == []


def test_white_text_of_the_badge_has_a_contrast_of_at_least_4_5() -> None:
    assert [name for name, color in COLORS.items() if contrast(color, "#ffffff") < 4.5] == []
