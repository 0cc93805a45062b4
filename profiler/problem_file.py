"""Problems as files: their literals from the syntax tree, without running anything, and the class for a real run."""

from __future__ import annotations

import ast
import importlib
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler import arithmetic
from profiler.errors import UsageError
from profiler.model import ProblemRef
from profiler.problem import DTYPE_BYTES, Arg, In, InOut, Out, Problem, Scalar
from profiler.problems import REGISTRY
from profiler.python_module import load_python
from profiler.python_source import PythonSourceError, parse_python
from profiler.suggest import near_match

#: C types that a scalar argument may have.
SCALAR_CTYPES = ("int32_t", "int64_t", "int", "float", "double", "size_t")
_INTEGERS = {
    "int32_t": range(-(2**31), 2**31), "int": range(-(2**31), 2**31), "int64_t": range(-(2**63), 2**63),
    "size_t": range(2**64),
}  # fmt: skip

_PROBLEM_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ARG_TYPES: dict[str, type[Arg]] = {"In": In, "Out": Out, "InOut": InOut}
_FIELDS = ("name", "dims", "options", "dtypes", "args", "distributions", "requires")
_RESERVED = frozenset({"workspace", "workspace_bytes", "Args", "launch", "prepare", "destroy", "arch"})

#: Words that cannot name a macro, a dim or an argument.
CPP_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl
        const constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export
        extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
        operator or or_eq private protected public register reinterpret_cast return short signed sizeof static
        static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
        union unsigned using virtual void volatile wchar_t while xor xor_eq int32_t int64_t size_t
        """,
    )
)


class ProblemFileError(UsageError):
    """A problem's file that cannot be used; ``problems`` are lines such as ``problem.py:12: args[1]: ...``."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(self.problems),
            hint="name, dims, options, dtypes and args must be literals of the class, so that they can be read without "
            "running the file",
        )


@dataclass(frozen=True)
class ProblemLiterals:
    """What a problem says of itself without being run."""

    name: str
    dims: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]  #: option -> allowed values, the first is the default
    dtypes: tuple[str, ...]
    args: tuple[Arg | Scalar, ...]
    distributions: tuple[str, ...] = ("normal", "uniform")  #: what ``init.distribution`` may be
    requires: tuple[str, ...] = ()  #: what every size must satisfy, in the language of ``profiler.arithmetic``

    def chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return every option's value: the given one or the default."""
        return {name: options.get(name, allowed[0]) for name, allowed in self.options.items()}


def literals_of(ref: ProblemRef) -> ProblemLiterals:
    """Return the literals of a problem, registered or a file's; raises ``ProblemFileError``."""
    path, class_name = _location(ref.kind, ref.file)
    return read_literals(path, class_name)


def problem_class(ref: ProblemRef) -> type[Problem]:
    """Return the problem's class: a registered one imported, or the user's file run. Raises ``UsageError``."""
    if ref.file is None:
        module_name, class_name = REGISTRY[ref.kind]
        found = getattr(importlib.import_module(module_name), class_name)
    else:
        path, class_name = _location(ref.kind, ref.file)
        found = getattr(_load_module(path), class_name, None)
    if not (isinstance(found, type) and issubclass(found, Problem)):
        raise UsageError(f"{ref.kind}: {class_name} is no subclass of profiler.problem.Problem")
    return found


def _location(kind: str, file: Path | None) -> tuple[Path, str]:
    if file is not None:
        return file, kind.rpartition(":")[2]
    if kind not in REGISTRY:
        raise UsageError(f"no problem {kind!r}", hint=f"registered: {', '.join(REGISTRY)}; or problem.py:ClassName")
    module_name, class_name = REGISTRY[kind]
    return Path(__file__).resolve().parent.parent.joinpath(*module_name.split(".")).with_suffix(".py"), class_name


def _load_module(path: Path) -> Any:
    try:
        return load_python(path)
    except (Exception, SystemExit) as error:  # a file that ends the interpreter must not end the command
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path.resolve())]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise UsageError(f"{where}: {type(error).__name__}: {error}", hint="the problem's file must import") from error


def read_literals(path: Path, class_name: str) -> ProblemLiterals:
    """Return a problem's literals from its syntax tree; ``ProblemFileError`` names all that is wrong."""
    return _Reader(path, class_name).read()


