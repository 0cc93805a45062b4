"""YAML text as a tree that remembers where everything stood: safe, strict, and free of the traps of YAML 1.1.

Nothing is constructed: scalars keep their text until somebody asks for a number or a flag, so ``1.10`` stays ``1.10``
as a name and becomes a number only where a number is meant. What YAML readers disagree about (``010``, ``1:30``,
``on``) is refused with the remedy, and so is what an experiment file has no use for (anchors, tags, several documents).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import yaml

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 32

_LEADING_ZERO = re.compile(r"[-+]?0[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?", re.ASCII)
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.ASCII)
_SWITCHES = frozenset({"on", "off", "yes", "no"})


@dataclass(frozen=True, order=True)
class Issue:
    """One thing that is wrong with a file: where (counted from 1), under which key, and what to do."""

    line: int
    column: int
    path: str  #: such as ``variants[2].params``; empty for the file as a whole
    message: str

    def text(self, file: str) -> str:
        """Return the line that a user reads: ``file:line:column: path: message``."""
        where = f"{file}:{self.line}:{self.column}: "
        return f"{where}{self.path}: {self.message}" if self.path else where + self.message


@dataclass(frozen=True)
class Node:
    """A value in the file and where it starts, counted from 1."""

    line: int
    column: int
    path: str

    def issue(self, message: str) -> Issue:
        """Return an issue at this node."""
        return Issue(self.line, self.column, self.path, message)


@dataclass(frozen=True)
class Scalar(Node):
    """Text as it stands in the file; ``plain`` when it is neither quoted nor a block."""

    text: str
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """Whether there is no value: nothing after the colon, ``~`` or ``null``."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")

    @property
    def is_bool(self) -> bool:
        """Whether it is a bare ``true`` or ``false``."""
        return self.plain and self.text in ("true", "True", "TRUE", "false", "False", "FALSE")


@dataclass(frozen=True)
class Items(Node):
    """A list."""

    items: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Entries(Node):
    """A mapping in the order of the file; no key occurs twice."""

    entries: tuple[tuple[Scalar, Node], ...] = ()

    def get(self, name: str) -> Node | None:
        """Return the value of a key, or None."""
        return self._by_name[name][1] if name in self._by_name else None

    def key(self, name: str) -> Scalar | None:
        """Return the key itself, for its position."""
        return self._by_name[name][0] if name in self._by_name else None

    @cached_property
    def _by_name(self) -> dict[str, tuple[Scalar, Node]]:
        return {key.text: (key, value) for key, value in self.entries}

    def __iter__(self) -> Iterator[tuple[Scalar, Node]]:
        return iter(self.entries)


@dataclass(frozen=True)
class Broken(Node):
    """A value that was refused already; nobody need complain about it again."""


@dataclass
class _Open:
    """A list or mapping whose end has not been read."""

    node: Items | Entries
    values: list[Node] = field(default_factory=list)
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)  #: of the keys so far
    key: Scalar | Broken | None = None
    collecting_key: bool = False  #: this whole container is the key of another: refused


def load(content: bytes | str) -> tuple[Entries | None, list[Issue]]:
    """Return the root mapping (None when the syntax does not allow one) and everything that is wrong, by position."""
    text, issues = _decode(content)
    if text is None:
        return None, issues
    issues = _tabs(text)
    if issues:
        return None, issues
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
            if builder.stopped:
                break
    except yaml.MarkedYAMLError as error:
        builder.issues.append(_syntax_issue(error))
        builder.stopped = True
    except yaml.reader.ReaderError as error:
        builder.issues.append(_character_issue(text, error))
        builder.stopped = True
    root = builder.root
    if root is None and not builder.stopped:
        builder.issues.append(Issue(1, 1, "", "the file is empty: an experiment needs at least schema, name, problem "
                                    "and variants"))  # fmt: skip
    if isinstance(root, Scalar | Items):
        if isinstance(root, Scalar) and root.is_null:
            found = "nothing"
        else:
            found = "a list" if isinstance(root, Items) else "a single value"
        message = f"the file must be a mapping of keys (schema, name, problem, ...), not {found}"
        builder.issues.append(root.issue(message))
    issues = sorted(set(builder.issues))
    return (root if isinstance(root, Entries) and not builder.stopped else None), issues


def _decode(content: bytes | str) -> tuple[str | None, list[Issue]]:
    if isinstance(content, str):
        return content.removeprefix("\ufeff"), []
    if len(content) > _MAX_BYTES:
        message = f"the file has {len(content)} bytes; an experiment file has at most {_MAX_BYTES}"
        return None, [Issue(1, 1, "", message)]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, [Issue(1, 1, "", "the file is UTF-16: save it as UTF-8")]
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        line, column = _position(before, len(before))
        message = f"byte 0x{content[error.start]:02x} is not UTF-8: save the file as UTF-8"
        return None, [Issue(line, column, "", message)]


def _position(text: str, index: int) -> tuple[int, int]:
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _tabs(text: str) -> list[Issue]:
    found = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        indent = re.match(r" *\t[ \t]*(?=[^\s#])", line)
        if indent is not None:
            found.append(Issue(number, line.index("\t") + 1, "", "a tab in the indentation: use spaces"))
    return found


