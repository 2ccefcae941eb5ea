"""Sizes that the compiler takes for others, or for known, in an expression."""

from __future__ import annotations

from onnx_systemds.engine.faults.fault import Fault

SIZES: tuple[Fault, ...] = (
    Fault(
        "sum-beside-one-number",
        "sum(X + v), sum(X - v) and rowSums of one row take a 1 x 1 matrix v, whose size the compiler knows, for a row",
        "x = X[1, 1:3]\nresult = as.matrix(sum(x + rowSums(x)))",
        ((24,),),
        "total, row_sums",
        inputs=((1, 2, 3),),
    ),
    Fault(
        "ifelse-of-a-vector-of-unknown-length",
        "ifelse(m, A, B) is A where m is a single row or column of unknown length and A is of known size",
        "n = as.integer(sum(X))\nresult = ifelse(seq(1, n) > 2, matrix(X, rows=3, cols=1), 7)",
        ((7,), (7,), (1,)),
        "templates/library/where.dml; NodeView.mask; operators/onnx/filling.py (trilu)",
        inputs=((1,), (1,), (1,)),
    ),
    Fault(
        "zeros-and-a-vector-of-unknown-size",
        "matrix(0, ..) + v and matrix(0, ..) - v are v and -v where v is a single row or column and the compiler knows"
        " neither of its sizes, as in a function that is called twice",
        "doubled = function(matrix[double] X) return (matrix[double] Y) {\n"
        "  Y = X\n  if (max(abs(X)) > 0) { Y = X * 2 }\n}\n"
        "added = function(matrix[double] X) return (matrix[double] Y) {\n"
        "  v = doubled(X)\n  Y = matrix(0, rows=2, cols=3) + v\n}\n"
        "first = added(X)\nresult = added(X + 1)",
        ((4, 4, 4), (6, 6, 6)),
        "operators/support/broadcasting.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "sums-of-a-squared-row",
        "colSums(X ^ 2) and colSums(X * X) are X where the run finds out that X, a reshape, has one row",
        "result = colSums(matrix(X, rows=nrow(X), cols=2) ^ 2)",
        ((9, 4),),
        "col_sums",
        inputs=((3, -2),),
    ),
    Fault(
        "ifelse-with-number",
        "ifelse(M, X, number) of sizes that are not known is taken for 0 x 0",
        "Y = ifelse(X > 1, X, 0)\nresult = Y[1:1, ]",
        ((0, 2),),
        "NodeView.filled: both branches are matrices",
        inputs=((1, 2), (3, 4)),
        raises="Invalid values for matrix indexing",
    ),
    Fault(
        "distinct-rows-of-joined-matrices",
        "the number of rows of unique(rbind(A, B)), which gives rows and not elements, is taken to be that of A",
        "Z = unique(rbind(X, 7 * X))\nresult = matrix(nrow(Z), rows=1, cols=1)",
        ((4,),),
        "none is needed, as no generator joins what it takes distinct elements of; exported models count the rows",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "length-of-a-sequence-of-unknown-end",
        "in a function of one matrix X that is called twice, nrow of seq(.., ncol(X) - 1) is 3333 and of "
        "seq(.., nrow(X) - 1) 7777: the compiler tries the function with that size, and keeps it of these and tables",
        "length_of = function(matrix[double] I) return (matrix[double] Y) {\n  Y = matrix(nrow(I), rows=1, cols=1)\n}\n"
        "columns = function(matrix[double] X) return (matrix[double] Y) {\n"
        "  Y = length_of(seq(0, ncol(X) - 1, 1)) + sum(X)\n}\n"
        "result = cbind(columns(X), columns(rbind(X, X)))",
        ((9, 15),),
        "importing/passes/probed_sizes.py; count_from_one of engine/safe_forms.py",
        inputs=((1, 2, 3),),
    ),
)
