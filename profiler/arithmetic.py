"""The language of ``requires``: exact integer arithmetic and comparisons over the dims, the params and ``arch``.

    condition  := all_of ("or" all_of)*
    all_of     := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)*        chained as in Python
    sum        := product (("+" | "-") product)*
    product    := signed (("*" | "/" | "//" | "%") signed)*
    signed     := ("-" | "+") signed | integer | name | "(" condition ")"

Numbers never overflow; ``/`` is exact (``7 / 2`` is seven halves), ``//`` and ``%`` round down as in Python. A number
is no condition and a condition no number: ``M % 128`` alone is refused when it is parsed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

Value = int | Fraction
_MAX_TEXT = 400
_MAX_DEPTH = 40
_MAX_DIGITS = 19

_TOKEN = re.compile(r"\s*(?:(\d[\w.]*)|([A-Za-z_]\w*)|(//|==|!=|<=|>=|&&|\|\||\*\*|<<|>>|\S))", re.ASCII)
_REMEDIES = {
    "&&": "write `and`", "||": "write `or`", "!": "write `not`", "=": "write `==` to compare",
    "&": "write `and`", "|": "write `or`", "**": "powers are not part of the language", ".": "only integers are",
    "^": "not part of the language", "<<": "not part of the language", ">>": "not part of the language",
}  # fmt: skip
_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class ExpressionError(ValueError):
    """A text that is no expression of the language; ``column`` counts from 1 within the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


class EvaluationError(ValueError):
    """An expression that has no value for these values, such as a division by zero."""


@dataclass(frozen=True)
class _Node:
    """A part of an expression: its text, whether it is a condition, and how it is evaluated."""

    start: int
    end: int
    condition: bool
    evaluate: Callable[[Mapping[str, int]], Value]
    conjuncts: tuple[_Node, ...] = ()
    depth: int = 1


