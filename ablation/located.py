"""YAML with places: plain data, the line of every key, and problems that name file, line and key.

YAML 1.2 without its traps: no tags, directives, merge keys, duplicate keys or keys that are not text; nothing that is
not finite, larger than 64 bits, nested too deeply or expanded to absurd size by aliases. What is wrong is reported,
all of it, and stands as `BAD` in the data, so that reading goes on without a second complaint.
"""

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ablation import durable

MAX_BYTES = 256 * 1024
MAX_NODES = 100_000  # after the expansion of aliases
MAX_DEPTH = 50
LARGEST = 2**63 - 1

KeyPath = tuple[str | int, ...]  # the keys and list positions from the document's root to a value

BAD: Final[Any] = type("Bad", (), {"__repr__": lambda _: "BAD"})()  # stands for a value whose problem is reported


@dataclass(frozen=True)
class Problem:
    """One mistake. `file` is the file, or ``--set KEY`` for a value from the command line, which has no line."""

    file: str
    line: int | None
    key: str  # such as grid.batch_size[2]; empty for the whole file
    message: str  # what is wrong; what would be right

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.key, self.message) if part)


@dataclass
class Document:
    """Plain data with the place of everything in it, and what is wrong with it."""

    file: str
    text: str = ""
    data: Any = BAD
    places: dict[KeyPath, int | str] = field(default_factory=lambda: {(): 1})  # a line, or the --set that gave it
    _problems: dict[Problem, None] = field(default_factory=dict)

    def report(self, path: KeyPath, message: str, key: str | None = None) -> None:
        """Add a problem, once, at the innermost known place of `path`; `key` where the path is not what to show."""
        place = self.place(path)
        shown_key = dotted(path) if key is None else key
        if isinstance(place, str):
            self.add(Problem(place, None, shown_key, message))
        else:
            self.add(Problem(self.file, place, shown_key, message))

    def place(self, path: KeyPath) -> int | str:
        """The line of `path`, or the ``--set KEY`` that gave it; where it is absent, those of what would hold it."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def add(self, problem: Problem) -> None:
        """Add a problem that has its place already."""
        self._problems[problem] = None

    @property
    def problems(self) -> list[Problem]:
        """Everything reported so far, by line; what the command line gave comes last."""
        return sorted(self._problems, key=lambda p: (p.line is None, p.line or 0))

    def put(self, path: KeyPath, value: "Document") -> None:
        """Record that the data at `path` now is `value`'s, which came from the command line, with its problems."""
        for old in [place for place in self.places if place[: len(path)] == path]:
            del self.places[old]
        self.places.update({path + inner: value.file for inner in value.places})
        for problem in value.problems:
            self.add(replace(problem, line=None))


