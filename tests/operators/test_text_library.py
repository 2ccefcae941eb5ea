"""The library functions on codes of strings, run on the engine; the judges are Python, numpy and ONNX's reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference.ops.op_string_split import split_with_padding

from onnx_systemds.dml.java_text import frame_literal, java_regex, java_string_literal
from onnx_systemds.dml.literals import string_literal
from onnx_systemds.dml.templates import library_imports, library_text
from onnx_systemds.engine import PreparedScript, ScriptRuntimeError, shared_session
from onnx_systemds.errors import UnsupportedCase
from tests.command_line import run_dml

Array = np.ndarray[Any, np.dtype[Any]]

# What the engine, its formats or its languages give a meaning somewhere.
HOSTILE = ["a", "", "null", "NA", "NaN", "x·y", "·", "7·1", "a°b", "¶‡", 'q"q', "'", "\\", "a,b", "l\nm", "t\tt", "é", "日本",
           "😀", " lead", "trail ", "1.0", "01", "1", "TRUE", "true", "\r", "\x00z", "\ufeff", "\x1f", "->", "x", "$1", "\\n",
           "\uffee", "\\u0041", "jaccardSim", "{}", "/* */", "//"]
KNOWN = np.array([["a"], ["b"], ["null"]], dtype=object)


def texts(*rows: Any) -> Array:
    """A matrix of strings."""
    return np.array(rows, dtype=object)


def hostile(rows: int, cols: int) -> Array:
    """Hostile strings, some several times."""
    return np.resize(texts(*HOSTILE), (rows, cols))


def run(name: str, script: str, outputs: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a script that uses the library function ``name`` and those that go with codes."""
    wanted, functions = [name, "text_codes", "codes_text"], []
    while wanted:
        function = wanted.pop()
        if function not in functions:
            functions.append(function)
            wanted += library_imports(function)
    kinds = {key: ', data_type="frame"' if value.dtype == object else "" for key, value in inputs.items()}
    reads = [f'{key} = read("./{key}"{kind})' for key, kind in kinds.items()]
    lines = [*map(library_text, functions), *reads, script, *(f'write({key}, "./{key}")' for key in outputs.split())]
    return prepared("\n".join(lines), tuple(inputs), tuple(outputs.split()))(inputs)