@dataclass(frozen=True)
class Expression:
    """A parsed condition. ``names`` are those it uses, in the order of the text."""

    text: str
    names: tuple[str, ...]
    _root: _Node

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return whether the condition holds; ``EvaluationError`` when it has no value, ``KeyError`` for a name that
        has none.
        """
        return bool(self._root.evaluate(values))

    def failed_text(self, values: Mapping[str, int]) -> str:
        """Return why it does not hold: ``M % 128 == 0 fails: M = 1000``. Of several joined by ``and``, the first that
        fails is named.
        """
        part = next((p for p in self._root.conjuncts if not p.evaluate(values)), self._root)
        text = self.text[part.start : part.end]
        used = [name for name in self.names if re.search(rf"\b{re.escape(name)}\b", text)]
        given = ", ".join(f"{name} = {values[name]}" for name in used)
        return f"{text} fails: {given}" if given else f"{text} never holds"


def parse(text: str, names: Collection[str]) -> Expression:
    """Return the expression; ``ExpressionError`` says what is wrong and in which column. ``names`` may be used."""
    if len(text) > _MAX_TEXT:
        raise ExpressionError(f"longer than {_MAX_TEXT} characters", 1)
    return _Parser(text, names).parse()


def arch_number(arch: str) -> int:
    """Return ``arch`` as ``requires`` sees it: 90 for ``sm_90a``."""
    found = re.search(r"\d+", arch)
    if found is None:
        raise ValueError(f"not an architecture: {arch!r}")
    return int(found.group())


def values(
    dims: Mapping[str, int], params: Mapping[str, int | float | str | bool], arch: str = "auto"
) -> dict[str, int]:
    """Return what ``requires`` is evaluated over: the dims, the integer params, and ``arch`` unless it is ``auto``."""
    found = {name: int(value) for name, value in params.items() if isinstance(value, int)}
    if arch != "auto":
        found["arch"] = arch_number(arch)
    return {**found, **dims}


class _Parser:
    def __init__(self, text: str, names: Collection[str]) -> None:
        self._text = text
        self._allowed = names
        self._used: list[str] = []
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, offset
        self._next = 0
        self._depth = 0
        offset = 0
        while offset < len(text):
            found = _TOKEN.match(text, offset)
            if found is None:
                break  # white space to the end
            kind = ("number", "name", "sign")[(found.lastindex or 1) - 1]
            self._tokens.append((kind, found.group(found.lastindex or 1), found.start(found.lastindex or 1)))
            offset = found.end()
        self._tokens.append(("end", "", len(text)))

    def parse(self) -> Expression:
        if len(self._tokens) == 1:
            raise ExpressionError("is empty: write a condition such as M % 128 == 0", 1)
        root = self._any_of()
        kind, token, offset = self._tokens[self._next]
        if kind != "end":
            raise self._unexpected(token, offset)
        if not root.condition:
            raise ExpressionError(f"is a number, not a condition: compare it, as in `{self._text.strip()} == 0`", 1)
        return Expression(self._text, tuple(dict.fromkeys(self._used)), root)

    # -- tokens

    def _peek(self) -> str:
        kind, token, _ = self._tokens[self._next]
        return token if kind in ("sign", "name") else ""

    def _take(self) -> tuple[str, str, int]:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _unexpected(self, token: str, offset: int) -> ExpressionError:
        if not token:
            return ExpressionError("ends where a number, a name or ( is expected", offset + 1)
        remedy = _REMEDIES.get(token, "")
        return ExpressionError(f"unexpected {token!r}" + (f": {remedy}" if remedy else ""), offset + 1)

    # -- grammar

    def _any_of(self) -> _Node:
        return self._joined("or", self._all_of, any)

    def _all_of(self) -> _Node:
        return self._joined("and", self._negation, all)

    def _joined(self, word: str, part: Callable[[], _Node], fold: Callable[..., bool]) -> _Node:
        first = part()
        if self._peek() != word:
            return first
        parts = [self._as_condition(first)]
        while self._peek() == word:
            self._take()
            parts.append(self._as_condition(part()))
        folded = tuple(parts)
        return _Node(
            first.start,
            folded[-1].end,
            True,
            lambda env: fold(p.evaluate(env) for p in folded),  # lazily: `N == 0 or M % N == 0`
            conjuncts=folded if word == "and" else (),
        )

    def _negation(self) -> _Node:
        if self._peek() != "not":
            return self._comparison()
        _, _, offset = self._take()
        self._enter(offset)
        inner = self._as_condition(self._negation())
        self._depth -= 1
        return _Node(offset, inner.end, True, lambda env: not inner.evaluate(env))

    def _comparison(self) -> _Node:
        first = self._sum()
        if self._peek() not in _COMPARE:
            return first
        parts, signs = [self._as_number(first)], []
        while self._peek() in _COMPARE:
            signs.append(_COMPARE[self._take()[1]])
            parts.append(self._as_number(self._sum()))

        def compare(env: Mapping[str, int]) -> bool:
            left = parts[0].evaluate(env)
            for sign, part in zip(signs, parts[1:], strict=True):
                right = part.evaluate(env)
                if not sign(left, right):
                    return False
                left = right
            return True

        return _Node(first.start, parts[-1].end, True, compare)

    def _sum(self) -> _Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> _Node:
        return self._chain(("*", "/", "//", "%"), self._signed)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], _Node]) -> _Node:
        first = part()
        if self._peek() not in signs:
            return first
        steps: list[tuple[str, _Node]] = []
        self._as_number(first)
        while self._peek() in signs:
            sign = self._take()[1]
            steps.append((sign, self._as_number(part())))
        text = self._text

        def evaluate(env: Mapping[str, int]) -> Value:
            value = first.evaluate(env)
            for sign, node in steps:
                right = node.evaluate(env)
                if sign in ("/", "//", "%") and right == 0:
                    shown = text[first.start : node.end].strip()
                    raise EvaluationError(f"{shown}: division by zero ({text[node.start : node.end]} is 0)")
                value = _apply(sign, value, right)
            return value

        return _Node(first.start, steps[-1][1].end, False, evaluate)

    def _signed(self) -> _Node:
        kind, token, offset = self._take()
        if kind == "sign" and token in ("-", "+"):
            self._enter(offset)
            inner = self._as_number(self._signed())
            self._depth -= 1
            if token == "+":
                return _Node(offset, inner.end, False, inner.evaluate)
            return _Node(offset, inner.end, False, lambda env: -inner.evaluate(env))
        if kind == "number":
            return self._integer(token, offset)
        if kind == "name" and token not in ("and", "or", "not"):
            return self._name(token, offset)
        if token == "(":
            self._enter(offset)
            inner = self._any_of()
            self._depth -= 1
            _, closing, at = self._take()
            if closing != ")":
                self._next -= 1
                if not closing:
                    raise ExpressionError("a ) is missing", at + 1)
                raise self._unexpected(closing, at)
            return _Node(offset, at + 1, inner.condition, inner.evaluate, inner.conjuncts)
        self._next -= 1
        raise self._unexpected(token, offset)

    def _integer(self, token: str, offset: int) -> _Node:
        if re.fullmatch(r"0|[1-9][0-9]*", token, re.ASCII) is None:
            raise ExpressionError(f"{token} is not a decimal integer", offset + 1)
        if len(token) > _MAX_DIGITS:
            raise ExpressionError(f"{token[:8]}... has more than {_MAX_DIGITS} digits", offset + 1)
        number = int(token)
        return _Node(offset, offset + len(token), False, lambda env: number)

    def _name(self, token: str, offset: int) -> _Node:
        if token not in self._allowed:
            # Names of one or two letters are all near each other: there the list says more.
            near = difflib.get_close_matches(token, sorted(self._allowed), n=1) if len(token) > 2 else []
            same = [name for name in self._allowed if name.lower() == token.lower()]
            known = ", ".join(sorted(self._allowed)) or "none"
            hint = f'did you mean "{(same or near)[0]}"?' if same or near else f"known names: {known}"
            raise ExpressionError(f"{token} is no dim, param or arch; {hint}", offset + 1)
        self._used.append(token)
        return _Node(offset, offset + len(token), False, lambda env: env[token])

    # -- kinds

    def _enter(self, offset: int) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError(f"nested more than {_MAX_DEPTH} deep", offset + 1)

    def _as_condition(self, node: _Node) -> _Node:
        if not node.condition:
            shown = self._text[node.start : node.end]
            raise ExpressionError(f"{shown} is a number where a condition is meant: compare it", node.start + 1)
        return node

    def _as_number(self, node: _Node) -> _Node:
        if node.condition:
            shown = self._text[node.start : node.end]
            raise ExpressionError(f"{shown} is a condition where a number is meant", node.start + 1)
        return node


def _apply(sign: str, left: Value, right: Value) -> Value:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if sign == "//":
        return left // right
    if sign == "%":
        return left % right
    return Fraction(left) / Fraction(right)
