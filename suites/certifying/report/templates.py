"""The templates of this folder. All text that they insert is escaped."""

from functools import cache
from importlib import resources
from typing import Any


def render(name: str, **values: Any) -> str:
    """The template with these values. Raises jinja2.UndefinedError for a missing one."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render(values)


@cache
def text_of(name: str) -> str:
    """The content of a file of this folder."""
    return resources.files("drahealth.suites.certifying.report").joinpath(name).read_text(encoding="utf-8")