@cache
def prepared(script: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> PreparedScript:
    """Each script is compiled once."""
    return shared_session().prepare(script, inputs, outputs)


def decoded(codes: Array, dictionary: Array) -> Array:
    """The strings that codes stand for, looked up here."""
    return dictionary[:, 0][codes.astype(int) - 1]


@pytest.mark.parametrize("strings", [hostile(47, 1), hostile(1, 7), hostile(9, 5), hostile(7, 8), texts([""]), texts(["", ""]),
                                     texts(["x"])], ids=str)
@pytest.mark.parametrize("known", [KNOWN, texts([""]), texts(["x"], [""])], ids=["three", "empty", "two"])
def test_strings_survive_their_codes(strings: Array, known: Array) -> None:
    got = run("text_codes", "[c, t] = text_codes(F, K)\nG = codes_text(c, t)", "c t G", {"F": strings, "K": known})
    dictionary = got["t"][:, 0].tolist()
    assert dictionary[: len(known)] == known[:, 0].tolist() and len(set(dictionary)) == len(dictionary)
    assert set(dictionary) == set(known[:, 0]) | set(strings.reshape(-1))
    np.testing.assert_array_equal(decoded(got["c"], got["t"]), strings)
    np.testing.assert_array_equal(got["G"], strings)
    if strings.shape[1] == 1:
        assert dictionary == list(dict.fromkeys([*known[:, 0], *strings[:, 0]]))  # by first appearance


@pytest.mark.parametrize("cols", [1, 3])
def test_no_strings(cols: int) -> None:
    got = run("text_codes", "[c, t] = text_codes(F, K)\nG = codes_text(c, t)", "c t G",
              {"F": np.empty((0, cols), dtype=object), "K": KNOWN})
    assert got["c"].shape == (0, cols) and got["G"].shape == (0, cols)
    np.testing.assert_array_equal(got["t"], KNOWN)


def test_calls_of_several_sizes_do_not_share_them() -> None:
    script = ("[c, t] = text_codes(F, K)\nG = codes_text(c, t)\n[d, t] = text_codes(matrix_of(G), t)\n"
              "H = codes_text(matrix(c, rows=45, cols=1), t)\n[e, t] = text_codes(H[1:4, ], t)")
    got = run("text_codes", script.replace("matrix_of(G)", "G[1:3, 2:4]"), "c d e t G H", {"F": hostile(9, 5), "K": KNOWN})
    np.testing.assert_array_equal(got["G"], hostile(9, 5))
    np.testing.assert_array_equal(got["H"], hostile(45, 1))
    np.testing.assert_array_equal(decoded(got["d"], got["t"]), hostile(9, 5)[:3, 1:4])
    np.testing.assert_array_equal(decoded(got["e"], got["t"]), hostile(45, 1)[:4])


def test_a_dictionary_that_grows_under_an_if_and_in_a_loop() -> None:
    # The compiler knows the size of this dictionary, and keeps it after an if and a loop that change it.
    script = """
        t = rbind(as.frame("a"), as.frame(""))
        c = matrix(1, rows=1, cols=1)
        if (nrow(F) > 1) {
          [c, t] = text_codes(F, t)
        }
        d = c
        for (i in 1:3) {
          [d, t] = map_texts(d, t, 'x + "!"')
          if (sum(d) > 0) {
            [d, t] = concat_texts(d, c, t)
          }
        }
        G = codes_text(d, t)
        [n, one] = frame_size(t)
        [p, m, t] = split_texts(d, t, '"!"', -1)
        H = codes_text(p, t)"""
    functions = ["map_texts", "concat_texts", "split_texts", "map_column", "used_texts", "values_of_codes", "text_codes", "frame_column",
                 "cell_order", "codes_text", "column_frame", "frame_size"]
    whole = "\n".join([*map(library_text, functions), 'F = read("./F", data_type="frame")', script,
                       *(f'write({name}, "./{name}")' for name in "GHtnm")])
    got = prepared(whole, ("F",), tuple("GHtnm"))({"F": texts(["b", "a"], ["", "c"])})
    assert got["G"].tolist() == [["b!b!b!b", "a!a!a!a"], ["!!!", "c!c!c!c"]]
    assert got["H"].tolist() == [["b"] * 4, ["a"] * 4, [""] * 4, ["c"] * 4]
    assert got["n"] == 4 + 3 * 7 and got["m"].tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize(("name", "script"), [
    ("map_texts", "[d, t] = map_texts(c, K, 'x')"), ("concat_texts", "[d, t] = concat_texts(c, c, K)"),
    ("texts_match", "t = K\nd = texts_match(c, K, '\"a\"')"), ("split_texts", "[e, d, t] = split_texts(c, K, '\"a\"', -1)"),
    ("texts_numbers", "t = K\nd = texts_numbers(c, K)"), ("numbers_texts", "[d, t] = numbers_texts(c, K, \"float32\")"),
    ("text_ranks", "t = K\n[d, e] = text_ranks(c, K)")], ids=lambda value: value.split()[0])
def test_functions_of_no_codes(name: str, script: str) -> None:
    got = run(name, script, "d t", {"c": np.zeros((0, 2)), "K": KNOWN})
    assert got["d"].shape == (0, 2) and got["t"][:3].tolist() == KNOWN.tolist()


def test_null_cells_are_empty_strings() -> None:
    script = 'N = removeEmpty(target=K, margin="rows", select=matrix(0, rows=nrow(K), cols=1))\n[c, t] = text_codes(rbind(N, K, N), K)'
    got = run("text_codes", script, "c t", {"K": texts(["b"], [""])})
    np.testing.assert_array_equal(got["c"], [[2], [1], [2], [2]])


@pytest.mark.parametrize(("java", "python"), [("x.toUpperCase(java.util.Locale.ROOT)", str.upper),
                                              ("x.toLowerCase(java.util.Locale.ROOT)", str.lower),
                                              ('x + "!"', lambda x: x + "!"), ("x.length()", lambda x: str(len(x.encode("utf-16-le")) // 2))],
                         ids=["upper", "lower", "append", "number"])
def test_map_texts(java: str, python: Any) -> None:
    got = run("map_texts", f"[c, t] = text_codes(F, K)\n[d, t] = map_texts(c, t, '{java}')", "c d t", {"F": hostile(9, 5), "K": KNOWN})
    np.testing.assert_array_equal(decoded(got["d"], got["t"]), np.vectorize(python, otypes=[object])(hostile(9, 5)))
    np.testing.assert_array_equal(decoded(got["c"], got["t"]), hostile(9, 5))


def test_concat_texts() -> None:
    left, right = hostile(9, 5), hostile(9, 5)[::-1]
    script = "[c, t] = text_codes(F, K)\n[d, t] = text_codes(G, t)\n[e, t] = concat_texts(c, d, t)"
    got = run("concat_texts", script, "c e t", {"F": left, "G": right, "K": KNOWN})
    np.testing.assert_array_equal(decoded(got["e"], got["t"]), left + right)
    np.testing.assert_array_equal(decoded(got["c"], got["t"]), left)
    got = run("concat_texts", script, "c e t", {"F": texts([""]), "G": texts([""]), "K": KNOWN})
    np.testing.assert_array_equal(decoded(got["e"], got["t"]), texts([""]))


MATCHED = [*HOSTILE, "ab", "AB", "a\n", "a1_", "٣", "É", "foo@bar.org", "\v", "a-b", "aXb", "{", "a{,2}", "ß", "[", "&&"]


PATTERNS = [
    r"", r"[a-z]*", r"\w+", r"\W*", r"\d+|\D", r"\s", r"[\s\w]+", r"[^\s]+", r"a$", r"^a", r".*", r"(?s).*", r"(?i)ab|é",
    r"(?P<name>a)(?P<rest>.*)", r"(?:a|b)+?", r"\x61", r"\\", r"[\\]", r"\bab\b", r"[[:alpha:]]+", r"[^[:alpha:]]+", r"[]\[]",
    r"[&]{2}", r"\Qa-b\E", r"{", r"a{,2}", r"\p{Lu}+", r"[\pL]+", r"\p{Han}+", r"a\.?b", r"[a\-b]+", r"[\w.+-]+@[\w-]+\.[\w.-]+",
    r"\a|\t.*|\v", r"😀", r"[😀-😂]", "a\nb|l\nm", r"\->", r".->?.?", r"a{1,2}b?", r"[\D]", r"\Bx|x\B"]


def test_texts_match() -> None:
    calls = []
    for number, pattern in enumerate(PATTERNS):
        literal = string_literal(java_string_literal(java_regex(pattern)))
        calls.append(f"Y{number} = texts_match(c, t, {literal})")
    together = f"Y = cbind({', '.join(f'Y{number}' for number in range(len(PATTERNS)))})"
    strings = texts(*[[text] for text in MATCHED])
    got = run("texts_match", "\n".join(["[c, t] = text_codes(F, K)", *calls, together]), "Y", {"F": strings, "K": KNOWN})["Y"]
    for pattern, found in zip(PATTERNS, got.T, strict=True):
        expected = [_re2_matches(pattern, text) for text in MATCHED]
        np.testing.assert_array_equal(found, expected, err_msg=pattern)


def _re2_matches(pattern: str, text: str) -> bool:
    """Python's answer, with the syntax and the classes of RE2."""
    for re2, python in {r"[[:alpha:]]": "[A-Za-z]", r"[^[:alpha:]]": "[^A-Za-z]", r"\Qa-b\E": "a-b", r"[\pL]+": "[^\\W\\d_]+",
                        r"\p{Lu}+": "[A-ZÉ]+", r"\p{Han}+": "[日本]+", r"\v": "\v", r"a{,2}": r"a\{,2}"}.items():
        pattern = pattern.replace(re2, python)
    pattern = pattern.replace(r"[\s", r"[\t\n\f\r ").replace(r"[^\s", r"[^\t\n\f\r ")
    pattern = re.sub(r"(?<![\[\\])\\s", r"[\\t\\n\\f\\r ]", pattern)
    flags = re.UNICODE if pattern.startswith("(?i)") or "W\\d" in pattern else re.ASCII
    return re.compile(pattern.replace("a$", r"a\Z"), flags).fullmatch(text) is not None


@pytest.mark.parametrize("pattern", ["a++", "(?=a)", "(?<!a)b", r"\1", r"(?m)a$", "(?U)a*", r"\C", "[a", "a\\", r"[^\S]", r"\Z", "a{2}+"])
def test_patterns_that_re2_or_java_lacks(pattern: str) -> None:
    with pytest.raises(UnsupportedCase):
        java_regex(pattern)


SPLITS = [("", -1), ("", 0), ("", 1), ("", 2), ("-", -1), ("-", 0), ("-", 1), ("--", -1), ("·", -1), ("\\", -1)]


def test_split_texts() -> None:
    strings = texts(["hello world !", "  hello   world !"], [" hello world   ! ", ""], ["a·b", "a-b-c"], ["--a--", "-"],
                    [" \u00a0x\u2003y\x85z\x1cq\x1f", "日本\\x"])
    calls = ["[c, t] = text_codes(F, K)"]
    for number, (delimiter, most) in enumerate(SPLITS):
        literal = string_literal(java_string_literal(delimiter))
        calls.append(f"[p{number}, n{number}, t] = split_texts(c, t, {literal}, {most})")
    outputs = " ".join(f"p{number} n{number}" for number in range(len(SPLITS)))
    got = run("split_texts", "\n".join(calls), f"t {outputs}", {"F": strings, "K": KNOWN})
    for number, (delimiter, most) in enumerate(SPLITS):
        pieces, counts = split_with_padding(strings, delimiter or None, most)
        np.testing.assert_array_equal(got[f"n{number}"], counts)
        np.testing.assert_array_equal(decoded(got[f"p{number}"], got["t"]).reshape(pieces.shape), pieces)


def test_split_into_nothing() -> None:
    got = run("split_texts", "[c, t] = text_codes(F, K)\n[p, n, t] = split_texts(c, t, '\"\"', -1)\nw = ncol(p)", "w n",
              {"F": texts(["", " "]), "K": KNOWN})
    assert got["w"] == 0 and not got["n"].any()


def test_texts_numbers() -> None:
    strings = texts(["3.14", " 1 "], ["1e-5", "1E8"], ["INF", "+INF"], ["-inf", "infinity"], ["NaN", "-nan"], [".5", "5."],
                    ["1e400", "+7"])
    got = run("texts_numbers", "[c, t] = text_codes(F, K)\nY = texts_numbers(c, t)", "Y", {"F": strings, "K": KNOWN})
    np.testing.assert_array_equal(got["Y"], strings.astype(float))


@pytest.mark.parametrize("text", ["1d", "abc", "", "0x10", "1 2", "--1", "1_0", "e"])
def test_texts_that_are_no_numbers(text: str) -> None:
    with pytest.raises(ScriptRuntimeError, match="NumberFormatException"):
        run("texts_numbers", "[c, t] = text_codes(F, K)\nY = texts_numbers(c, t)", "Y", {"F": texts([text]), "K": KNOWN})


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "bool"])
def test_numbers_texts(dtype: str) -> None:
    generator = np.random.default_rng(0)
    numbers = np.concatenate([
        [0.47892547, 1, 1e-5, 1e-3, np.nan, np.inf, -np.inf, -0.0, 0, 100, 1e20, 3.4e38, 1e-45, 0.1, 5e-324, 1.7e308],
        generator.standard_normal(99), generator.standard_normal(99) * 10.0 ** generator.integers(-30, -5, 99),
        generator.standard_normal(98) * 10.0 ** generator.integers(20, 30, 98), 2.0 ** np.arange(-120, 0)])
    if dtype in ("int64", "bool"):
        numbers = np.concatenate([[0, 1, -1, 2**53, 10**15, -7], np.arange(-20, 20)])
    with np.errstate(all="ignore"):
        numbers = numbers.astype(dtype).reshape(-1, 2)
    kind = {"int64": "int"}.get(dtype, dtype)
    got = run("numbers_texts", f'[c, t] = numbers_texts(X, K, "{kind}")', "c t", {"X": numbers.astype(float), "K": KNOWN})
    np.testing.assert_array_equal(decoded(got["c"], got["t"]), numbers.astype(np.str_).astype(object))


def test_text_ranks() -> None:
    strings = texts(["b", "a", ""], ["\uffee", "😀", "日"], ["Z", "\ue000", "aa"], ["a", "b", "Z"])
    got = run("text_ranks", "[c, t] = text_codes(F, K)\n[r, s] = text_ranks(c, t)", "r s t", {"F": strings, "K": KNOWN})
    ordered = sorted(set(strings.reshape(-1)))
    assert decoded(got["s"], got["t"])[:, 0].tolist() == ordered
    np.testing.assert_array_equal(got["r"], np.vectorize(ordered.index)(strings) + 1)


def test_java_string_literal() -> None:
    for text in ["", *HOSTILE]:
        literal = java_string_literal(text)
        assert literal.isascii() and not re.search(r"\\|->|jaccardSim", literal)
    expression = " + (char) 9 + ".join(map(java_string_literal, HOSTILE))
    got = run("map_column", f"G = map_column(K, {string_literal(f'b[i] = {expression};')})", "G", {"K": texts(["a"])})
    assert got["G"][0, 0] == "\t".join(HOSTILE)


def test_frame_literal() -> None:
    got = run("text_codes", f"t = {frame_literal(HOSTILE)}\n[c, u] = text_codes(t, t)\nd = {frame_literal(['1'])}", "c t d", {})
    assert got["t"][:, 0].tolist() == HOSTILE and got["d"].tolist() == [["1"]]
    np.testing.assert_array_equal(got["c"][:, 0], np.arange(len(HOSTILE)) + 1)


def test_many_strings() -> None:
    generator = np.random.default_rng(0)
    known = texts(*[[f"known {i}"] for i in range(300)])
    strings = np.array([f"known {i}" if i < 300 else f"new {i}" for i in generator.integers(0, 9000, 40000)], dtype=object)
    got = run("text_codes", "[c, t] = text_codes(F, K)\nG = codes_text(c, t)", "c t G", {"F": strings.reshape(-1, 1), "K": known})
    assert got["t"][:, 0].tolist() == list(dict.fromkeys([*known[:, 0], *strings]))
    np.testing.assert_array_equal(got["G"][:, 0], strings)
    np.testing.assert_array_equal(decoded(got["c"], got["t"])[:, 0], strings)


def test_plain_command_line(tmp_path: Path) -> None:
    names = ["map_texts", "map_column", "used_texts", "values_of_codes", "text_codes", "frame_column", "cell_order", "codes_text", "frame_size",
             "column_frame"]
    script = f"""
        t = {frame_literal(["a", "", "x·y"])}
        [c, t] = text_codes(cbind(t, t), t)
        [d, t] = map_texts(c, t, 'x + "!"')
        print(toString(codes_text(d, t), sep="|", linesep=";"))"""
    assert "a!|a!;!|!;x·y!|x·y!" in run_dml("\n".join([*map(library_text, names), script]), tmp_path)
