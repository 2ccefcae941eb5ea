"""Scripts and options with a mistake: the command ends with place, line, caret and reason, and writes no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_systemds.exporting.builtins.registry import BUILTINS, Builtin
from tests.dml.test_syntax_errors import BROKEN
from tests.invoking import invoke

F = "f = function(matrix[double] A, double k) return (matrix[double] B) { B = A * k }\n"

# line 2, after X = read("X"), a matrix of 3 x 2, in front of write(Y, "Y"); the place; a part of the message
LINES = [
    # names
    ("Y = X + Z", "2:9", "the variable Z is not defined here"),
    ("Y[1, ] = X[1, ]", "2:1", "the variable Y is not defined here"),
    ("Y = relu1(X)", "2:5", "relu1 is no function of the script, and no builtin that can be exported"),
    ("Y = rowSum(X)", "2:5", "hint: is rowSums meant?"),
    ("Y = ns::g(X)", "2:5", "there is no function ns::g"),
    ('Y = eval("nosuch", X)', "2:5", "nosuch is no function"),
    ("Y = X * $k", "2:9", "the argument $k is not given"),
    ('L = list(a=X)\nY = as.matrix(L["b"])', "3:15", "the list L has no item 'b'"),
    ("L = list(X)\nY = as.matrix(L[2])", "3:15", "the list L has 1 items, but no item 2"),
    # arguments
    ("Y = exp(X, 2)", "2:5", "exp takes at most 1 arguments, not 2"),
    ("Y = outer(X)", "2:5", "outer needs the argument y"),
    ('Y = ifelse("FALSE", X, X * 2)', "2:5", "a string where a boolean is needed"),
    ('Y = X * as.double("1_000")', "2:9", 'the string "1_000" is no number'),
    ('Y = X * as.integer("Inf")', "2:9", 'the string "Inf" is no integer'),
    ("Y = rbind()", "2:5", "there is nothing to join"),
    ("Y = matrix(X, rows=2, colz=1)", "2:5", "matrix has no argument colz"),
    ('Y = removeEmpty(target=X, margin="row")', "2:5", "not rows or cols"),
    ('Y = outer(X[, 1], t(X[, 1]), "??")', "2:5", "the operator '??' is not exported"),
    ('Y = matrix("1 a 3 4", 2, 2)', "2:5", 'the string "1 a 3 4" holds "a", which is no number'),
    ('Y = matrix("1 -Inf", 1, 2)', "2:5", "there an infinite one is Infinity"),
    ('Y = matrix("1,2,3,4", 2, 2)', "2:5", "hint: numbers with spaces between them make a matrix"),
    ('Y = matrix("1 2 3", 2, 2)', "2:5", "3 numbers are given for 2 x 2"),
    ('Y = matrix("1 2", cols=0, byrow=TRUE)', "2:5", "2 numbers are given for 2 x 0"),
    ('Y = matrix("1 2", cols=as.integer(sum(X)), byrow=TRUE)', "2:5", "a matrix from a string must be known"),
    ("Y = matrix(X, cols=0, byrow=TRUE)", "2:5", "a matrix of 3 x 2 has not the elements for 6 x 0"),
    ("Y = matrix(1, -1, 2)", "2:5", "there is no matrix of -1 x 2"),
    ("Y = seq(1, 3, 0)", "2:5", "the sequence from 1 to 3 by 0 is empty"),
    ("L = list(X, 1, 2)\nL[2:3] = list(4)\nY = L[2]", "3:1", "a list of 1 is assigned to 2 items of the list L"),
    ("R = rand(rows=3, cols=2)\nL = list(R, X)\nY = rbind(L)", "2:5", "the engine draws new random numbers in every run"),
    ("R = rand(rows=3, cols=2)\nL = list(R)\nY = L + 1", "2:5", "the engine draws new random numbers in every run"),
    ("R = rand(rows=3, cols=2)\nL = list(R, X)\nif (sum(X) > 0) { L[2] = X * 2 }\nY = as.matrix(L[1])", "2:5", "draws new random numbers"),
    ('s = "a" + sum(X)\nfor (i in 1:nrow(X)) { s = s + i }\nY = as.frame(s)', "2:9",
     "a double that only the run knows becomes part of a string"),
    ('Y = as.frame(toString(sum(X)))', "2:14", "hint: write the number as an output of its own\n"),
    ('Y = as.frame(toString(sum(X) > 1))', "2:14", "toString has no counterpart in ONNX"),
    ('Y = replace(target=X, pattern=0, replacement="Inf")', "2:5", "a string where a number is needed"),
    ('Y = as.frame("a" + sum(X))', "2:18", "hint: write the number as an output of its own\n"),
    ('Y = X\nk = "a" + sum(X)\nwrite(k, "log")\nwrite(X, "Z")', "3:9", 'hint: write the number as an output of its own; or leave out "log": --result Z --result Y'),
    ('Y = X\nif (sum(X) > 0) { k = "a" + sum(X)\nwrite(k, "log") } else { write("none", "log") }', "3:27", 'or leave out "log": --result Y'),
    # arguments with names where the engine wants places, and the other way round
    ("Y = matrix(0, 3, cols=2)", "2:5", "hint: only the first may lack its name"),
    ("Y = matrix(X, rows=2)", "2:5", "matrix must have three arguments at least"),
    ("Y = matrix(rows=3, cols=2, data=1)", "2:5", "the first argument of matrix must be data"),
    ("Y = order(X, by=1)", "2:5", "hint: write order(target=..."),
    ('Y = removeEmpty(X, "rows")', "2:5", "the engine takes the arguments of removeEmpty by name only"),
    ("Y = cumsum(target=X)", "2:5", "the engine takes the arguments of cumsum by position"),
    ("s = toString(X, sparse=TRUE)\nY = X * length(s)", "2:5", "hint: write the value as an output"),
    ("Y = toOneHot(X[, 1], numClasses=3)", "2:5", "toOneHot has arguments with and without names"),
    ("Y = as.matrix(median(X))", "2:15", "a matrix of 3 x 2 where a column is needed"),
    ("Y = as.matrix(mean(X, 2))", "2:15", "the argument w of mean is an int, not a matrix"),
    ("Y = order(target=X, by=3)", "2:5", "order by column 3 of a matrix of 3 x 2"),
    ("Y = as.matrix(trace(X))", "2:15", "trace of a matrix of 3 x 2, which is not square"),
    ("Y = replace(target=X, pattern=X, replacement=1)", "2:5", "the pattern of replace is a matrix of 3 x 2"),
    # what ONNX has not
    ("Y = X * sample(3, 3)", "2:9", "hint: give a seed, or draw them before"),
    ("Y = X * sample(2, 3, FALSE, 7)", "2:9", "a sample of 3 from 2 numbers"),
    ("Y = X * sample(10000000, 3, FALSE, 7)", "2:9", "a sample from 10000000 numbers, and 4194304 are possible"),
    ("Y = X * rand(rows=3, cols=2)", "2:9", "hint: give a seed"),
    ("[Y, S, V] = svd(X)", "2:13", "hint: give --iterative to export it by rotations, or bind its results"),
    ('Y = paramserv(features=X, upd="g")', "2:5", "hint: export the function that predicts"),
    ('[Y, M] = transformencode(target=X, spec="{}")', "2:10", "it learns codes from the data"),
    ("v = X * time()\nk = 0\nwhile (k < sum(X)) { v = X * k\nk = k + 1 }\nY = v", "2:9", "a model knows no clock"),
    # sizes
    ("Y = X %*% X", "2:7", "the product of a matrix of 3 x 2 and a matrix of 3 x 2: inner sizes differ"),
    ("Y = X + matrix(1, 5, 7)", "2:7", "operands of 3x2 and 5x7 do not fit together"),
    ("Y = cbind(X, matrix(1, 4, 4))", "2:5", "do not fit together"),
    ("Y = matrix(X, rows=4, cols=4)", "2:5", "a matrix of 3 x 2 has not the elements for 4 x 4"),
    ("Y = table(seq(1, 2), X, 3, 3)", "2:5", "the table of a matrix of 2 x 1 and a matrix of 3 x 2: their sizes differ"),
    ("Y = table(X, seq(1, nrow(X)), 3, 3)", "2:5", "the table of a matrix of 3 x 2 and a matrix of 3 x 1: their sizes differ"),
    ("Y = table(X, X, seq(1, nrow(X)))", "2:5", "the table of a matrix of 3 x 2 and a matrix of 3 x 1: their sizes differ"),
    ("Y = diag(X)", "2:5", "the diagonal of a matrix of 3 x 2, which is not square"),
    ("Y = avg_pool(X, input_shape=[3,1,4,4], pool_size=[2,2], stride=[1,1], padding=[0,0])", "2:5",
     "6 elements do not fill 3 x 1 x 4 x 4"),
    ("Y = max_pool(X, input_shape=[3,1,2,1], pool_size=[1,1], stride=[1,1], padding=[1,0])", "2:5",
     "a window of 1 x 1 with a padding of 1 x 0, in which nothing else may lie"),
    ("Y = max_pool(X, input_shape=[3,1,2,1], pool_size=[1,1], stride=[0,1], padding=[0,0])", "2:5",
     "a stride of 0 x 1, at least 1 is possible"),
    ("Y = conv2d(X, X, input_shape=[3,1,2,1], filter_shape=[3,1,2,1], stride=[1,1], padding=[-1,0])", "2:5",
     "a padding of -1 x 0, at least 0 is possible"),
    ("Y = X * as.scalar(X)", "2:9", "is no matrix of 1 x 1"),
    # ranges
    ("Y = X[, 5]", "2:5", "the range 5:5 ends after the last of 2"),
    ("Y = X[0, ]", "2:5", "the range 0:0 is empty or begins before 1"),
    ("Y = X[3:2, ]", "2:5", "the range 3:2 is empty"),
    ("Y = X[1 / 0, 1]", "2:9", "inf where an integer is needed"),
    ('Y = X["a", 1]', "2:7", "a string where an integer is needed"),
    ("F = as.frame(X)\nF[1:2, 1] = as.frame(X)\nY = as.matrix(F)", "3:1", "a frame of 3 x 2 is assigned to a range of 2 x 1"),
    ("Y = X\nY[, 1:2] = X[, 1]", "3:1", "a matrix of 3 x 1 is assigned to a range of 3 x 2"),
    ("Y = X\nfor (i in 1:4) { Y[i, ] = X[1, ] }", "3:18", "the range 4:4 ends after the last of 3"),
    ("Y = X\nfor (i in 1:30) { Y[, i] = X[, 1] }", "3:19", "the range 3:3 ends after the last of 2"),
    ("Y = X\nfor (i in 1:3) { Y[i - 1, ] = X[1, ] }", "3:18", "the range 0:0 is empty or begins before 1"),
    ("Y = X\nfor (i in 1:3) { Y[i, 1] = sum(X[i - 1, ]) }", "3:32", "the range 0:0 is empty or begins before 1"),
    ("Y = matrix(0, 9, 1)\nfor (i in 1:9) { Y[i, 1] = sum(X[i, ]) }", "3:32", "the range 9:9 ends after the last of 3"),
    # types
    ('Y = X * "a"', "2:7", "a string where a number is needed"),
    ("Y = (X > 0) && (X < 1)", "2:13", "the engine has no '&&'"),
    ("Y = X * (sum(X) > 1 || nrow(X) > 2)", "2:21", "the engine has no '||'"),
    ("Y = X * (sum(X) > 1)", "2:7", "'*' of a boolean and a number"),
    ("Y = X - 2 * !(sum(X) > 1)", "2:11", "'*' of a boolean and a number"),
    ("Y = X + as.integer(TRUE ^ 2)", "2:25", "'^' of a boolean and a number"),
    ("Y = X * as.integer(-(sum(X) > 1))", "2:20", "'-' of a boolean"),
    ("L = list(X, X)\nY = L + 1", "3:7", "an operation on a list of 2 and an int"),
    ("Y = matrix([1, 2], rows=1, cols=2)", "2:5", "hint: as.matrix(...) makes a matrix of a list of numbers"),
    ("L = list()\nfor (i in 1:sum(X)) { L = append(L, X) }\nY = rbind(L)", "3:1", "hint: a matrix may grow: M = rbind(M, row)"),
    ("Y = t(3)", "2:5", "the argument target of t is an int, not a matrix"),
    ("Y = avg_pool(X, input_shape=3, pool_size=[2,2], stride=[1,1], padding=[0,0])", "2:5", "the argument input_shape of avg_pool"),
    ('Y = removeEmpty(target=X, margin="rows", empty.return="a")', "2:5", "the argument empty.return of removeEmpty must be"),
    ("if (sum(X) > 0) { Y = X } else { Y = 3 }", "2:1", "Y is a matrix on one path and an int on another"),
    ('if (sum(X) > 0) { k = "a" } else { k = "b" }\nY = X * k', "3:7", "a string where a number is needed"),
    ('k = 1\nif (sum(X) > 0) { k = "a" }\nY = X * k', "3:1", "k is a string on one path and an int on another"),
    ('k = 1\nwhile (sum(X) > 9) { X = X - 9\nk = "a" }\nY = X * k', "3:1", "k is a scalar on one path and a string on another"),
    ("if (X > 0) { Y = X } else { Y = -X }", "2:7", "6 elements do not fill one scalar"),
    # ways that do not end, or end too early
    ("Y = X\nwhile (TRUE) { Y = Y + 1 }", "3:8", "this loop never ends"),
    ("Y = X\nfor (i in seq(1, 3, 0)) { Y = X }", "3:11", "a loop whose step is 0"),
    ("Y = X\nfor (i in seq(1, 3, 0.5)) { Y = X }", "3:11", "hint: the engine cuts a step off after the point"),
    ('stop("never")\nY = X', "2:1", "the script stops here: never"),
    ("assert(ncol(X) == 4)\nY = X", "2:1", "the condition of this assert does not hold"),
    # what is written
    ("Y = list()", "3:1", "a list of 0 cannot be an output"),
    ("write(X)\nY = X", "2:1", "write needs the argument path"),
    ('Y = X\nwrite(X, "Y.csv", format="csv")', "4:1", '"Y" is written twice'),
    ('Y = X\nL = list(X, X)\nwrite(L, "Z")\nL = list(X)\nwrite(L, "Z")', "6:1", '"Z" is written twice with different items'),
    ('Y = X\nwrite(X, "Z")\nif (sum(X) > 0) { write(X, "Z") } else { write(Y, "Z") }', "4:1", '"Z" is written twice'),
    ('Y = X\nif (sum(X) > 0) { write(X, "Z") }', "3:1", '"Z" is written by one branch alone'),
    ('Y = X\nif (sum(X) > 0) { Y = X + 1\nwrite(X, "Z") }', "3:1", '"Z" is written by one branch alone'),
    ('Y = X\nif (sum(X) > 0) { write(X, "Z") } else { Z = toString(X)\nwrite(Z, "Z") }', "3:46", "toString has no counterpart"),
    ('Y = X\nif (toString(X) == "") { Y = X + 1\nwrite(X, "Z") }', "3:5", "toString has no counterpart"),
    ('Y = X\nwhile (sum(Y) < 9) { Y = Y + 1\nwrite(Y, "Z") }', "4:1", '"Z" is written'),
    ('Y = X *', "3:7", "the variable Y is not defined here"),
]

# whole scripts and options; no place where the script is not to blame
READ = 'X = read("X")\n'
WRITE = 'write(Y, "Y")\n'
LEFT_OUT = ("g = function(matrix[double] A, int k = 2, matrix[double] C = matrix(k, 1, 1)) return (double s) {\n"
            "  if (sum(A) > 9) { A = -A }\n  s = sum(A) * k + sum(C)\n}\n")
INLINED = "h = function(matrix[double] A, double k = 2) return (matrix[double] B) { B = A * k }\n"
IDENTITY = "f = function(matrix[double] X) return (matrix[double] Y) { Y = X }\n"
WHOLE = [
    (f"{F}{READ}Y = f(X, 2, 3)\n{WRITE}", "", "3:5", "f takes 2 arguments, not 3"),
    (f"{F}{READ}Y = f(X)\n{WRITE}", "", "3:5", "f needs the argument k"),
    (f"{F}{READ}Y = f(A=X, q=2)\n{WRITE}", "", "3:5", 'f has no parameter "q"'),
    (f"{F}{READ}Y = f(X, A=X)\n{WRITE}", "", "3:5", "f gets the argument A twice"),
    (f"{LEFT_OUT}{READ}Y = g(X, k=2, C=X)\n{WRITE}", "", "6:5", "g has arguments with and without names"),
    (f"{F}{READ}Y = f(k=2, X)\n{WRITE}", "", "3:5", "f gets the argument k twice"),
    (f"{READ}Y = matrix(data=1, 2, 3)\n{WRITE}", "", "2:5", "an argument of matrix without a name stands after one that has a name"),
    (f"{F}{READ}Y = f(A=X, k=2, k=3)\n{WRITE}", "", "3:5", "f gets the argument k twice"),
    (f"{LEFT_OUT}{READ}Y = g(X, 2)\n{WRITE}", "", "6:5", "g gets its arguments by position, but not C"),
    (f'{LEFT_OUT}{READ}Y = eval("g", X, 2)\n{WRITE}', "", "6:5", "g gets its arguments by position, but not C"),
    (f'{LEFT_OUT}{READ}Y = eval("g", list(A=X))\n{WRITE}', "", "6:5", "the list for g lacks C, whose default is no literal"),
    (f"{LEFT_OUT}{READ}Y = g(A=X)\n{WRITE}", "", "1:69", "the variable k is not defined here"),
    (f"{INLINED}{READ}Y = h(A=X)\n{WRITE}", "", "3:5", "h does not get k"),
    (f"{READ}[Y, m, s] = scale(X)\n{WRITE}", "", "2:13", "scale gets its arguments by position, but not center"),
    (f"{READ}Y = matrix(X, rows=3, 2)\n{WRITE}", "", "2:5", "hint: name all of them, or none"),
    (f'{READ}Y = X\nX = read("a/X.csv")\nY = X + Y\n{WRITE}', "", "3:5", '"a/X.csv" and "X" would be one input'),
    (f"{F}{READ}[Y, Z] = f(X, 2)\n{WRITE}", "", "3:1", "f gives 1 values, not 2"),
    (f"{F}{READ}Y = f(3, 2)\n{WRITE}", "", "3:5", "A of f is a matrix[double], but gets an int"),
    (f"{F}{READ}Y = f(X, X)\n{WRITE}", "--input X=[3,2]", "3:5", "k of f is a double, but gets a matrix of 3 x 2"),
    ("f = function(matrix[double] X) return (matrix[double] Y) {\n  Y = f(X)\n}\n", "--function f", "2:7", "nested deeper"),
    ("f = function(matrix[double] X) return (matrix[double] Y) {\n  Y = X\n  if (sum(X) > 0) { Y = f(X - 1) }\n}\n",
     "--function f", "3:25", "the end of this recursion is not known"),
    ("f = function(matrix[double] X) return (matrix[double] Y) {\n  Y = X\n  if (sum(X) > 0) { Y = f(X - 1) }\n}\n",
     "--function f --functions keep", "3:25", "hint: with --functions inline its arguments may tell"),
    ("f = function(matrix[double] X) return (matrix[double] Y) { Y = sum(X) }\n", "--function f", "1:40",
     "Y of f is a matrix[double], but gets a double"),
    ("f = function(matrix[double] X) return (matrix[double] Y) { Z = X }\n", "--function f", "1:40", "does not assign"),
    ("f = function(list[unknown] L) return (double s) { s = 1 }\n", "--function f", "1:14", "must be bound to a value"),
    ("f = function(string s) return (string t) { t = s }\n", "--function f", "1:14", "hint: bind it: --weight s='\"text\"'"),
    (IDENTITY, "--function g", "", "hint: its functions: f"),
    (IDENTITY, "--function f --result Z", "", 'the function f has no result "Z"'),
    (f'{READ}source("none.dml") as n\nY = n::f(X)\n{WRITE}', "", "2:1", 'the script "none.dml" is not found'),
    (f'{READ}source("nn/layers/relu.dml") as n\nY = n::f(X)\n{WRITE}', "", "3:5", "hint: its functions: forward, backward"),
    (f"{READ}{WRITE}", "--input X=[3]", "2:7", "the variable Y is not defined here"),
    (f"{READ}Y = X\n", "", "", "the script has no result that could be an output"),
    (f"{READ}Y = X\n{WRITE}", "--input X=complex[2]", "", '"complex[2]" does not say what an input is'),
    (f"{READ}Y = X\n{WRITE}", "--input X=[N,?]", "", "a dim that is neither a number nor a name"),
    (f"{READ}Y = X\n{WRITE}", "--input Z=[N]", "", "hint: what is asked for: X"),
    (f"{READ}Y = X\n{WRITE}", "--weight Z=3", "", 'nothing in the script asks for "Z"'),
    (f"{READ}Y = X\n{WRITE}", "--weight X=none.csv", "", "none.csv: it is neither a file nor a number\n  hint: a text is written in"),
    (f"{READ}Y = X\n{WRITE}", "--weight X=bad.csv", "", "bad.csv"),
    (f"{READ}Y = X\n{WRITE}", "--weight X=w.csv --input X=[2,2]", "1:5", "X is bound to a value, and declared as an input"),
    (f'{READ}W = read("W")\nY = X %*% W\n{WRITE}', "--weight W=w.csv --input X=[N,3]", "3:7", "inner sizes differ"),
    (f'{READ}w = read("m/w", data_type="list")\nY = X * as.scalar(w[1])\n{WRITE}', "", "2:5", "hint: bind it: --weight m/w=m/w"),
    (f"{READ}Y = X * $k\n{WRITE}", "--arg k=abc", "2:7", "a string where a number is needed"),
    (f"{READ}Y = X\n{WRITE}", "--opset 5", "", "models of opset 5 cannot be written"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.csv").write_text("1,2\n3,4\n")
    Path("bad.csv").write_text("1,x\n")


def check_refusal(script: str, options: str, place: str, message: str) -> None:
    """The command says all of it, and nothing else changes; a caret is below the place."""
    Path("m.dml").write_text(script)
    before = sorted(Path().iterdir())
    result = invoke("m.dml", *options.split())
    assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    assert result.output.startswith("error: ")
    assert message in result.output
    assert sorted(Path().iterdir()) == before
    if place:
        line, column = map(int, place.split(":"))
        source = script.split("\n")[line - 1].rstrip()
        shown = result.output.split("\n")
        at = next(i for i, text in enumerate(shown) if text.endswith(f" {line} | {source}"))
        assert f"m.dml:{place}: " in shown[at - 1]
        assert shown[at + 1].index("^") == len(shown[at]) - len(source) + column - 1


@pytest.mark.parametrize(("line", "place", "message"), LINES, ids=[row[0].replace("\n", "; ")[:50] for row in LINES])
def test_bad_line(line: str, place: str, message: str) -> None:
    check_refusal(f"{READ}{line}\n{WRITE}", "--input X=[3,2]", place, message)


@pytest.mark.parametrize(("script", "options", "place", "message"), WHOLE, ids=[f"{r[3][:40]} {r[1]}" for r in WHOLE])
def test_bad_script_or_option(script: str, options: str, place: str, message: str) -> None:
    check_refusal(script, options, place, message)


def test_a_file_that_an_argument_names_needs_a_name_beside_its_content() -> None:
    script = 'X = read($X, format="csv")\nY = X * 2\n' + WRITE
    check_refusal(script, "--input X=[3,2]", "1:10", "its name may be any, and need not exist: --arg X=NAME")
    check_refusal(script, "", "1:10", "hint: give it: --arg X=VALUE")


def test_a_fault_of_the_exporter_names_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILTINS, "faulty", Builtin("faulty", lambda _: [][1], ()))
    check_refusal(f"{READ}Y = faulty()\n{WRITE}", "", "", "m.dml:2:1: IndexError: list index out of range")


@pytest.mark.parametrize("row", BROKEN, ids=[row[0][:40] for row in BROKEN])
def test_bad_syntax(row: tuple[str, int, int, str, str]) -> None:
    """Line and caret are tested with the parser."""
    check_refusal(row[0], "", "", row[3])
