"""What a variant says, against itself, its defaults, the problem and the files it names. No code of it runs."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic_core import PydanticCustomError

from profiler import arithmetic
from profiler.experiment_files import file_issue, find_source, is_file, is_folder, split_function
from profiler.problem import Arg
from profiler.problem_file import CPP_KEYWORDS, IDENTIFIER, ProblemLiterals
from profiler.python_source import PythonSourceError, keyword_names, module_names, parse_python
from profiler.scalars import as_arch, as_param, as_text
from profiler.sizes import size_key
from profiler.suggest import near_match
from profiler.yaml_lines import Entries, Issue, Items, Node, Scalar

SOURCE_KEYS = ("cuda", "triton", "python", "command")
_COMMAND_KEYS = ("cwd", "env", "build_command", "build_inputs", "launches", "time")
#: Names in braces besides dims and params: a folder for what is built, and the GPU's architecture.
BRACED = ("build", "arch")
_OWN_FLAGS = {
    "-arch": "use `arch:` instead", "--gpu-architecture": "use `arch:` instead", "-gencode": "use `arch:` instead",
    "--generate-code": "use `arch:` instead", "-code": "use `arch:` instead", "--gpu-code": "use `arch:` instead",
    "-std": "use `std:` instead", "--std": "use `std:` instead", "-o": "remove it", "--output-file": "remove it",
}  # fmt: skip
_T = TypeVar("_T")


def ask(node: Node | None, convert: Callable[[Node], _T]) -> _T | None:
    """Return a node's value, or None when it is absent or refused."""
    if node is None:
        return None
    try:
        return convert(node)
    except PydanticCustomError:
        return None


@dataclass(frozen=True)
class Row:
    """A variant as written, and the defaults behind it."""

    node: Entries
    defaults: Entries | None

    def get(self, key: str) -> Node | None:
        """Return the variant's value, or the default's."""
        own = self.node.get(key)
        return own if own is not None or self.defaults is None else self.defaults.get(key)

    def merged(self, key: str) -> list[tuple[Scalar, Node]]:
        """Return the entries of a mapping-valued key, the defaults' first; the variant's own win."""
        found: dict[str, tuple[Scalar, Node]] = {}
        for holder in (self.defaults, self.node):
            value = holder.get(key) if holder is not None else None
            if isinstance(value, Entries):
                found.update({name.text: (name, item) for name, item in value})
        return list(found.values())

    @property
    def own_sources(self) -> list[str]:
        """The source keys that the variant itself has."""
        return [key for key in SOURCE_KEYS if self.node.get(key) is not None]

    @property
    def sources(self) -> list[str]:
        """The source keys that count: the variant's own, else the defaults'."""
        if self.own_sources or self.defaults is None:
            return self.own_sources
        return [key for key in SOURCE_KEYS if self.defaults.get(key) is not None]

    @property
    def kind(self) -> str | None:
        """What it is, when there is exactly one source."""
        return self.sources[0] if len(self.sources) == 1 else None

    @property
    def name(self) -> str | None:
        """Its name, when it has a good one."""
        return ask(self.node.get("name"), as_text)

    @property
    def dtype(self) -> str | None:
        """Its contract, its own or the defaults'."""
        return ask(self.get("dtype"), as_text)


