"""Known faults of the engine: what goes wrong, in which versions, a script that shows it, and how to be safe from it.

Each fault has one entry in `FAULTS`, and one function that generators use instead of the faulty form: of `safe_forms`,
of the library, or a pass, as the entry says. `tests/engine/test_faults.py` runs each reproducer on the installed
engine: where it has become right, the entry and its workaround may go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the engine.

    identifier: kebab-case, named by workarounds in comments. versions: of SystemDS, those known to have it.
    script: DML that assigns the matrix ``result``; it may use ``X`` (``inputs``), of a size the compiler does not know,
    and the folder ``{folder}``, which holds the list "parts": a matrix of ones, 2 x 1, in a directory of two files.
    right: the rows that ``result`` should have. raises: part of the engine's message where it ends in an error instead
    of a wrong number; "" for a silent fault. workaround: the function, pass or template that is safe from it.
    """

    identifier: str
    summary: str
    versions: str
    script: str
    right: tuple[tuple[float, ...], ...]
    workaround: str
    inputs: tuple[tuple[float, ...], ...] = ()
    raises: str = ""


FAULTS: tuple[Fault, ...] = (
    Fault(
        "round-takes-nan-for-zero",
        "round(NaN) is 0, and of an infinity the largest 64-bit integer",
        "3.4.0",
        'result = round(matrix("NaN 1.4", rows=1, cols=2))',
        ((float("nan"), 1.0),),
        "templates/library/round_half_even.dml",
    ),
    Fault(
        "old-value-after-new-one",
        "in a block that gives a variable a new value, what gets its old value after that gets the new one, matrix or "
        "number, in the statements of an inlined call, too",
        "3.4.0",
        "f = X\ny = 2 * X\nfor (i in seq(1, 3, 1)) {\n  a = f + y\n  b = f\n  f = a\n  y = b\n}\nresult = cbind(f, y)",
        ((7, 4),),
        "operators/onnx/carried_values.py: iteration",
        inputs=((1,),),
    ),
    Fault(
        "size-of-call-in-loop",
        "a variable that a loop gives to a function and takes from it keeps its first size for the compiler",
        "3.4.0",
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
        "3.4.0",
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
        "3.4.0",
        "result = matrix(0, rows=1, cols=nrow(X))\nh = matrix(0, rows=nrow(X), cols=1)\nc = h\n"
        "for (i in seq(1, 3, 1)) {\n  y = h + c\n  result = t(y)\n  h = h + X\n  c = c + X\n}",
        ((4, 8),),
        "importing/passes/hidden_zeros.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "zeros-of-two-trips-before",
        "of zeros that reach a variable over two others, trip by trip, the engine does not see that they end",
        "3.4.0",
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
        "3.4.0",
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
        "3.4.0",
        "a = matrix(1, rows=3, cols=1)\ntotal = 0.0\nfor (i in seq(1, 3, 1)) {\n  n = nrow(a)\n"
        "  if (i > 0) { total = total + n }\n  a = rbind(a, a[1, ])\n}\nresult = as.matrix(total)",
        ((12,),),
        "operators/onnx/carried_values.py: started",
    ),
    Fault(
        "size-known-in-loop",
        "a size that is known inside a loop, and not before it, is taken for known after it: the loop may not run",
        "3.4.0",
        "first = function(matrix[double] X, double n) return (matrix[double] Y) {\n  Y = X\n"
        "  for (i in seq(1, n, 1)) { Y = Y[1, ] }\n  Y = as.matrix(nrow(Y))\n}\nresult = first(X, sum(X))",
        ((3,),),
        "operators/onnx/carried_values.py: iteration",
        inputs=((0,), (0,), (0,)),
    ),
    Fault(
        "bias-multiply-of-sparse",
        "bias_multiply(X, s) gives X where X is sparse, at many densities below 0.5",
        "3.4.0",
        "result = bias_multiply(X, matrix(2, rows=8, cols=1))",
        ((0, 0, 2, 0, 0, 0, 0, 0), (0, 0, 0, 2, 0, 0, 0, 0)),
        "templates/library/scaled_channels.dml",
        inputs=((0, 0, 1, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0)),
    ),
    Fault(
        "product-of-transposed",
        "t(A) %*% t(B) ends in an error where t(A) has more elements than t(B) and the product, also over statements",
        "3.4.0",
        "result = t(X) %*% t(X[1, 1:8])",
        ((8,),) * 8,
        "matrix_product, importing/passes/block_cuts.py",
        inputs=((1,) * 8,) * 8,
        raises="Dimensions do not match for matrix multiplication",
    ),
    Fault(
        "transposed-product-beside-matrix",
        "t(t(A) %*% t(B) op C) is B %*% A + t(C) for every operator",
        "3.4.0",
        "result = t(t(X) %*% t(X) - X)",
        ((6, 8), (12, 18)),
        "matrix_product, importing/passes/block_cuts.py",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "zero-beside-filled-matrix",
        "0 op matrix(c, ..) is -c for every operator and for min and max, once the compiler sees the 0; matrices of"
        " zeros count as such",
        "3.4.0",
        "result = cbind(0 < matrix(2, rows=nrow(X), cols=1), 0 / matrix(3, rows=nrow(X), cols=1))",
        ((1, 0),),
        "full_matrix, infix of operators/onnx/combining.py",
        inputs=((1,),),
    ),
    Fault(
        "zeros-beside-shifted-zeros",
        "of rev(x) / (x + 1), where x turns out to hold zeros only, the engine makes 0 / matrix(1, ..), and of that -1;"
        " so of any moved or calculated zeros on the left, for every operator and for min and max",
        "3.4.0",
        "result = rev(X) / (abs(X) + 1)",
        ((0,), (0,)),
        "SHIFTED_CUT of importing/passes/block_cuts.py; Softsign as a product",
        inputs=((0,), (0,)),
    ),
    Fault(
        "filled-with-unknown-number",
        "matrix(s, ..) of a number that only the run knows is taken for one without zeros: sum(matrix(s, ..) != 0) is"
        " its length, ifelse(matrix(s, ..), A, B) is A",
        "3.4.0",
        "result = as.matrix(sum(matrix(as.scalar(X), rows=2, cols=2) != 0))",
        ((0,),),
        "full_matrix",
        inputs=((0,),),
    ),
    Fault(
        "quotient-of-filled-matrix",
        "matrix(c, ..) / s is c * (1 / s), which rounds twice: floor(matrix(49, ..) / 49) is 0",
        "3.4.0",
        "result = floor(matrix(49, rows=nrow(X), cols=1) / 49)",
        ((1,),),
        "full_matrix",
        inputs=((1,),),
    ),
    Fault(
        "sums-of-infinities",
        "sums with infinities are the last one of these, whatever the others or NaN are; so are the means of rows and"
        " columns, of a wrong sign",
        "3.4.0",
        "result = cbind(as.matrix(sum(X)), rowSums(X), as.matrix(mean(X[1, 1:2])))",
        ((float("nan"), float("nan"), float("nan")),),
        "row_sums, col_sums, total",
        inputs=((float("inf"), float("nan"), 1),),
    ),
    Fault(
        "products-with-nan",
        "prod, rowProds and colProds are 0 once a factor is 0, whatever NaN or infinities follow; colProds of NaN is 0",
        "3.4.0",
        "result = cbind(rowProds(X), colProds(t(X)))",
        ((float("nan"), float("nan")),),
        "templates/library/col_prods.dml",
        inputs=((0, float("nan")),),
    ),
    Fault(
        "sum-beside-one-number",
        "sum(X + v), sum(X - v) and rowSums of one row take a 1 x 1 matrix v, whose size the compiler knows, for a row",
        "3.4.0",
        "x = X[1, 1:3]\nresult = as.matrix(sum(x + rowSums(x)))",
        ((24,),),
        "total, row_sums",
        inputs=((1, 2, 3),),
    ),
    Fault(
        "table-of-descending-places",
        "table(seq(1, n), seq(n, 1, -1), rows, cols) %*% X is taken for rev(X), whatever the sizes of the two are",
        "3.4.0",
        "n = nrow(X) - 1\nresult = table(seq(1, n), seq(n, 1, -1), n, n + 1) %*% X",
        ((2,), (1,)),
        "progression",
        inputs=((1,), (2,), (3,)),
    ),
    Fault(
        "ifelse-of-a-vector-of-unknown-length",
        "ifelse(m, A, B) is A where m is a single row or column of unknown length and A is of known size",
        "3.4.0",
        "n = as.integer(sum(X))\nresult = ifelse(seq(1, n) > 2, matrix(X, rows=3, cols=1), 7)",
        ((7,), (7,), (1,)),
        "templates/library/where.dml; operators/onnx/filling.py (trilu)",
        inputs=((1,), (1,), (1,)),
    ),
    Fault(
        "parts-in-lists",
        "a matrix in a directory of part files, as the engine itself writes large ones, cannot be read out of a list of"
        " the local file system: its path has got a scheme by then, and is not seen to be a directory",
        "3.4.0",
        'parts = read("{folder}/parts", data_type="list")\nresult = as.matrix(parts[1])',
        ((1,), (1,)),
        "engine.matrix_files.write_list",
        raises="(Is a directory)",
    ),
    Fault(
        "sums-of-a-squared-row",
        "colSums(X ^ 2) and colSums(X * X) are X where the run finds out that X, a reshape, has one row",
        "3.4.0",
        "result = colSums(matrix(X, rows=nrow(X), cols=2) ^ 2)",
        ((9, 4),),
        "col_sums",
        inputs=((3, -2),),
    ),
    Fault(
        "sums-of-numbers-in-another-order",
        "a + (b + c) of scalars is computed as (a + b) + c, which loses digits that the first form keeps",
        "3.4.0",
        "a = as.scalar(X[1, 1])\nb = as.scalar(X[2, 1])\nc = as.scalar(X[3, 1])\nresult = as.matrix(a + (b + c))",
        ((2.0**53 + 2,),),
        "inference/wide_integers.py (a check between the sums); templates/library/wide_bits.dml",
        inputs=((2.0**53,), (1,), (1,)),
    ),
    Fault(
        "and-with-one",
        "X & 1 is 0 everywhere",
        "3.4.0",
        "result = X & 1",
        ((1, 0),),
        "and_ of operators/onnx/elementwise.py: a product of 0 and 1",
        inputs=((1, 0),),
    ),
    Fault(
        "last-of-equal-maxima",
        "rowIndexMax and rowIndexMin give the last of equal elements, and leave NaN out",
        "3.4.0",
        "result = rowIndexMax(X)",
        ((2,),),
        "templates/library/row_arg_max.dml and its like",
        inputs=((1, 3, 3),),
    ),
    Fault(
        "zero-times-infinity",
        "X * 0 and the product with a matrix of zeros are 0 where X is infinite or NaN",
        "3.4.0",
        "result = cbind(X * 0, X %*% matrix(0, rows=1, cols=1))",
        ((float("nan"), float("nan")),),
        "ifelse in the place of masks that are multiplied",
        inputs=((float("inf"),),),
    ),
    Fault(
        "negative-zero",
        "-X is 0 - X, so that zeros keep no sign; sparse matrices forget it, too",
        "3.4.0",
        "result = 1 / (-X)",
        ((float("-inf"), -1),),
        "none: zeros have no sign (README)",
        inputs=((0, 1),),
    ),
    Fault(
        "gather-spreads-nan",
        "the product of a small 0/1 matrix, which is dense, and a matrix with NaN or infinities spreads these",
        "3.4.0",
        "result = table(seq(1, 2), X[, 2], 2, 2) %*% X[, 1]",
        ((2,), (float("nan"),)),
        "gather_rows_text of broadcasting.py: rows of zeros below make the 0/1 matrix sparse",
        inputs=((float("nan"), 2), (2, 1)),
    ),
    Fault(
        "outer-with-zeros",
        'outer(c, r, "+"), "-" and "*" have one column where r is known to be zeros',
        "3.4.0",
        'result = outer(X, matrix(0, rows=1, cols=3), "+")',
        ((1, 1, 1), (2, 2, 2)),
        "repeated_column of broadcasting.py, %*% for a product",
        inputs=((1,), (2,)),
    ),
    Fault(
        "product-with-ones",
        "a right operand c %*% matrix(1, ..) or matrix(1, ..) %*% r is taken for c or r, in cbind and rbind as well",
        "3.4.0",
        "result = cbind(X, X %*% matrix(1, rows=1, cols=2))",
        ((1, 1, 1), (2, 2, 2)),
        "repeated_row and repeated_column of broadcasting.py",
        inputs=((1,), (2,)),
    ),
    Fault(
        "reversed-sequence",
        "x = rev(seq(..)) that has several users reverses the sequence in place, and for all but one user once more",
        "3.4.0",
        "x = rev(seq(0, 2))\nresult = cbind(x - (x + x), X)",
        ((-2, 1), (-1, 1), (0, 1)),
        "templates/library/count_up.dml, Range of operators/onnx/filling.py: a sequence and a number",
        inputs=((1,), (1,), (1,)),
    ),
    Fault(
        "negated-difference",
        "-(X - v) with a vector v is taken for v - X, which is refused",
        "3.4.0",
        "result = -(X - colSums(X))",
        ((3, 4), (1, 2)),
        "minus_vector of broadcasting.py",
        inputs=((1, 2), (3, 4)),
        raises="Invalid binary broadcasting from left",
    ),
    Fault(
        "ifelse-with-number",
        "ifelse(M, X, number) of sizes that are not known is taken for 0 x 0",
        "3.4.0",
        "Y = ifelse(X > 1, X, 0)\nresult = Y[1:1, ]",
        ((0, 2),),
        "NodeView.filled: both branches are matrices",
        inputs=((1, 2), (3, 4)),
        raises="Invalid values for matrix indexing",
    ),
    Fault(
        "maximum-of-maximum",
        "max(max(A, B), C), over statements as well, puts numbers of sparse matrices into wrong rows; so does min",
        "3.4.0",
        "result = max(max(X[1:2, ], X[3:4, ]), X[5:6, ])",
        ((1, *[0] * 9), (0, 2, *[0] * 8)),
        "extreme of operators/onnx/combining.py, EXTREMES_CUT of importing/passes/block_cuts.py",
        inputs=((1, *[0] * 9), (-3, *[0] * 9), *[(0,) * 10] * 3, (0, 2, *[0] * 8)),
    ),
    Fault(
        "comparison-of-comparison",
        "(x < y) == 0 and !(x < y) become x >= y, (x > 0) - (x < 0) becomes sign(x): wrong for NaN",
        "3.4.0",
        "result = cbind((X < 1) == 0, !(X < 1), (X > 0) - (X < 0))",
        ((1, 1, 0),),
        "COMPARED_CUT of importing/passes/block_cuts.py; not_1 of operators/onnx/elementwise.py",
        inputs=((float("nan"),),),
    ),
    Fault(
        "product-with-comparison",
        "X * (X > 0) becomes max(X, 0): 0 for -Inf",
        "3.4.0",
        "result = X * (X > 0)",
        ((float("nan"),),),
        "COMPARED_CUT of importing/passes/block_cuts.py",
        inputs=((float("-inf"),),),
    ),
    Fault(
        "cumsum-forgets-nan",
        "cumsum and rowcumsum are infinite from an infinity on, after NaN as well",
        "3.4.0",
        "result = cumsum(X)",
        ((float("nan"),), (float("nan"),)),
        "templates/library/cumulative_sum.dml, cumulative_row_sum.dml",
        inputs=((float("nan"),), (float("inf"),)),
    ),
    Fault(
        "sums-from-the-end",
        "rev(cumsum(rev(X))) becomes X + colSums(X) - cumsum(X), which cancels",
        "3.4.0",
        "result = rev(cumsum(rev(X)))",
        ((1e20,), (1,)),
        "templates/library/cumulative_sum.dml: its condition keeps it from being inlined",
        inputs=((1e20,), (1,)),
    ),
    Fault(
        "inlined-constant-result",
        "a constant that a function called in a branch returns is taken for the value after all branches",
        "3.4.0",
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
        "3.4.0",
        "result = matrix(0, rows=1, cols=2)\nfor (i in 1:2) { result[1, i] = as.scalar(X[1, i]) }",
        ((1, 2),),
        "a second statement in the loop's body",
        inputs=((1, 2),),
        raises="Invalid index range of scalar leftindexing",
    ),
    Fault(
        "convolution-of-nearly-empty-images",
        "conv2d of several filters without a bias is wrong where less than 0.00004 of the images differs from 0",
        "3.4.0",
        "Z = cbind(X, matrix(0, rows=1, cols=249999))\nW = rbind(X, 2 * X)\n"
        "Y = conv2d(Z, W, input_shape=[1, 1, 500, 500], filter_shape=[2, 1, 1, 1], stride=[1, 1], padding=[0, 0])\n"
        "result = cbind(Y[1, 1], Y[1, 250001])",
        ((1, 2),),
        "a bias of zeros, of operators/onnx/convolution_layers.py",
        inputs=((1,),),
    ),
    Fault(
        "distinct-rows-of-joined-matrices",
        "the number of rows of unique(rbind(A, B)), which gives rows and not elements, is taken to be that of A",
        "3.4.0",
        "Z = unique(rbind(X, 7 * X))\nresult = matrix(nrow(Z), rows=1, cols=1)",
        ((4,),),
        "none is needed, as no generator joins what it takes distinct elements of; exported models count the rows",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "untouched-doubles-for-integers",
        "a double that is passed to an int parameter is not cut off where the function is inlined",
        "3.4.0",
        "f = function(matrix[double] A, int k) return (matrix[double] B) { B = A * k }\nresult = f(X, sum(X) / 2)",
        ((1, 2),),
        "none is needed, as generated calls pass integers; exported models cut off",
        inputs=((1, 2),),
    ),
    Fault(
        "sum-with-own-product",
        "X + X * Y, over statements as well, becomes X * (1 + Y), and so do the differences: wrong for infinities",
        "3.4.0",
        "result = X[1, 1:2] + X[1, 1:2] * X[2, 1:2]",
        ((float("nan"), float("inf")),),
        "COMMON_FACTOR of importing/passes/joined_operations.py",
        inputs=((float("inf"), float("inf")), (-2, 3)),
    ),
    Fault(
        "sum-of-products-of-one-matrix",
        "A %*% B + A %*% C, over statements as well, becomes A %*% (B + C) where all are known to be dense: wrong for "
        "infinities",
        "3.4.0",
        "result = X %*% X + X %*% t(X)",
        ((float("inf"), float("nan")), (float("-inf"), 4)),
        "COMMON_LEFT_FACTOR of importing/passes/joined_operations.py",
        inputs=((float("inf"), 1), (-2, 1)),
    ),
    Fault(
        "product-with-nonzeros",
        "(X != 0) * log(X), over statements as well, is 0 where X is; X - s * (X != 0) and X + (X == 0) * s are X"
        " where s is multiplied by 0, and s may be infinite",
        "3.4.0",
        "result = cbind((X != 0) * log(X), X - Inf * (X != 0), X + (X == 0) * Inf)",
        ((float("nan"), 0, float("nan"), float("-inf"), float("inf"), float("nan")),),
        "NONZEROS_ONLY of importing/passes/joined_operations.py",
        inputs=((0, 1),),
    ),
    Fault(
        "weighted-product",
        "W * sigmoid(A %*% B) and its logarithm, over statements as well, are 0 where W is, whatever the product is; so"
        " are W * f(A %*% B) and W / f(A %*% B) with more than 1,000 columns, and such weights between two products",
        "3.4.0",
        "Y = X * (1 / (1 + exp(-(X %*% X))))\nresult = Y[1, 1]",
        ((float("nan"),),),
        "WEIGHTED_PRODUCT of importing/passes/joined_operations.py",
        inputs=((0, float("nan")), (1, 1)),
    ),
    Fault(
        "zeros-beside-product",
        "cbind(A %*% B, matrix(0, ..)), over statements as well, becomes A %*% cbind(B, matrix(0, ..)) where A has many"
        " rows: NaN for infinities",
        "3.4.0",
        'result = cbind(X %*% matrix("1 2", rows=2, cols=1), matrix(0, rows=nrow(X), cols=1))',
        ((float("inf"), 0), *((3, 0),) * 5),
        "ZEROS_BESIDE_PRODUCT of importing/passes/joined_operations.py",
        inputs=((float("inf"), 1), *((1, 1),) * 5),
    ),
    Fault(
        "sums-of-matrices-in-another-order",
        "X + (Y + Z) of matrices becomes (X + Y) + Z, (X + a) + b, (a - X) + b and t(X + a) + b add the numbers first,"
        " all over statements as well: what cancels takes the digits of the others with it",
        "3.4.0",
        "result = cbind(X[1, ] + (X[2, ] + X[3, ]), (X[3, ] + 1e20) + 1, (1e20 - X[2, ]) - 1)",
        ((1, 1, -1),),
        "ANOTHER_ORDER of importing/passes/joined_operations.py",
        inputs=((1,), (1e20,), (-1e20,)),
    ),
    Fault(
        "products-of-matrices-in-another-order",
        "(A %*% B) %*% C, over statements as well, is calculated in the cheapest order: wrong for infinities",
        "3.4.0",
        "result = (X[, 1] %*% t(X[, 2])) %*% X[, 3]",
        ((float("nan"),), (-1,), (-1,)),
        "FACTORS_IN_ANOTHER_ORDER of importing/passes/joined_operations.py",
        inputs=((float("inf"), 1, 1), (1, 1, -3), (1, 1, 1)),
    ),
    Fault(
        "sum-of-scaled-matrix",
        "sum(s * X) becomes s * sum(X), rowSums and colSums as well: wrong for an infinite s",
        "3.4.0",
        "result = as.matrix(sum(Inf * X))",
        ((float("nan"),),),
        "none is needed, as generators write sums as products",
        inputs=((1, -2),),
    ),
    Fault(
        "maximum-of-infinities",
        "max_pool of a window of -Inf with a stride is the lowest finite number; that of FP64 alone differs from -Inf",
        "3.4.0",
        "result = max_pool(X, input_shape=[1, 1, 1, 4], pool_size=[1, 2], stride=[1, 2], padding=[0, 0])",
        ((float("-inf"), 3),),
        "engine/safe_forms.py: window_maxima",
        inputs=((float("-inf"), float("-inf"), 3, 2),),
    ),
    Fault(
        "several-items-below-a-named-list",
        "rbind of a list with names and of one with more than one item is refused",
        "3.4.0",
        'L = rbind(list(a=X), list(b=X, c=X))\nresult = as.matrix(L["c"])',
        ((1,),),
        "templates/init.dml.jinja: one item at a time",
        inputs=((1,),),
        raises="Cannot add to a named list",
    ),
    Fault(
        "means-of-deviations",
        "colMeans(X - colMeans(X)) is 0, whatever X holds",
        "3.4.0",
        "result = colMeans(X - colMeans(X))",
        ((float("nan"),),),
        "none is needed, as generators write means as products",
        inputs=((float("inf"),), (1,)),
    ),
    Fault(
        "determinant-of-product",
        "det(X %*% Y) becomes det(X) * det(Y), which are refused where these are not square",
        "3.4.0",
        "result = as.matrix(det(X %*% t(X)))",
        ((5,),),
        "none is needed: templates/library/determinants.dml takes them of slices",
        inputs=((1, 2),),
        raises="square matrix",
    ),
)
