"""TOML as a document with lines, so that errors are reported as those of YAML files. Pure.

`tomllib` reads the values, but no lines. Tree-sitter's grammar of TOML gives the position of each key.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator

from drahealth.fakes.program.user_files import Document, FileError, Place, Problem


def toml_document(text: str, source: str) -> Document:
    """The document of a text. Raises FileError for invalid TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, position = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", position)
        last = len(text.splitlines()) or 1
        raise FileError(source, [Problem(int(line[1]) if line else last, "", f"invalid TOML: {what}")]) from None
    except RecursionError:
        raise FileError(source, [Problem(1, "", "invalid TOML: too many levels")]) from None
    return Document(data, source, dict(_lines(text)))


def _lines(text: str) -> Iterator[tuple[Place, int]]:
    """The line of each table, key and element, the first one last, so that it decides."""
    import tree_sitter_toml  # only to read profiles
    from tree_sitter import Language, Node, Parser

    tables = Counter[Place]()

    def name(key: Node) -> str:
        (found,) = tomllib.loads(f"{(key.text or b'').decode()} = 0")
        return str(found)

    def keys(node: Node) -> list[str]:
        if node.type == "dotted_key":
            return [part for child in node.named_children for part in keys(child)]
        return [name(node)]

    def within(place: Place, names: list[str]) -> Place:
        """The place of these names; a name of a list of tables stands for its last table."""
        for part in names:
            place = (*place, part)
            if tables[place]:
                place = (*place, tables[place] - 1)
        return place

    def walk(node: Node, place: Place) -> Iterator[tuple[Place, int]]:
        line = node.start_point.row + 1
        match node.type:
            case "table":
                place = within((), keys(node.named_children[0]))
                yield place, line
                for child in node.named_children[1:]:
                    yield from walk(child, place)
            case "table_array_element":
                *outer, last = keys(node.named_children[0])
                listed = (*within((), outer), last)
                tables[listed] += 1
                yield listed, line
                yield (*listed, tables[listed] - 1), line
                for child in node.named_children[1:]:
                    yield from walk(child, (*listed, tables[listed] - 1))
            case "pair":
                key, value = [child for child in node.named_children if child.type != "comment"]
                for part in keys(key):
                    place = (*place, part)
                    yield place, line
                yield from walk(value, place)
            case "array":
                elements = [child for child in node.named_children if child.type != "comment"]
                for number, child in enumerate(elements):
                    yield (*place, number), child.start_point.row + 1
                    yield from walk(child, (*place, number))
            case "document" | "inline_table":
                for child in node.named_children:
                    yield from walk(child, place)
            case _:
                pass

    root = Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node
    yield from reversed(list(walk(root, ())))