@dataclass(frozen=True)
class VariantChecks:
    """The checks of one experiment's variants. ``sizes`` are those, timed or checked, that are right."""

    root: Entries
    path: Path
    literals: ProblemLiterals | None
    sizes: list[dict[str, int]]

    def variant(self, row: Row) -> Iterator[Issue]:
        """Return what is wrong with a variant."""
        yield from self._source(row)
        yield from self._contract(row)
        yield from self._params(row)
        yield from self._requires(row)
        if row.kind is None:
            return
        yield from self._misplaced(row, row.kind)
        if row.kind == "cuda":
            yield from self.build(row.node.get("build"))
            yield from self._call(row)
        if row.kind == "command":
            yield from self._command(row)

    def _source(self, row: Row) -> Iterator[Issue]:
        sources = row.sources
        if not sources:
            misspelt = any(near_match(key.text, SOURCE_KEYS) for key, _ in row.node)
            if not misspelt:
                yield row.node.issue("one of cuda, triton, python or command is required: what is this variant?")
            return
        if len(sources) > 1:
            holder = row.node if row.own_sources else row.defaults
            assert holder is not None
            keys = sorted((key for name in sources if (key := holder.key(name)) is not None), key=lambda k: k.line)
            for key in keys[1:]:
                yield key.issue(f"a variant has one source, and {keys[0].text} stands in line {keys[0].line} already")
        for key_name in sources:
            node = row.get(key_name)
            text = ask(node, as_text) if key_name != "command" else None
            if node is None or text is None:
                continue
            if key_name == "cuda":
                if text.partition(":")[0].endswith(".py"):
                    yield node.issue(f"{text} is Python: use `python: file.py:function` or `triton: file.py:function`")
                elif find_source(text, self.path) is None:
                    yield file_issue(node, text, self.path, (".cu", ".cuh"))
            else:
                yield from self._function(row, node, text)

    def _function(self, row: Row, node: Node, text: str) -> Iterator[Issue]:
        file, function = split_function(text)
        if not file.endswith(".py") or IDENTIFIER.fullmatch(function) is None:
            yield node.issue(f"{text!r} names no function: write file.py:function")
            return
        found = find_source(file, self.path)
        if found is None:
            yield file_issue(node, file, self.path, (".py",))
            return
        try:
            tree = parse_python(found)
        except PythonSourceError as error:
            yield node.issue(error.message)
            return
        names, open_ended = module_names(tree.body)
        if function not in names and not open_ended:
            near = near_match(function, names)
            hint = f', did you mean "{near}"?' if near else f"; it defines {', '.join(sorted(names)) or 'nothing'}"
            yield node.issue(f"{found.name} defines no {function}{hint}")
        accepted = keyword_names(tree, (function, "setup"))
        own = row.node.get("params")
        if accepted is None or not isinstance(own, Entries):
            return
        required = " ".join(ask(item, as_text) or "" for item in _items(row.get("requires")))
        for key, _ in own:
            if key.text not in accepted and not re.search(rf"\b{re.escape(key.text)}\b", required):
                near = near_match(key.text, accepted)
                hint = f', did you mean "{near}"?' if near else ""
                yield key.issue(f"{function} has no keyword-only parameter {key.text}, and no condition uses it{hint}")

    def _misplaced(self, row: Row, kind: str) -> Iterator[Issue]:
        for key, _ in row.node:
            if key.text == "call" and kind != "cuda":
                yield key.issue(f"`call` is for existing CUDA code; this is a {kind} variant")
            elif key.text == "build" and kind != "cuda":
                hint = "; a program is built by `build_command`" if kind == "command" else ""
                yield key.issue(f"`build` is for CUDA sources; this is a {kind} variant{hint}")
            elif key.text in _COMMAND_KEYS and kind != "command":
                yield key.issue(f"`{key.text}` is for a program (`command:`); this is a {kind} variant")

    def _contract(self, row: Row) -> Iterator[Issue]:
        node = row.get("dtype")
        if node is None:
            if row.kind not in (None, "command"):
                yield row.node.issue(
                    "dtype is required: the numeric contract, such as `dtype: fp32`, here or in `defaults`"
                )
            return
        text = ask(node, as_text)
        if text is None or self.literals is None or text in self.literals.dtypes:
            return
        near = near_match(text, self.literals.dtypes)
        hint = f', did you mean "{near}"?' if near else ""
        yield node.issue(f"{self.literals.name} has no contract {text!r}; supported: "
                         f"{', '.join(self.literals.dtypes)}{hint}")  # fmt: skip

    def _params(self, row: Row) -> Iterator[Issue]:
        taken = {"arch": "what `requires` calls the architecture"}
        if self.literals is not None:
            taken |= dict.fromkeys(self.literals.dims, "a dim of the problem")
            taken |= {arg.name: "an argument of the problem" for arg in self.literals.args if isinstance(arg, Arg)}
        for key, _ in row.merged("params"):
            if IDENTIFIER.fullmatch(key.text) is None:
                yield key.issue(f"{key.text!r} is not a C identifier, and cannot be a macro")
            elif key.text in CPP_KEYWORDS:
                yield key.issue(f"{key.text} is a word of C++, and cannot be a macro")
            elif key.text in taken:
                yield key.issue(f"{key.text} is {taken[key.text]}: a macro of that name would replace it")

    def _requires(self, row: Row) -> Iterator[Issue]:
        if self.literals is None:
            return
        params = {key.text: ask(value, as_param) for key, value in row.merged("params")}
        names = {*self.literals.dims, *params, "arch"}
        for node in _items(row.get("requires")):
            text = ask(node, as_text)
            if text is None:
                continue
            try:
                condition = arithmetic.parse(text, names)
            except arithmetic.ExpressionError as error:
                yield _inside(node, text, error)
                continue
            for name in condition.names:
                if name in params and params[name] is not None and not isinstance(params[name], int):
                    yield node.issue(f"{text}: the param {name} is {params[name]!r}, not a whole number")
                    break
            else:
                yield from self._evaluated(node, condition, {k: v for k, v in params.items() if v is not None}, row)

    def _evaluated(
        self, node: Node, condition: arithmetic.Expression, params: Mapping[str, int | float | str | bool], row: Row
    ) -> Iterator[Issue]:
        for dims in self.sizes:
            try:
                condition.holds(arithmetic.values(dims, params, self._arch(row)))
            except arithmetic.EvaluationError as error:
                yield node.issue(f"{error}, at {size_key(dims)}")
                return
            except KeyError:
                return  # a param that was refused elsewhere

    def _arch(self, row: Row) -> str:
        builds = [row.node.get("build"), row.defaults.get("build") if row.defaults else None, self.root.get("build")]
        given = [ask(build.get("arch"), as_arch) for build in builds if isinstance(build, Entries)]
        return next((arch for arch in given if arch is not None and arch != "auto"), "sm_90")

    def _call(self, row: Row) -> Iterator[Issue]:
        node = row.get("call")
        text = ask(node, as_text)
        if node is None or text is None:
            return
        if re.fullmatch(r"[A-Za-z_][\w:<>, ]*\([^;{}]*\)", text.strip(), re.ASCII) is None or not _balanced(text):
            yield node.issue("expected one call, such as `f(x, y, T, H, stream)`, without a semicolon")

    def _command(self, row: Row) -> Iterator[Issue]:
        params = {key.text for key, _ in row.merged("params")}
        dims = set(self.literals.dims if self.literals else ())
        words = [(node, True) for node in _items(row.get("command"))]
        for node, sized in [*words, *((node, False) for node in _items(row.get("build_command")))]:
            known = {*params, *BRACED, *(dims if sized else ())}
            text = ask(node, as_text)
            if text is None or self.literals is None:
                continue
            try:
                used = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
            except ValueError as error:
                yield node.issue(f"{error}: write {{{{ and }}}} for braces that are meant as such")
                continue
            for name in used:
                if name in dims and not sized:
                    yield node.issue(f"{{{name}}} is a dim, and a program is built once for all sizes: use a param")
                elif name not in known:
                    near = near_match(name, known)
                    hint = f'did you mean "{near}"?' if near else f"known: {', '.join(sorted(known))}"
                    yield node.issue(f"{{{name}}} is no dim or param; {hint} (write {{{{ }}}} for braces)")
        cwd = row.get("cwd")
        folder = ask(cwd, as_text)
        if cwd is not None and folder is not None and not is_folder(self.path.parent / folder):
            yield cwd.issue(f"no folder {folder!r} beside {self.path.name}")
        for node in _items(row.get("build_inputs")):
            text = ask(node, as_text)
            if text is not None and not is_file(self.path.parent / text):
                yield node.issue(f"no file {text!r} beside {self.path.name}")
        for key, _ in row.merged("env"):
            if IDENTIFIER.fullmatch(key.text) is None:
                yield key.issue(f"{key.text!r} cannot name an environment variable")
        time = row.get("time")
        pattern_node = time.get("stdout") if isinstance(time, Entries) else None
        pattern = ask(pattern_node, as_text)
        if pattern_node is not None and pattern is not None:
            try:
                groups = re.compile(pattern).groups
            except (re.error, OverflowError, RecursionError) as error:
                yield pattern_node.issue(f"not a regular expression: {error}")
            else:
                if groups != 1:
                    yield pattern_node.issue(f"has {groups} groups: put exactly the number in ( )")

    def build(self, node: Node | None) -> Iterator[Issue]:
        """Return what is wrong with the keys of a ``build:``."""
        if not isinstance(node, Entries):
            return
        for flag in _items(node.get("flags")):
            text = ask(flag, as_text) or ""
            word = re.split(r"[=\s]", text)[0]
            if word in _OWN_FLAGS:
                yield flag.issue(f"{word} is set by the tool: {_OWN_FLAGS[word]}")
        for folder in _items(node.get("include")):
            text = ask(folder, as_text) or ""
            if text and find_source(text, self.path, folder=True) is None:
                yield folder.issue(f"no folder {text!r} beside {self.path.name} or under kernels/")


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, Items) else ()


def _inside(node: Node, text: str, error: arithmetic.ExpressionError) -> Issue:
    """An issue at a column within a text, where the text stands in the file as it is."""
    column = node.column
    if isinstance(node, Scalar) and "\n" not in text:
        column += error.column - 1 + (0 if node.plain else 1)
    return Issue(node.line, column, node.path, f"{text[:80]}: {error}")


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0