def _syntax_issue(error: yaml.MarkedYAMLError) -> Issue:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    problem = (error.problem or "cannot be read").strip()
    if "'\\t'" in problem:
        return Issue(line, column, "", "a tab: use spaces between a key and its value")
    if problem.startswith("could not determine a constructor") or "tag" in problem:
        return Issue(line, column, "", f"not valid YAML: {problem}; an experiment file needs no tags")
    start = error.context_mark
    context = f" ({error.context}, which starts in line {start.line + 1})" if error.context and start else ""
    hint = ""
    if "mapping values are not allowed" in problem:
        hint = "; quote a text that contains ': '"
    elif "cannot start any token" in problem:
        hint = "; quote a text that starts with this character"
    elif "expected <block end>" in problem:
        hint = "; is the indentation of this line right?"
    return Issue(line, column, "", f"not valid YAML: {problem}{context}{hint}")


def _character_issue(text: str, error: yaml.reader.ReaderError) -> Issue:
    line, column = _position(text, int(error.position))
    return Issue(line, column, "", f"character U+{ord(text[error.position]):04X} is not allowed: remove it")


def join(path: str, key: str | int) -> str:
    """Return the path of a key or an item below ``path``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    shown = key if re.fullmatch(r"[^\s.\[\]:]{1,40}", key) else repr(key[:40])
    return f"{path}.{shown}" if path else shown


class _Builder:
    """Turns events into nodes, without recursion, so that no nesting can exhaust the stack."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.issues: list[Issue] = []
        self.stopped = False
        self._stack: list[_Open] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Read one event."""
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if event.tags:
                self._refuse(line, column, "", "a %TAG directive: remove it, an experiment file needs no tags")
            if self._documents > 1:
                self._refuse(line, column, "", "a second document starts here: keep one experiment in a file")
                self.stopped = True
            return
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            return
        if isinstance(event, yaml.CollectionEndEvent):
            self._close()
            return
        path = self._next_path()
        if isinstance(event, yaml.AliasEvent):
            message = f"*{event.anchor} is an alias: write the value out, or move what variants share to `defaults`"
            self._refuse(line, column, path, message)
            self._place(Broken(line, column, path))
            return
        broken = self._refuse_decorations(event, line, column, path)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None
            message = "" if broken or not plain else _trap(event.value)
            if message:
                self._refuse(line, column, path, message)
            scalar = Scalar(line, column, path, event.value, plain)
            self._place(Broken(line, column, path) if broken or message else scalar, key_text=event.value)
            return
        if len(self._stack) >= _MAX_DEPTH:
            self._refuse(line, column, path, f"nested more than {_MAX_DEPTH} deep")
            self.stopped = True
            return
        kind = Entries if isinstance(event, yaml.MappingStartEvent) else Items
        top = self._stack[-1] if self._stack else None
        as_key = top is not None and isinstance(top.node, Entries) and top.key is None
        if as_key:
            self._refuse(line, column, path, 'a list or mapping as a key: is a quote missing, as in "{M}"?')
        self._stack.append(_Open(kind(line, column, path), collecting_key=as_key))

    def _refuse_decorations(self, event: yaml.NodeEvent, line: int, column: int, path: str) -> bool:
        if event.anchor is not None:
            self._refuse(line, column, path, f"&{event.anchor} is an anchor: remove it; what variants share belongs in "
                         "`defaults`")  # fmt: skip
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(line, column, path, f"{shown} is a tag: remove it (quote a value to make it text)")
        return tag is not None

    def _next_path(self) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.node, Items):
            return join(top.node.path, len(top.values))
        return top.key.path if top.key is not None else top.node.path

    def _place(self, node: Node, key_text: str = "") -> None:
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if isinstance(top.node, Items):
            top.values.append(node)
        elif top.key is None:
            top.key = self._as_key(top, node, key_text)
        else:
            if isinstance(top.key, Scalar):
                top.pairs.append((top.key, node))
            top.key = None

    def _as_key(self, top: _Open, node: Node, text: str) -> Scalar | Broken:
        path = join(top.node.path, text) if isinstance(node, Scalar) else node.path
        if not isinstance(node, Scalar):
            return Broken(node.line, node.column, path)
        if node.plain and node.text == "<<":
            self._refuse(node.line, node.column, top.node.path, "<< merges mappings: write the keys out, or move what "
                         "variants share to `defaults`")  # fmt: skip
            return Broken(node.line, node.column, path)
        if node.text in top.lines:
            first = top.lines[node.text]
            self._refuse(node.line, node.column, path, f"this key stands in line {first} already: keep one")
            return Broken(node.line, node.column, path)
        top.lines[node.text] = node.line
        return Scalar(node.line, node.column, path, node.text, node.plain)

    def _close(self) -> None:
        top = self._stack.pop()
        node = top.node
        done: Node
        if isinstance(node, Items):
            done = Items(node.line, node.column, node.path, tuple(top.values))
        else:
            done = Entries(node.line, node.column, node.path, tuple(top.pairs))
        self._place(Broken(node.line, node.column, node.path) if top.collecting_key else done)

    def _refuse(self, line: int, column: int, path: str, message: str) -> None:
        self.issues.append(Issue(line, column, path, message))


def _trap(text: str) -> str:
    """Return why a plain scalar means different things to different readers, or an empty text."""
    if text.lower() in _SWITCHES and text in (text.lower(), text.upper(), text.capitalize()):
        value = "true" if text.lower() in ("on", "yes") else "false"
        return f'{text} is a boolean to some YAML readers and text to others: quote it ("{text}"), or write {value}'
    if _LEADING_ZERO.fullmatch(text):
        number = text.lstrip("+-").lstrip("0") or "0"
        return f"{text} has a leading zero, which some YAML readers take for octal: write {number}, or quote it as text"
    if _SEXAGESIMAL.fullmatch(text):
        return f'{text} is a number to base 60 to some YAML readers: quote it ("{text}")'
    return ""
