"""The parts of a page, for tests."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "input", "link", "img", "hr"}


@dataclass
class Element:
    """One element."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    """All text in it."""


@dataclass
class Parts(HTMLParser):
    """The elements of a page in order. Raises AssertionError if an element is not closed."""

    page: str
    elements: list[Element] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def of(self, tag: str, with_class: str = "") -> list[Element]:
        """The elements with a tag, and with a class if one is given."""
        found = [one for one in self.elements if one.tag == tag]
        return [one for one in found if not with_class or with_class in (one.attributes.get("class") or "").split()]
