"""Counts the entries of a large YAML file before it is read.

libyaml counts the entries of a file many times faster than ruamel.yaml reads them.
"""

from collections.abc import Iterator

MAX_ENTRIES = 100_000
"""Entries of a document."""
_LARGE = 2 * MAX_ENTRIES
"""Characters; a smaller file cannot have more entries."""


def excess(text: str | bytes) -> int | None:
    """The line of the first entry that is too many in its document; None if there is none.

    Also None for invalid YAML, because its reader reports that better.
    """
    if len(text) < _LARGE:
        return None
    import yaml  # slow import, needed only for large files

    count = 0
    try:
        for line in _entries(text):
            count = count + 1 if line else 0
            if count > MAX_ENTRIES:
                return line
    except yaml.YAMLError:
        return None
    return None


def _entries(text: str | bytes) -> Iterator[int]:
    """The line of each key and of each element of a list, from 1; 0 at the start of a document."""
    import yaml

    loader = getattr(yaml, "CLoader", yaml.Loader)
    within: list[bool | None] = []  # in a mapping: whether a key comes next; in a list: None
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.DocumentStartEvent):
            yield 0
        elif isinstance(event, yaml.NodeEvent):
            if within and within[-1] is not False:
                yield event.start_mark.line + 1
            if within and within[-1] is not None:
                within[-1] = not within[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                within.append(True if isinstance(event, yaml.MappingStartEvent) else None)
        elif isinstance(event, yaml.CollectionEndEvent):
            within.pop()
