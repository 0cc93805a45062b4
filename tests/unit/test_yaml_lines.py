# ruff: noqa: E501 (a table of messages)

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.yaml_lines import Broken, Entries, Issue, Items, Scalar, load


def texts(content: bytes | str) -> list[str]:
    return [issue.text("f.yaml") for issue in load(content)[1]]


def test_positions_paths_and_texts_are_kept() -> None:
    root, issues = load('schema: 1\nproblem:\n  sizes: [[10, "20"], {M: 3}]\ntitle: |\n  two\n  lines\n')
    assert issues == []
    assert isinstance(root, Entries)
    problem = root.get("problem")
    assert isinstance(problem, Entries)
    sizes = problem.get("sizes")
    assert isinstance(sizes, Items)
    first, second = sizes.items
    assert isinstance(first, Items)
    assert first.items == (
        Scalar(3, 12, "problem.sizes[0][0]", "10"),
        Scalar(3, 16, "problem.sizes[0][1]", "20", plain=False),
    )
    assert isinstance(second, Entries)
    assert second.key("M") == Scalar(3, 24, "problem.sizes[1].M", "M")
    assert root.get("title") == Scalar(4, 8, "title", "two\nlines\n", plain=False)
    assert root.get("nothing") is None


@pytest.mark.parametrize("text", ["1.10", "1e5", "12:61x", "0", "-0.5", "2026-01-01", "n", "y", "N", "0x1F"])
def test_plain_text_is_not_interpreted(text: str) -> None:
    root, issues = load(f"a: {text}\n")
    assert issues == []
    assert root is not None
    assert root.get("a") == Scalar(1, 4, "a", text)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: 010", "f.yaml:1:4: a: 010 has a leading zero, which some YAML readers take for octal: write 10"),
        ("a: [1, -007]", "f.yaml:1:8: a[1]: -007 has a leading zero"),
        ("a: 08", "f.yaml:1:4: a: 08 has a leading zero"),
        ("a: 1:30", 'f.yaml:1:4: a: 1:30 is a number to base 60 to some YAML readers: quote it ("1:30")'),
        ("a: on", 'f.yaml:1:4: a: on is a boolean to some YAML readers and text to others: quote it ("on"), or write true'),
        ("a: No", 'f.yaml:1:4: a: No is a boolean to some YAML readers and text to others: quote it ("No"), or write '
         "false"),
        ("on: 1", "f.yaml:1:1: on is a boolean"),
        ("a: &x 1", "f.yaml:1:4: a: &x is an anchor: remove it"),
        ("a: *x", "f.yaml:1:4: a: *x is an alias"),
        ("<<: {a: 1}", "f.yaml:1:1: << merges mappings"),
        ("a: !!str 1", "f.yaml:1:4: a: !!str is a tag: remove it"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1:4: a: !!python/object/apply:os.system is a tag"),
        ("a: ! 1", "f.yaml:1:4: a: ! is a tag"),
        ("%TAG !e! tag:x,2000:\n---\na: 1", "f.yaml:1:1: a %TAG directive: remove it"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: a: this key stands in line 1 already: keep one"),
        ("? [a, b]\n: c", "f.yaml:1:3: a list or mapping as a key"),
        ("a: [{M}, {{M}}]", 'f.yaml:1:11: a[1]: a list or mapping as a key: is a quote missing, as in "{M}"?'),
        ("a: 1\n---\nb: 1", "f.yaml:2:1: a second document starts here: keep one experiment in a file"),
        ("a:\n\tb: 1", "f.yaml:2:1: a tab in the indentation: use spaces"),
        ("a:\tb", "f.yaml:1:3: a tab: use spaces"),
        ("", "f.yaml:1:1: the file is empty"),
        ("# nothing\n", "f.yaml:1:1: the file is empty"),
        ("- a\n- b", "f.yaml:1:1: the file must be a mapping of keys (schema, name, problem, ...), not a list"),
        ("text", "f.yaml:1:1: the file must be a mapping of keys (schema, name, problem, ...), not a single value"),
        ("a: b: c", "f.yaml:1:5: not valid YAML: mapping values are not allowed here; quote a text that contains ': '"),
        ("a: [1, 2\nb: 3", "f.yaml:2:2: not valid YAML: expected ',' or ']', but got ':' (while parsing a flow sequence, "
         "which starts in line 1)"),
        ("a: @x", "f.yaml:1:4: not valid YAML: found character '@' that cannot start any token; quote"),
        ("a: \x01", "f.yaml:1:4: character U+0001 is not allowed: remove it"),
        ("a: " + "[" * 40 + "]" * 40, "f.yaml:1:35: a" + "[0]" * 31 + ": nested more than 32 deep"),
    ],
)  # fmt: skip
def test_each_refusal_names_the_place_and_the_remedy(text: str, start: str) -> None:
    found = texts(text)
    assert len(found) == 1, found
    assert found[0].startswith(start)


