"""Extracts the prose of this repository: sentences of Markdown pages, docstrings, error messages and help texts.

Pure. Code blocks, inline code, links and fields of f-strings are removed or replaced by one word.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import typer
from typer.core import TyperCommand, TyperGroup

from drahealth.fakes.program.usage import CommandGroup

# A sentence ends at a full stop, question mark or exclamation mark before a space; abbreviations do not end it.
END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)[\"')*]*\s+|\s+·\s+")
CODE = "CODE"  # stands for inline code and for the fields of an f-string


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, with the file or command and the line that it begins near."""

    where: str
    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of words; punctuation alone does not count."""
        return sum(any(c.isalnum() for c in word) for word in self.text.split())


def sentences(where: str, line: int, text: str) -> list[Sentence]:
    """Splits one paragraph."""
    plain = re.sub(r"\s+", " ", _without_markup(text)).strip()
    return [Sentence(where, line, part) for part in END.split(plain) if part]


def markdown(where: str, text: str) -> Iterator[Sentence]:
    """The sentences of a Markdown page: paragraphs, list items, headings and table cells, without code blocks."""
    for line, block in _blocks(text.splitlines()):
        cells = block.strip("| ").split(" | ") if block.startswith("|") else [block]
        for cell in cells:
            yield from sentences(where, line, cell)


def docstrings(where: str, source: str) -> Iterator[Sentence]:
    """The sentences of all docstrings of a module, including those after fields and constants."""
    for node in _expressions(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = inspect.cleandoc(node.value.value)
            yield from (Sentence(where, node.lineno, found.text) for found in markdown(where, text))


def error_messages(where: str, source: str) -> Iterator[Sentence]:
    """The sentences of the string literals in exceptions: in `raise X("...")` and in `XError("...")`."""
    for node in _expressions(source):
        if isinstance(node, ast.Call) and _name(node.func).endswith("Error"):
            for argument in node.args:
                text = _literal(argument)
                if text:
                    yield from sentences(where, node.lineno, text)


@lru_cache(maxsize=1)
def _expressions(source: str) -> list[ast.Expr | ast.Call]:
    """The expressions that are statements, and the calls, of a module. Parsing is most of the work."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr | ast.Call)]


def help_texts(command: TyperCommand | TyperGroup, path: str) -> Iterator[Sentence]:
    """The sentences of a command's help: its own, its options' and arguments', its subcommands'."""
    context = typer.Context(command)
    for text in [command.help or "", *(getattr(option, "help", None) or "" for option in command.get_params(context))]:
        for _, block in _blocks(text.replace("\b", "").splitlines()):
            yield from sentences(path, 0, block)
    if isinstance(command, CommandGroup):
        for name in command.list_commands(context):
            yield from help_texts(command.load(name), f"{path} {name}")


def _blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, headings and table rows, each with its line number, counted from 1."""
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            fenced = not fenced
        code = fenced or line.startswith(("```", "<!--")) or (line.startswith("    ") and not block)
        begins = re.match(r"\s*([-*] |\d+\. |#+ |\|)", line)
        if block and (code or begins or not line.strip()):
            yield start, " ".join(block)
            block = []
        if code or not line.strip() or re.fullmatch(r"[|\s:-]+", line):
            continue
        if not block:
            start = number
        block.append(re.sub(r"^\s*([-*] |\d+\. |#+ )", "", line).strip())


def _without_markup(text: str) -> str:
    text = re.sub(r"“[^”]*”", CODE, text)  # quotations
    text = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"``[^`]*``|`[^`]*`", CODE, text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+|<br>|\*\*", " ", text)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _literal(node: ast.expr) -> str:
    """The text of a string or f-string; a field counts as one word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) if isinstance(part, ast.Constant) else CODE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _literal(node.left) + _literal(node.right)
    return ""
