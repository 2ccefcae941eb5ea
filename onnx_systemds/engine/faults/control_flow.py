"""Loops, branches and calls: what the compiler takes for known of a variable, and is not."""

from __future__ import annotations

from onnx_systemds.engine.faults.fault import Fault

CONTROL_FLOW: tuple[Fault, ...] = (
    Fault(
        "two-reads-into-one-variable",
        "of two files that a block reads into one variable, what got its first value has the second one",
        'Y = read("{folder}/parts/0_ones")\nfirst = Y\nY = read("{folder}/parts/1_more")\n'
        "result = cbind(as.matrix(sum(first)), as.matrix(sum(Y)))",
        ((2, 3),),
        "importing/explain_program.py",
    ),
    Fault(
        "old-value-after-new-one",
        "in a block that gives a variable a new value, what gets its old value after that gets the new one, matrix or "
        "number, in the statements of an inlined call, too",
        "f = X\ny = 2 * X\nfor (i in seq(1, 3, 1)) {\n  a = f + y\n  b = f\n  f = a\n  y = b\n}\nresult = cbind(f, y)",
        ((7, 4),),
        "operators/onnx/carried_values.py: iteration",
        inputs=((1,),),
    ),
    Fault(
        "size-of-call-in-loop",
        "a variable that a loop gives to a function and takes from it keeps its first size for the compiler",
        "longer = function(matrix[double] X) return (matrix[double] Y) {\n"
        '  never = time() < 0\n  if (never) { print("never") }\n  Y = rbind(X, as.matrix(1))\n}\n'
        "all = function(matrix[double] X) return (matrix[double] Y) {\n  Y = matrix(0, rows=0, cols=1)\n"
        "  for (i in seq(1, nrow(X), 1)) { Y = longer(Y) }\n  Y = abs(Y)\n}\nresult = all(X)",
        ((1,), (1,)),
        "operators/onnx/carried_values.py: iteration, grown",
        inputs=((1,), (1,)),
    ),
    Fault(
        "zeros-of-call-in-loop",
        "zeros that a loop gives to a function, and takes other numbers for, are zeros for the products after the loop",
        "further = function(matrix[double] X) return (matrix[double] Y) {\n"
        '  never = time() < 0\n  if (never) { print("never") }\n  Y = X + 2\n}\n'
        "last = function(matrix[double] X) return (matrix[double] P) {\n  n = nrow(X)\n"
        "  Y = matrix(0, rows=n, cols=1)\n"
        "  for (i in seq(1, 3, 1)) { Y = further(Y) }\n  P = matrix(1, rows=1, cols=n) %*% Y\n}\n"
        "result = last(X)",
        ((6,),),
        "operators/onnx/carried_values.py: iteration",
        inputs=((1,),),
    ),
    Fault(
        "zeros-of-earlier-sum",
        "a sum or difference of matrices, one of zeros, that the engine compiles anew for a loop or a call of a"
        " function with a loop, keeps the count of zeros of an earlier time: zeros at first stay zeros",
        "result = matrix(0, rows=1, cols=nrow(X))\nh = matrix(0, rows=nrow(X), cols=1)\nc = h\n"
        "for (i in seq(1, 3, 1)) {\n  y = h + c\n  result = t(y)\n  h = h + X\n  c = c + X\n}",
        ((4, 8),),
        "importing/passes/hidden_zeros.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "zeros-of-two-trips-before",
        "of zeros that reach a variable over two others, trip by trip, the engine does not see that they end",
        "last = function(matrix[double] X) return (matrix[double] Y) {\n  Y = matrix(0, rows=1, cols=nrow(X))\n"
        "  a = matrix(0, rows=nrow(X), cols=1)\n  b = a\n  c = a\n"
        "  for (i in seq(1, 4, 1)) {\n    Y = t(a)\n    a = b\n    b = c\n    c = X\n  }\n}\nresult = last(X)",
        ((1, 2),),
        "importing/passes/hidden_zeros.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "zeros-known-in-loop",
        "zeros that a variable gets in a loop are its value after the loop for the engine, which may not run",
        "last = function(matrix[double] X, double n) return (matrix[double] Y) {\n  Y = X\n"
        "  for (i in seq(1, n, 1)) { Y = matrix(0, rows=nrow(X), cols=1) }\n  Y = t(Y)\n}\n"
        "result = last(X, sum(X) - 3)",
        ((1, 2),),
        "importing/passes/hidden_zeros.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "size-before-loop",
        "a number of rows that is read inside a loop, in one block, is in other blocks the one known before the loop",
        "a = matrix(1, rows=3, cols=1)\ntotal = 0.0\nfor (i in seq(1, 3, 1)) {\n  n = nrow(a)\n"
        "  if (i > 0) { total = total + n }\n  a = rbind(a, a[1, ])\n}\nresult = as.matrix(total)",
        ((12,),),
        "operators/onnx/carried_values.py: started",
    ),
    Fault(
        "items-known-after-loop",
        "length(L) after a loop that makes the list L anew is that of the new one, though the loop may have no trips",
        "L = list(X, X, X)\nfor (i in seq(1, as.scalar(X), 1)) {\nnew = list(X, X)\nL = new\n}\n"
        "result = as.matrix(length(L))",
        ((3,),),
        "_hidden_size of operators/onnx/carried_values.py",
        inputs=((0,),),
    ),
    Fault(
        "size-known-in-loop",
        "a size that is known inside a loop, and not before it, is taken for known after it: the loop may not run",
        "first = function(matrix[double] X, double n) return (matrix[double] Y) {\n  Y = X\n"
        "  for (i in seq(1, n, 1)) { Y = Y[1, ] }\n  Y = as.matrix(nrow(Y))\n}\nresult = first(X, sum(X))",
        ((3,),),
        "operators/onnx/carried_values.py: iteration",
        inputs=((0,), (0,), (0,)),
    ),
    Fault(
        "inlined-constant-result",
        "a constant that a function called in a branch returns is taken for the value after all branches",
        "f = function(matrix[double] X) return (double y) { y = 5 }\n"
        "g = function(matrix[double] X) return (double y) { y = 7 }\n"
        "if (sum(X) > 0) { r = f(X) } else { r = g(X) }\nresult = as.matrix(r)",
        ((7,),),
        "NOT_INLINED of importing/passes/block_cuts.py",
        inputs=((-1,),),
    ),
    Fault(
        "loop-of-one-number",
        "a loop of one assignment of a number to a place becomes an operation on all places, which is refused",
        "result = matrix(0, rows=1, cols=2)\nfor (i in 1:2) { result[1, i] = as.scalar(X[1, i]) }",
        ((1, 2),),
        "a second statement in the loop's body",
        inputs=((1, 2),),
        raises="Invalid index range of scalar leftindexing",
    ),
    Fault(
        "builtin-of-inlined-function",
        "a function of statements alone that calls a builtin of such a kind, one that SystemDS defines in DML, is"
        " inlined before that one is checked, which ends the compiler",
        "f = function(matrix[double] A) return (matrix[double] B) { B = dist(A) }\nresult = f(X)",
        ((0, 1), (1, 0)),
        "verifying/programs.py: Copies",
        inputs=((1,), (2,)),
        raises='"org.apache.sysds.parser.BinaryExpression.getOutput()" is null',
    ),
    Fault(
        "untouched-doubles-for-integers",
        "a double that is passed to an int parameter is not cut off where the function is inlined",
        "f = function(matrix[double] A, int k) return (matrix[double] B) { B = A * k }\nresult = f(X, sum(X) / 2)",
        ((1, 2),),
        "none is needed, as generated calls pass integers; exported models cut off",
        inputs=((1, 2),),
    ),
)