class _Reader:
    def __init__(self, path: Path, class_name: str) -> None:
        self._path = path
        self._class = class_name
        self._problems: list[tuple[int, str]] = []
        self._lines: dict[str, int] = {}

    def read(self) -> ProblemLiterals:
        try:
            tree = parse_python(self._path)
        except PythonSourceError as error:
            raise ProblemFileError([error.message]) from error
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        if self._class not in classes:
            near = near_match(self._class, classes)
            hint = f', did you mean "{near}"?' if near else f"; it defines {', '.join(classes) or 'no class'}"
            raise ProblemFileError([f"{self._path.name}:1: no class {self._class}{hint}"])
        body = classes[self._class]
        given = self._assignments(body)
        for required in ("name", "dims", "dtypes", "args"):
            if required not in given:
                self._say(body.lineno, f"{self._class}.{required} is missing")
        dims = self._words("dims", given.get("dims"))
        found = ProblemLiterals(
            name=self._name(given.get("name")),
            dims=dims,
            options=self._options(given.get("options")),
            dtypes=self._words("dtypes", given.get("dtypes")),
            args=self._args(given.get("args")),
            distributions=self._words("distributions", given.get("distributions")) or ("normal", "uniform"),
            requires=self._requires(given.get("requires"), dims),
        )
        if not self._problems:
            self._check(found)
        if self._problems:
            raise ProblemFileError(f"{self._path.name}:{line}: {text}" for line, text in sorted(set(self._problems)))
        return found

    def _say(self, line: int, text: str) -> None:
        self._problems.append((line, text))

    def _assignments(self, body: ast.ClassDef) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for statement in body.body:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets = [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in _FIELDS:
                    value = statement.value  # type: ignore[attr-defined]
                    found[target.id] = value
                    self._lines[target.id] = statement.lineno
        return found

    def _literal(self, node: ast.expr, what: str) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            self._say(node.lineno, f"{what} must be a literal, not {_written(node)}")
            return None

    def _name(self, node: ast.expr | None) -> str:
        if node is None:
            return ""
        value = self._literal(node, "name")
        if value is not None and (not isinstance(value, str) or _PROBLEM_NAME.fullmatch(value) is None):
            self._say(node.lineno, f"name {value!r} must be lower-case letters, digits and _, as it names the header")
        return value if isinstance(value, str) else ""

    def _words(self, field: str, node: ast.expr | None) -> tuple[str, ...]:
        if node is None:
            return ()
        value = self._literal(node, field)
        if value is None:
            return ()
        words = tuple(value) if isinstance(value, tuple | list) else ()
        if not words or not all(isinstance(word, str) and word for word in words):
            self._say(node.lineno, f'{field} must be a tuple of texts, such as ("M", "N")')
            return ()
        for word in sorted({word for word in words if words.count(word) > 1}):
            self._say(node.lineno, f"{field} names {word} twice")
        return words

    def _requires(self, node: ast.expr | None, dims: tuple[str, ...]) -> tuple[str, ...]:
        texts = self._words("requires", node)
        if node is None or not dims:
            return texts
        for text in texts:
            try:
                arithmetic.parse(text, dims)
            except arithmetic.ExpressionError as error:
                self._say(node.lineno, f"requires: {text!r}: {error}")
        return texts

    def _options(self, node: ast.expr | None) -> dict[str, tuple[str, ...]]:
        if node is None:
            return {}
        value = self._literal(node, "options")
        if value is None:
            return {}
        good = isinstance(value, dict) and all(
            isinstance(name, str)
            and isinstance(allowed, tuple | list)
            and len(allowed) > 0
            and all(isinstance(word, str) and word for word in allowed)
            for name, allowed in value.items()
        )
        if not good:
            self._say(node.lineno, 'options must map each name to its values, such as {"layout": ("nn", "nt")}')
            return {}
        for name in value:
            if name in ("kind", "sizes", "check_sizes", "check_distributions", "init"):
                self._say(node.lineno, f"options: {name} is a key of every problem; choose another name")
        return {name: tuple(allowed) for name, allowed in value.items()}

    def _args(self, node: ast.expr | None) -> tuple[Arg | Scalar, ...]:
        if node is None:
            return ()
        if not isinstance(node, ast.Tuple | ast.List):
            self._say(node.lineno, f"args must be a tuple of In, Out, InOut and Scalar, not {_written(node)}")
            return ()
        found = [self._arg(item, f"args[{index}]") for index, item in enumerate(node.elts)]
        return tuple(arg for arg in found if arg is not None)

    def _arg(self, node: ast.expr, what: str) -> Arg | Scalar | None:
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if not isinstance(node, ast.Call) or name not in (*_ARG_TYPES, "Scalar"):
            self._say(node.lineno, f"{what} must be In(...), Out(...), InOut(...) or Scalar(...)")
            return None
        fields = ("name", "ctype", "value") if name == "Scalar" else ("name", "shape", "dtype")
        before = len(self._problems)
        if len(node.args) > 3 or any(k.arg not in fields for k in node.keywords):
            self._say(node.lineno, f"{what}: {name} takes {', '.join(fields)}")
            return None
        given = {field: self._literal(item, f"{what}.{field}") for field, item in zip(fields, node.args, strict=False)}
        for keyword in node.keywords:
            given[str(keyword.arg)] = self._literal(keyword.value, f"{what}.{keyword.arg}")
        if len(self._problems) > before:
            return None
        missing = [field for field in fields if field not in given]
        if missing:
            self._say(node.lineno, f"{what}: {missing[0]} is missing")
            return None
        self._lines[f"arg {given['name']}"] = node.lineno
        if name == "Scalar":
            return self._scalar(node.lineno, what, given)
        if not all(_is_text_or_map(given[field]) for field in ("shape", "dtype")) or not isinstance(given["name"], str):
            self._say(node.lineno, f"{what}: name must be a text, shape and dtype a text or a mapping of texts")
            return None
        return _ARG_TYPES[name](given["name"], given["shape"], given["dtype"])

    def _scalar(self, line: int, what: str, given: Mapping[str, Any]) -> Scalar | None:
        numbers = given["value"].values() if isinstance(given["value"], dict) else [given["value"]]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            self._say(line, f"{what}: value must be a number, or one for each contract")
            return None
        if given["ctype"] not in SCALAR_CTYPES or not isinstance(given["name"], str):
            self._say(line, f"{what}: ctype {given['ctype']!r} must be one of {', '.join(SCALAR_CTYPES)}")
            return None
        whole = _INTEGERS.get(given["ctype"])
        if whole is not None and not all(isinstance(number, int) and number in whole for number in numbers):
            self._say(line, f"{what}: value must be a whole number that fits {given['ctype']}")
            return None
        return Scalar(given["name"], given["ctype"], given["value"])

    # -- what the parts mean for each other

    def _check(self, found: ProblemLiterals) -> None:
        names = [arg.name for arg in found.args]
        for word in (*found.dims, *names):
            line = self._lines.get(f"arg {word}", self._lines["dims"])
            if IDENTIFIER.fullmatch(word) is None or word in CPP_KEYWORDS or word in _RESERVED:
                self._say(line, f"{word!r} cannot name a member of Args")
            if (*found.dims, *names).count(word) > 1:
                self._say(line, f"{word} names two members of Args")
        if not any(isinstance(arg, Out | InOut) for arg in found.args):
            self._say(self._lines["args"], "args has no Out or InOut: nothing could be checked")
        for arg in found.args:
            line = self._lines[f"arg {arg.name}"]
            if isinstance(arg, Scalar):
                if isinstance(arg.value, Mapping):
                    self._covers(line, f"{arg.name}: value", arg.value, found.dtypes)
                continue
            self._check_shape(line, arg, found)
            if isinstance(arg.dtype, Mapping):
                self._covers(line, f"{arg.name}: dtype", arg.dtype, found.dtypes)
            used = arg.dtype.values() if isinstance(arg.dtype, Mapping) else [arg.dtype]
            for dtype in used:
                if dtype not in DTYPE_BYTES:
                    self._say(line, f"{arg.name}: {dtype!r} is not a torch dtype known here ({', '.join(DTYPE_BYTES)})")

    def _covers(self, line: int, what: str, given: Mapping[str, Any], dtypes: tuple[str, ...]) -> None:
        for missing in [dtype for dtype in dtypes if dtype not in given]:
            self._say(line, f"{what} has none for the contract {missing}")
        for extra in [dtype for dtype in given if dtype not in dtypes]:
            self._say(line, f"{what}: {extra!r} is not in dtypes")

    def _check_shape(self, line: int, arg: Arg, found: ProblemLiterals) -> None:
        shapes = [arg.shape] if isinstance(arg.shape, str) else list(arg.shape.values())
        for part in [part for shape in shapes for part in shape.split()]:
            if part not in found.dims and re.fullmatch(r"[1-9][0-9]*", part, re.ASCII) is None:
                self._say(line, f"{arg.name}: {part!r} in its shape is neither a dim nor a number")
        if isinstance(arg.shape, str):
            return
        options = {choice.partition("=")[0] for choice in arg.shape}
        if len(options) != 1 or not options <= set(found.options):
            self._say(line, f'{arg.name}: shapes must be given for the values of one option, as {{"layout=nn": "K N"}}')
            return
        option = options.pop()
        values = {choice.partition("=")[2] for choice in arg.shape}
        if values != set(found.options[option]):
            wanted = ", ".join(f"{option}={value}" for value in found.options[option])
            self._say(line, f"{arg.name}: shapes must be given for exactly {wanted}")


def _written(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:60]
    except RecursionError:
        return "an expression of this depth"


def _is_text_or_map(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
    return isinstance(value, str)
