from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.arithmetic import EvaluationError, ExpressionError, arch_number, parse, values

NAMES = {"M": 1000, "N": 4096, "BM": 128, "BIG": 2**62, "arch": 90}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M % 8 == 0", True),
        ("M%128==0", False),
        ("1 < M <= 1000 < N", True),
        ("1 < M < 1000 < N", False),
        ("not M % BM == 0 and N % BM == 0", True),
        ("M == 1 or N == 1 or arch >= 90", True),
        ("BIG * BIG * BIG > BIG", True),
        ("M / 3 * 3 == M", True),
        ("-M // 3 == -334", True),
        ("-M % 3 == 2", True),
        ("7 / 2 == 3", False),
        ("2 + 3 * 4 == 14", True),
        ("(2 + 3) * 4 == 20", True),
        ("10 - 4 - 3 == 3", True),
        ("- - 3 == +3", True),
        ("M == 0 or N % M == 96", True),
        ("not not M != 0", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert parse(text, NAMES).holds(NAMES) is expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "is empty"),
        ("  ", 1, "is empty"),
        ("M % 128", 1, "is a number, not a condition: compare it, as in `M % 128 == 0`"),
        ("M % 128 = 0", 9, "unexpected '=': write `==` to compare"),
        ("M && N", 3, "unexpected '&&': write `and`"),
        ("M == 1 || N == 1", 8, "unexpected '||': write `or`"),
        ("! (M == 1)", 1, "unexpected '!': write `not`"),
        ("M ** 2 == 4", 3, "unexpected '**': powers"),
        ("M == 1.5", 6, "1.5 is not a decimal integer"),
        ("M == 010", 6, "010 is not a decimal integer"),
        ("M == 0x10", 6, "0x10 is not a decimal integer"),
        ("M == 1e3", 6, "1e3 is not a decimal integer"),
        ("M == 1_000", 6, "1_000 is not a decimal integer"),
        ("M == " + "9" * 30, 6, "99999999... has more than 19 digits"),
        ("m == 1", 1, 'm is no dim, param or arch; did you mean "M"?'),
        ("M % BN == 0", 5, "BN is no dim, param or arch; known names: BIG, BM, M, N, arch"),
        ("acrh >= 90", 1, 'acrh is no dim, param or arch; did you mean "arch"?'),
        ("Q9 == 0", 1, "Q9 is no dim, param or arch; known names: BIG, BM, M, N, arch"),
        ("(M == 1", 8, "a ) is missing"),
        ("M == 1)", 7, "unexpected ')'"),
        ("M ==", 5, "ends where a number, a name or ( is expected"),
        ("M == 1 and", 11, "ends where"),
        ("M 1", 3, "unexpected '1'"),
        ("not M", 5, "M is a number where a condition is meant"),
        ("M and N == 1", 1, "M is a number where a condition is meant"),
        ("(M == 1) + 1 == 2", 1, "(M == 1) is a condition where a number is meant"),
        ("(M == 1) == (N == 1)", 1, "(M == 1) is a condition where a number is meant"),
        ("__import__('os')", 1, "__import__ is no dim"),
        ("M.real == 1", 2, "unexpected '.'"),
        ("(" * 50 + "M" + ")" * 50, 41, "nested more than 40 deep"),
        ("-" * 50 + "M == 1", 41, "nested more than 40 deep"),
        ("not " * 50 + "M == 1", 161, "nested more than 40 deep"),
        ("M == 1 or " * 60 + "M == 1", 1, "longer than 400 characters"),
    ],
)
def test_what_is_no_condition_says_where_and_why(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, NAMES)
    assert str(caught.value).startswith(message)
    assert caught.value.column == column


@pytest.mark.parametrize("sign", ["/", "//", "%"])
def test_division_by_zero_is_an_error_of_its_own(sign: str) -> None:
    condition = parse(f"2 * M {sign} (N - 1) == 0", {"M", "N"})
    with pytest.raises(EvaluationError, match=r"^2 \* M (/|//|%) \(N - 1\): division by zero \(\(N - 1\) is 0\)$"):
        condition.holds({"M": 3, "N": 1})