def read(path: Path) -> Document:
    """The document in a file; an unreadable file gives a document whose data is `BAD` and that says why."""
    document = Document(str(path))
    try:
        raw = durable.read(path, MAX_BYTES)
    except durable.DamagedError as error:
        document.add(Problem(str(path), None, "", f"{error}; give the path of a sweep file"))
        return document
    except OSError as error:
        document.add(Problem(str(path), None, "", f"cannot be read: {error.strerror or error}"))
        return document
    except ValueError as error:  # a NUL in the name
        document.add(Problem(repr(str(path)), None, "", f"cannot be read: {error}"))
        return document
    try:
        return parse(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        document.add(Problem(str(path), line, "", "is not UTF-8 text; save the file as UTF-8"))
        return document


def parse(text: str, file: str) -> Document:
    """The document in `text`, which problems say to be in `file`; data None where there is nothing but comments."""
    document = Document(file, text)
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    if wrong := _not_accepted(text):
        document.add(Problem(file, *wrong))
        return document
    try:
        node = yaml.compose(text)
    except RecursionError:
        document.add(Problem(file, 1, "", _TOO_DEEP))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.add(Problem(file, line, "", f"is not YAML: has the control character {error.character:#x}"))
    except MarkedYAMLError as error:
        document.add(_not_yaml(file, error))
    except (YAMLError, ValueError, OverflowError) as error:  # an escape beyond Unicode, for one
        escape = re.search(r"\\U(?!000|0010)[0-9A-Fa-f]{8}", text)
        line = text.count("\n", 0, escape.start()) + 1 if escape else 1
        document.add(Problem(file, line, "", f"is not YAML: {error}"))
    else:
        document.data = None if node is None else _Reader(document, yaml.resolver).value(node, (), 0)
    return document


def _not_yaml(file: str, error: MarkedYAMLError) -> Problem:
    """Where reading stopped, and where began what was being read."""
    began, stopped = error.context_mark, error.problem_mark or error.context_mark
    context = str(error.context or "")
    if began and stopped and began.line != stopped.line:
        context += f" that begins in line {began.line + 1}"
    reason = " ".join(part for part in (context, str(error.problem or "")) if part)
    return Problem(file, stopped.line + 1 if stopped else 1, "", f"is not YAML: {reason}")


_TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels"


def _not_accepted(text: str) -> tuple[int, str, str] | None:
    """Line, key and message of what ruamel must not see: it obeys directives, and slows with the square of brackets."""
    for line, content in enumerate(text.splitlines(), 1):
        if content.startswith("%"):
            return line, "", "directives such as %YAML are not accepted; this is YAML 1.2"
    depth = 0
    for bracket in re.finditer(r"[\[{\]}]", text):  # those in comments and quotes included
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > 4 * MAX_DEPTH:
            return text.count("\n", 0, bracket.start()) + 1, "", _TOO_DEEP
    return None


class _TooLargeError(Exception):
    """The document nests too deeply or its aliases expand to too much; with the line, no key, and the message."""


class _Reader:
    """Turns ruamel's nodes into plain data, noting places and problems in a document."""

    def __init__(self, document: Document, resolver: Any) -> None:
        self.document = document
        self.resolver = resolver
        self.nodes = 0

    def value(self, node: Node, path: KeyPath, depth: int) -> Any:
        self.document.places.setdefault(path, node.start_mark.line + 1)
        self.nodes += 1
        try:
            return self._value(node, path, depth)
        except _TooLargeError as error:
            if depth:
                raise
            self.document.add(Problem(self.document.file, *error.args))
            return BAD

    def _value(self, node: Any, path: KeyPath, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _TooLargeError(node.start_mark.line + 1, "", _TOO_DEEP)
        if self.nodes > MAX_NODES:
            raise _TooLargeError(1, "", f"has more than {MAX_NODES:,} values")
        plain = isinstance(node, ScalarNode) and node.style is None
        if node.tag != self.resolver.resolve(type(node), node.value, (plain, not plain)):
            self.document.report(path, f"has the tag {node.tag}; tags are not accepted")
            return BAD
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        return self._scalar(node.tag.rpartition(":")[2], node.value, path)

    def _mapping(self, node: MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path, line)
            if key is None:
                continue
            if key in data:
                first = self.document.places[*path, key]
                message = "stands twice" if first == line else f"stands twice; the first is in line {first}"
                self._report_at(line, (*path, key), message)
                continue
            self.document.places[*path, key] = line
            data[key] = self.value(value_node, (*path, key), depth + 1)
        return data if data or not node.value else BAD  # a mapping of nothing but refused keys is not empty

    def _key(self, node: Node, path: KeyPath, line: int) -> str | None:
        shown_key = node.value if isinstance(node, ScalarNode) else "a collection"
        if node.tag == "tag:yaml.org,2002:merge":
            self._report_at(line, (*path, "<<"), "YAML 1.2 has no merge key; write the keys out")
        elif node.tag != "tag:yaml.org,2002:str":
            self._report_at(line, path, f"a key should be a word, not {shown_key}")
        elif not _printable(shown_key):
            self._report_at(line, path, "a key has a control character")
        elif not shown_key.isascii():
            odd = next(c for c in shown_key if not c.isascii())
            name = unicodedata.name(odd, f"U+{ord(odd):04X}")
            self._report_at(line, (*path, shown_key), f"has the character {name}; keys are plain ASCII")
        else:
            return str(shown_key)
        return None

    def _report_at(self, line: int, path: KeyPath, message: str) -> None:
        self.document.add(Problem(self.document.file, line, dotted(path), message))

    def _scalar(self, kind: str, text: str, path: KeyPath) -> Any:
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float"):
            try:
                return (self._integer if kind == "int" else self._float)(text.replace("_", "").lower(), path)
            except ValueError:  # such as 0o_, a number to YAML by its form
                self.document.report(path, f"{text} is no number; in quotes it is a text")
                return BAD
        if not _printable(text):
            self.document.report(path, "has a control character")
            return BAD
        return text  # dates as well

    def _integer(self, text: str, path: KeyPath) -> Any:
        digits = text.lstrip("+-")
        number = int(text, 0 if digits[:2].lower() in ("0x", "0o", "0b") else 10) if len(digits) < 70 else LARGEST + 1
        if abs(number) <= LARGEST:
            return number
        self.document.report(path, "is too large; whole numbers are below 2**63")
        return BAD

    def _float(self, text: str, path: KeyPath) -> Any:
        number = float("inf") if text.lstrip("+-") in (".inf", ".nan") else float(text)
        if abs(number) < float("inf"):
            return number
        self.document.report(path, f"should be finite, not {text}")
        return BAD


def _printable(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cs") for c in text if c not in "\n\t")


def dotted(path: KeyPath) -> str:
    """A path as text, such as ``grid.batch_size[2]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def shown(value: object) -> str:
    """A value as a message shows it: as JSON, in at most 60 characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + "..."
    return repr(text) if isinstance(value, str) else text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    return next(iter(difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.65)), None)


def suggestion(word: str, known: Iterable[str]) -> str:
    """What would be right instead of `word`: the nearest known word, or all of them."""
    known = list(known)
    near = nearest(word, known)
    return f"did you mean {near}?" if near else f"known: {', '.join(known)}"
