"""What goes wrong on Spark, with ``-exec spark`` or where ``-exec hybrid`` chooses it: ``X`` is in several blocks."""

from __future__ import annotations

from onnx_systemds.engine.faults.fault import Fault

SPARK: tuple[Fault, ...] = (
    Fault(
        "last-operand-counted-on-spark",
        "ifelse(M, A, B), and A + s * B, are taken to have as many nonzeros as their last matrix: where B is zeros,"
        " products of the result are zeros, and a file of it is read as zeros",
        "B = matrix(0, rows=nrow(X), cols=ncol(X))\nY = ifelse(X > 1, X, B)\nif (never) { Y = rbind(Y, Y) }\n"
        "result = Y %*% matrix(1, rows=2, cols=1)",
        ((5,), (4,)),
        "counted; none for A + s * B, where the engine leaves out only zeros that it knows in front of the block",
        inputs=((2, 3), (1, 4)),
    ),
    Fault(
        "gather-spreads-nan-in-last-block",
        "a 0/1 matrix is sparse or dense by blocks: beside 1000 columns a few more are dense, and 0 * NaN is NaN",
        "S = table(matrix(\"11 12\", rows=2, cols=1), seq(1, 2), 12, 42)\nY = matrix(X, rows=1, cols=12) %*% S\n"
        "result = Y[, 1:2]",
        ((11, float("inf")),),
        "sparse_padding of operators/support/selection_products.py and its sister; 32 columns of zeros in the library",
        inputs=((1, 2, 3, 4, 5, 6), (7, 8, 9, 10, 11, float("inf"))),
    ),
    Fault(
        "cumprod-in-blocks",
        "cumprod of several blocks of rows takes the products of those in front by colProds, which gives 0 for NaN",
        "P = cumprod(matrix(X, rows=22, cols=1))\nZ = P[22, ]\nresult = Z != Z",
        ((1,),),
        "templates/library/cumulative_product.dml",
        inputs=((float("nan"), *range(1, 11)), (*range(1, 12),)),
    ),
    Fault(
        "falling-sequence",
        "seq(first, last, step) with a negative step has two elements too many in each of its blocks but the last",
        "result = colSums(abs(seq(11 * nrow(X), 1, -1)))",
        ((253,),),
        "progression",
        inputs=((1,), (1,)),
    ),
    Fault(
        "order-by-all-columns",
        "a matrix cannot be ordered by all of its columns, where these are several",
        "result = order(target=X, by=matrix(\"2 1\", rows=1, cols=2))",
        ((1, 3), (2, 4)),
        "unique_rows",
        inputs=((2, 4), (1, 3)),
        raises="cannot be cast to class java.lang.Comparable",
    ),
    Fault(
        "column-beside-blocks-of-columns",
        "A - v, and A with a column v by any other operator, has zeros behind the first block of columns, where v is"
        " larger than what Spark sends to all tasks",
        "v = matrix(X, rows=22, cols=1)\nresult = abs(v) %*% matrix(2, rows=1, cols=11) - v",
        tuple((number,) * 11 for number in range(22)),
        "none: docs/differences.md says so; tasks of the program of --score (place=spark) have matrices of one block",
        inputs=((*range(11),), (*range(11, 22),)),
    ),
    Fault(
        "third-at-a-block-on-spark",
        "cbind(A, B, C) puts C into the block before its own where A and B have as many columns as some blocks; so does"
        " rbind, and cbind(cbind(A, B), C), which is taken for the former. Where numbers would meet it is an error",
        "result = cbind(X, matrix(0, rows=2, cols=8), X)",
        ((1, 2, *(8 * [0]), 1, 2), (3, 4, *(8 * [0]), 3, 4)),
        "importing/passes/split_joins.py; functions of the library; none for filters of depthwise convolutions",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "rows-below-wide-rows",
        "rbind(A, B) of few rows takes a form that refuses more columns than a block has, where B is larger than what"
        " Spark sends to all tasks",
        "result = rbind(matrix(X, rows=1, cols=22), matrix(X, rows=1, cols=22))",
        ((*range(22),), (*range(22),)),
        "none is needed, as the run ends with an error",
        inputs=((*range(11),), (*range(11, 22),)),
        raises="Output must have at most one column block",
    ),
)