def test_quoting_is_the_remedy() -> None:
    root, issues = load('a: ["010", \'1:30\', "on", \'no\']\n"on": "*x"\n')
    assert issues == []
    assert root is not None


def test_encodings() -> None:
    assert texts(b"a: 1\nb: \xe9\n") == ["f.yaml:2:4: byte 0xe9 is not UTF-8: save the file as UTF-8"]
    assert texts("a: 1".encode("utf-16")) == ["f.yaml:1:1: the file is UTF-16: save it as UTF-8"]
    root, issues = load(b"\xef\xbb\xbfa: 1\r\nb: \xc3\xa9\r\n")
    assert issues == []
    assert root is not None
    assert root.get("b") == Scalar(2, 4, "b", "é")
    assert texts(b"#" * (1 << 20) + b"\n") == ["f.yaml:1:1: the file has 1048577 bytes; an experiment file has at most "
                                              "1048576"]  # fmt: skip


def test_all_at_once_in_the_order_of_the_file() -> None:
    found = load("z: on\na: 010\nz: 1\nb: *q\n")[1]
    assert [(issue.line, issue.column) for issue in found] == [(1, 4), (2, 4), (3, 1), (4, 4)]


def test_what_stands_before_a_syntax_error_is_reported_too() -> None:
    found = texts("a: on\nb: [\n")
    assert len(found) == 2
    assert found[0].startswith("f.yaml:1:4: a: on")
    assert "not valid YAML" in found[1]


def test_a_refused_value_is_marked() -> None:
    root, _ = load("a: on\nb: 1\n")
    assert root is not None
    assert root.get("a") == Broken(1, 4, "a")
    assert root.get("b") == Scalar(2, 4, "b", "1")


def test_no_alias_is_expanded() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(50))
    root, issues = load(bomb)
    assert root is not None
    assert len(issues) == 151


@given(st.text(alphabet=st.sampled_from("ab:-[]{}#&*!|>'\"%@`,? \n\t0123.~\\<=\x85\ufeff\u2028é\x00"), max_size=60))
def test_any_text_gives_a_tree_or_issues(text: str) -> None:
    for content in (text, text.encode()):
        root, issues = load(content)
        assert (root is not None) or issues
        lines = text.count("\n") + text.count("\x85") + text.count("\u2028") + text.count("\r") + 2
        assert all(isinstance(i, Issue) and 1 <= i.line <= lines and i.column >= 1 for i in issues)


@given(st.binary(max_size=80))
def test_any_bytes_give_a_tree_or_issues(content: bytes) -> None:
    root, issues = load(content)
    assert (root is not None) or issues


def test_a_file_of_keys_alone_is_read_in_linear_time() -> None:
    text = "".join(f"k{i}: 1\n" for i in range(20_000)) + "k0: 2\n"
    started = time.process_time()
    root, found = load(text)
    assert time.process_time() - started < 5  # 1 s; with a search through all keys before each, 6 s and more
    assert root is not None
    assert root.get("k19999") == Scalar(20_000, 9, "k19999", "1")
    assert [issue.text("f") for issue in found] == ["f:20001:1: k0: this key stands in line 1 already: keep one"]
