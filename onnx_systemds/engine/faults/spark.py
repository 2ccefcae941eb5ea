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
        "counted; none is needed for A + s * B, as the engine leaves out zeros that it knows",
        inputs=((2, 3), (1, 4)),
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
)
