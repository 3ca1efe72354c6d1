"""A YAML tree that can be changed and written without changing any scalar.

The tree keeps the text (YAML 1.2) instead of Python values: `0x1F`, `"yes"` and `6s` are written as they were read.
Aliases and merge keys are expanded, so a change in one place has no effect elsewhere. Comments are lost.
"""

import io
import warnings
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from drahealth.suites.errors import ConfigurationError

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_MOST_NODES = 20_000
"""How large a document may get by its aliases."""
_WIDTH = 1 << 20


class Malformed(Exception):
    """Invalid text: `problem` at `line`, which starts at 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem, line)
        self.problem = problem
        self.line = line

    def as_configuration_error(self, where: str, hint: str = "") -> ConfigurationError:
        """The error for the user; `where` names the text."""
        return ConfigurationError(f"{where}, line {self.line}: {self.problem}", hint)


def documents(text: str) -> list[Node]:
    """The documents of a YAML text. Raises Malformed for invalid YAML, and for endless expansion."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", YAMLWarning)  # an anchor may be used again
            found = [node for node in YAML(typ="safe", pure=True).compose_all(text) if node is not None]
        return [_Expansion().of(node) for node in found]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Malformed(_sentence(error.problem or error.context), mark.line + 1 if mark else 1) from None
    except RecursionError:
        raise Malformed("it is nested too deeply", 1) from None
    except (YAMLError, ValueError) as error:
        raise Malformed(_sentence(str(error)), 1) from None


def dump(node: Node) -> str:
    """The text of a tree."""
    yaml, stream = YAML(), io.StringIO()
    yaml.width = _WIDTH
    yaml.serialize(node, stream)
    return stream.getvalue()


def line_of(node: Node) -> int:
    """The line at which the node starts in its text, from 1; 0 for a new node."""
    return node.start_mark.line + 1 if node.start_mark else 0


def scalar(value: str, tag: str = "str", style: str | None = None) -> ScalarNode:
    """A new scalar; `style` is None for a plain one, or `|`."""
    return ScalarNode(_TAG + tag, value, style=style)


def sequence(*items: Node) -> SequenceNode:
    """A new list."""
    return SequenceNode(_TAG + "seq", list(items), flow_style=False)


def mapping(**items: Node) -> MappingNode:
    """A new mapping."""
    return MappingNode(_TAG + "map", [(scalar(key), value) for key, value in items.items()], flow_style=False)


def get(node: Node, key: str) -> Node | None:
    """The value of a key; None if the key is missing or null, or the node is no mapping."""
    found = next((value for name, value in pairs(node) if name == key), None)
    return None if found is None or is_null(found) else found


def put(node: MappingNode, key: str, value: Node) -> None:
    """Sets the value of a key, in place of an existing one."""
    for index, (name, _) in enumerate(node.value):
        if name.value == key:
            node.value[index] = (name, value)
            return
    node.value.append((scalar(key), value))


def pairs(node: Node | None) -> Iterator[tuple[str, Node]]:
    """The keys with their values; none if the node is no mapping."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key.value, value


def items(node: Node | None) -> list[Node]:
    """The items of a list; none if the node is no list."""
    return list(node.value) if isinstance(node, SequenceNode) else []


def text(node: Node | None) -> str:
    """The text of a scalar, "" of anything else."""
    return node.value if isinstance(node, ScalarNode) else ""


def is_null(node: Node) -> bool:
    """Whether the value is null."""
    return isinstance(node, ScalarNode) and node.tag == _TAG + "null"


class _Expansion:
    """Copies a document's tree, with every alias and merge key written out."""

    def __init__(self) -> None:
        self._left = _MOST_NODES
        self._within: set[int] = set()

    def of(self, node: Node) -> Node:
        self._left -= 1
        if self._left < 0:
            raise Malformed("its aliases make the document too large", line_of(node))
        if id(node) in self._within:
            raise Malformed("an alias refers to a node that contains the alias", line_of(node))
        self._within.add(id(node))
        copy = self._copy(node)
        self._within.discard(id(node))
        return copy

    def _copy(self, node: Node) -> Node:
        marks = {"start_mark": node.start_mark, "end_mark": node.end_mark}
        if isinstance(node, SequenceNode):
            return SequenceNode(node.tag, [self.of(item) for item in node.value], flow_style=node.flow_style, **marks)
        if isinstance(node, MappingNode):
            return MappingNode(node.tag, self._entries(node), flow_style=node.flow_style, **marks)
        assert isinstance(node, ScalarNode)
        style = '"' if node.style == ">" else node.style  # what was folded is not folded again in the same way
        return ScalarNode(node.tag, node.value, style=style, **marks)

    def _entries(self, node: MappingNode) -> list[tuple[Node, Node]]:
        keys = [_identity(key) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise Malformed(f"duplicate key {key[1]!r}", line_of(node))
        own = [(self.of(key), self.of(value)) for key, value in node.value if key.tag != _MERGE]
        for key, value in node.value:
            if key.tag == _MERGE:
                own += self._merged(value, keys)
        return own

    def _merged(self, value: Node, names: list[tuple[str, str]]) -> Iterator[tuple[Node, Node]]:
        for source in value.value if isinstance(value, SequenceNode) else [value]:
            if not isinstance(source, MappingNode):
                raise Malformed("`<<` can merge only mappings", line_of(value))
            for key, copied in self._entries(source):
                if _identity(key) not in names:
                    names.append(_identity(key))
                    yield key, copied


def _identity(key: Node) -> tuple[str, str]:
    if not isinstance(key, ScalarNode):
        raise Malformed("a key is not a string", line_of(key))
    return str(key.tag), key.value


def _sentence(problem: str | None) -> str:
    return " ".join((problem or "it is not YAML").split()) or "it is not YAML"
