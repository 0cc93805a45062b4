"""What one part of an experiment file means for another: problem and sizes, names, baselines.

The checks read the nodes, not a finished model, so that each reports what it can see whatever else is wrong with the
file: a value that ``profiler.schema`` refuses is passed over here. No code of the experiment runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiler import arithmetic
from profiler.experiment_files import file_issue, is_file, split_function
from profiler.model import ProblemRef
from profiler.problem_file import IDENTIFIER, ProblemFileError, ProblemLiterals, literals_of
from profiler.problems import REGISTRY
from profiler.scalars import as_integer, as_text
from profiler.schema import keys_at
from profiler.sizes import size_key
from profiler.suggest import near_match, one_of, unknown_key
from profiler.variant_checks import Row, VariantChecks, ask
from profiler.yaml_lines import Entries, Issue, Items, Node, Scalar


def check(root: Entries, path: Path) -> list[Issue]:
    """Return everything that is wrong between the parts of the file; ``path`` is where it lies."""
    return sorted(set(_Checker(root, path).run()))


@dataclass
class _Checker:
    root: Entries
    path: Path
    literals: ProblemLiterals | None = None
    sizes: list[dict[str, int]] = field(default_factory=list)
    check_sizes: list[dict[str, int]] = field(default_factory=list)

    def run(self) -> Iterator[Issue]:
        yield from self._problem()
        defaults = self.root.get("defaults")
        below = defaults if isinstance(defaults, Entries) else None
        listed = self.root.get("variants")
        rows = [Row(n, below) for n in listed.items if isinstance(n, Entries)] if isinstance(listed, Items) else []
        yield from self._names(rows)
        checks = VariantChecks(self.root, self.path, self.literals, [*self.sizes, *self.check_sizes])
        for row in rows:
            yield from checks.variant(row)
        yield from self._baseline(rows)
        yield from checks.build(self.root.get("build"))
        yield from checks.build(below.get("build") if below is not None else None)
        yield from self._sustained()
        yield from self._left_out(rows)

    # -- the problem

    def _problem(self) -> Iterator[Issue]:
        node = self.root.get("problem")
        if not isinstance(node, Entries):
            return
        yield from self._kind(node)
        if self.literals is None:
            return
        for key, value in node:
            allowed = self.literals.options.get(key.text)
            if allowed is None and key.text not in keys_at(("problem",)):
                yield key.issue(unknown_key(key.text, [*keys_at(("problem",)), *self.literals.options]))
            text = ask(value, as_text)
            if allowed is not None and text is not None and text not in allowed:
                yield value.issue(one_of(text, allowed))
        init = node.get("init")
        distribution = init.get("distribution") if isinstance(init, Entries) else None
        text = ask(distribution, as_text)
        if distribution is not None and text is not None and text not in self.literals.distributions:
            yield distribution.issue(one_of(text, self.literals.distributions))
        further = node.get("check_distributions")
        for item in further.items if isinstance(further, Items) else ():
            word = ask(item, as_text)
            if word is not None and word not in self.literals.distributions:
                yield item.issue(one_of(word, self.literals.distributions))
        seen: dict[tuple[int, ...], Node] = {}
        for key_name in ("sizes", "check_sizes"):
            for item, dims, issues in self._sizes(node.get(key_name)):
                yield from issues
                if dims is None:
                    continue
                first = seen.setdefault(tuple(dims.values()), item)
                if first is not item:
                    yield item.issue(f"{size_key(dims)} stands in line {first.line} already ({first.path}): keep one")
                else:
                    (self.sizes if key_name == "sizes" else self.check_sizes).append(dims)

    def _kind(self, node: Entries) -> Iterator[Issue]:
        kind = node.get("kind")
        text = ask(kind, as_text)
        if kind is None or text is None:
            return
        file: Path | None = None
        if text not in REGISTRY:
            name, class_name = split_function(text)
            if not name.endswith(".py") or IDENTIFIER.fullmatch(class_name) is None:
                near = near_match(text, REGISTRY)
                hint = f'did you mean "{near}"?' if near else f"registered: {', '.join(REGISTRY)}"
                yield kind.issue(f"no problem {text!r}; {hint} (your own: problem.py:ClassName beside this file)")
                return
            file = self.path.parent / name
            if not is_file(file):
                yield file_issue(kind, name, self.path, (".py",), kernels_too=False)
                return
        try:
            self.literals = literals_of(ProblemRef(text, file, {}, (), (), {}))
        except ProblemFileError as error:
            for problem in error.problems:
                yield kind.issue(problem)

    def _sizes(self, node: Node | None) -> Iterator[tuple[Node, dict[str, int] | None, list[Issue]]]:
        """Each size as (its node, its dims unless something is wrong, what is wrong)."""
        if not isinstance(node, Items) or self.literals is None:
            return
        names = self.literals.dims
        for item in node.items:
            issues: list[Issue] = []
            given: list[int | None] = []
            if isinstance(item, Items):
                if len(item.items) != len(names):
                    issues.append(item.issue(f"expected {len(names)} numbers ({', '.join(names)}), found "
                                             f"{len(item.items)}"))  # fmt: skip
                given = [ask(number, as_integer) for number in item.items]
            elif isinstance(item, Entries):
                missing = [name for name in names if item.get(name) is None]
                if missing:
                    issues.append(item.issue(f"{', '.join(missing)} is missing: a size has {', '.join(names)}"))
                issues += [key.issue(unknown_key(key.text, names)) for key, _ in item if key.text not in names]
                given = [ask(item.get(name), as_integer) for name in names]
            else:
                continue
            whole = [number for number in given if number is not None and number >= 1]
            if issues or len(whole) != len(names):
                yield item, None, issues
                continue
            dims = dict(zip(names, whole, strict=True))
            refused = _refused(dims, self.literals)
            yield item, None if refused else dims, [item.issue(refused)] if refused else []

    def _sustained(self) -> Iterator[Issue]:
        places = (("measure", "sustained", "sustained times are taken"), ("profile", "sizes", "a profile is taken"))
        for section, key, what in places:
            keys = self.root.get(section)
            node = keys.get(key) if isinstance(keys, Entries) else None
            for item, dims, issues in self._sizes(node):
                yield from issues
                if dims is not None and dims not in self.sizes:
                    yield item.issue(f"{size_key(dims)} is not among problem.sizes: {what} at those only")

    # -- variants

    def _names(self, rows: Iterable[Row]) -> Iterator[Issue]:
        seen: dict[str, tuple[str, Node]] = {}
        for row in rows:
            node = row.node.get("name")
            if node is None or row.name is None:
                continue
            first, where = seen.setdefault(row.name.lower(), (row.name, node))
            if where is node:
                continue
            if first == row.name:
                yield node.issue(f"{row.name} is the name of the variant in line {where.line} already")
            else:
                yield node.issue(
                    f"{row.name} and {first} (line {where.line}) differ in case only, and would share a folder"
                )

    # -- the whole

    def _left_out(self, rows: Iterable[Row]) -> Iterator[Issue]:
        profile = self.root.get("profile")
        names = profile.get("skip") if isinstance(profile, Entries) else None
        by_name = _by_name(rows)
        for item in names.items if isinstance(names, Items) else ():
            yield from _names_variant(item, by_name)

    def _baseline(self, rows: list[Row]) -> Iterator[Issue]:
        node = self.root.get("baseline")
        by_name = _by_name(rows)
        dtypes = sorted({row.dtype for row in rows if row.dtype is not None})
        if isinstance(node, Entries):
            for key, value in node:
                if key.text not in dtypes:
                    near = near_match(key.text, dtypes)
                    hint = f'did you mean "{near}"?' if near else f"they have {', '.join(dtypes) or 'none'}"
                    yield key.issue(f"no variant has the dtype {key.text!r}; {hint}")
                yield from _names_variant(value, by_name)
        elif isinstance(node, Scalar):
            yield from _names_variant(node, by_name)
            row = by_name.get(ask(node, as_text) or "")
            others = sorted(
                {r.dtype for r in rows if r.dtype is not None and r.kind != "command"} - {row and row.dtype}
            )
            if row is not None and row.dtype is not None and others:
                example = ", ".join(f"{dtype}: ..." for dtype in others)
                yield node.issue(
                    f"{node.text} is {row.dtype}, but there are variants of {', '.join(others)}, and speed-ups compare "
                    f"within one contract: write {{{row.dtype}: {node.text}, {example}}}"
                )


def _refused(dims: Mapping[str, int], literals: ProblemLiterals) -> str:
    """Return why a problem has no such size; empty when it has."""
    for text in literals.requires:
        expression = arithmetic.parse(text, literals.dims)
        if not expression.holds(dims):
            return f"{literals.name} has no size {size_key(dims)}: {expression.failed_text(dims)}"
    return ""


def _by_name(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows if row.name is not None}


def _names_variant(node: Node, by_name: Mapping[str, Row]) -> Iterator[Issue]:
    text = ask(node, as_text)
    if text is not None and text not in by_name:
        near = near_match(text, by_name)
        hint = f', did you mean "{near}"?' if near else f"; there are {', '.join(by_name) or 'none'}"
        yield node.issue(f"no variant {text!r}{hint}")