def test_evaluation_stops_where_pythons_does() -> None:
    assert parse("N == 0 or M % N == 0", {"M", "N"}).holds({"M": 3, "N": 0})
    assert not parse("N != 0 and M % N == 0", {"M", "N"}).holds({"M": 3, "N": 0})
    assert not parse("1 < N < M // N", {"M", "N"}).holds({"M": 3, "N": 0})


def test_what_failed_in_words() -> None:
    assert parse("M % 128 == 0", NAMES).failed_text(NAMES) == "M % 128 == 0 fails: M = 1000"
    assert parse("M % BM == 0", NAMES).failed_text(NAMES) == "M % BM == 0 fails: M = 1000, BM = 128"
    assert parse("N % 128 == 0 and  M % 128 == 0", NAMES).failed_text(NAMES) == "M % 128 == 0 fails: M = 1000"
    assert parse("M == 1 or N == 1", NAMES).failed_text(NAMES) == "M == 1 or N == 1 fails: M = 1000, N = 4096"
    assert parse("1 == 2", NAMES).failed_text(NAMES) == "1 == 2 never holds"
    assert parse("M % BM == 0 or M > N", NAMES).names == ("M", "BM", "N")


def test_values_are_dims_whole_params_and_the_architecture() -> None:
    assert arch_number("sm_90a") == 90
    assert arch_number("sm_103f") == 103
    assert values({"M": 1}, {"BM": 2, "S": 0.5, "T": "float4", "F": True}, "sm_90a") == {
        "M": 1, "BM": 2, "F": 1, "arch": 90,
    }  # fmt: skip
    assert values({"M": 1}, {}) == {"M": 1}
    with pytest.raises(ValueError, match="not an architecture"):
        arch_number("hopper")


NUMBER = st.integers(0, 50).map(str) | st.sampled_from(["M", "N", "BM", "BIG"])
ARITHMETIC = st.recursive(
    NUMBER,
    lambda part: (
        st.tuples(part, st.sampled_from(["+", "-", "*", "//", "%"]), part).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | st.tuples(part, st.sampled_from([" + ", "-", "*", "//", "%"]), NUMBER).map("".join)
        | part.map(lambda text: f"-{text}")
    ),
    max_leaves=8,
)
COMPARISON = st.lists(ARITHMETIC, min_size=2, max_size=3).flatmap(
    lambda parts: st.lists(
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), min_size=len(parts) - 1, max_size=len(parts) - 1
    ).map(lambda signs: " ".join(word for pair in zip(parts, [*signs, ""], strict=True) for word in pair).strip())
)
CONDITION = st.recursive(
    COMPARISON,
    lambda part: (
        st.tuples(part, st.sampled_from([" and ", " or "]), part).map("".join)
        | part.map(lambda text: f"not ({text})")
        | part.map(lambda text: f"({text})")
    ),
    max_leaves=4,
).filter(lambda text: len(text) <= 400)


@given(CONDITION, st.integers(0, 300), st.integers(0, 300))
def test_agrees_with_python(text: str, m: int, n: int) -> None:
    env = {"M": m, "N": n, "BM": 128, "BIG": 2**62}
    condition = parse(text, env)
    try:
        expected = eval(text, {"__builtins__": {}}, dict(env))
    except ZeroDivisionError:
        with pytest.raises(EvaluationError, match="division by zero"):
            condition.holds(env)
        return
    assert condition.holds(env) is bool(expected)


@given(st.integers(-100, 100), st.integers(1, 100), st.integers(1, 100))
def test_division_is_exact(a: int, b: int, c: int) -> None:
    assert parse("A / B * C == A * C / B", "ABC").holds({"A": a, "B": b, "C": c})
    assert parse("A / B < C", "ABC").holds({"A": a, "B": b, "C": c}) is (Fraction(a, b) < c)


@given(st.text(alphabet="MNand ort()+-*/%<>=!&|.0123\"'[]_\n", max_size=40))
def test_any_text_is_a_condition_or_an_error_with_a_column(text: str) -> None:
    refused: ExpressionError | None = None
    try:
        used = set(parse(text, {"M", "N"}).names)
    except ExpressionError as error:
        refused, used = error, set()
    assert used <= {"M", "N"}
    assert refused is None or (1 <= refused.column <= len(text) + 1 and str(refused))
