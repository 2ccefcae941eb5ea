"""Single operations that give wrong numbers, or refuse what they could do."""

from __future__ import annotations

from onnx_systemds.engine.faults.fault import Fault

OPERATIONS: tuple[Fault, ...] = (
    Fault(
        "round-takes-nan-for-zero",
        "round(NaN) is 0, and of an infinity the largest 64-bit integer",
        'result = round(matrix("NaN 1.4", rows=1, cols=2))',
        ((float("nan"), 1.0),),
        "templates/library/round_half_even.dml",
    ),
    Fault(
        "bias-multiply-of-sparse",
        "bias_multiply(X, s) gives X where X is sparse, at many densities below 0.5",
        "result = bias_multiply(X, matrix(2, rows=8, cols=1))",
        ((0, 0, 2, 0, 0, 0, 0, 0), (0, 0, 0, 2, 0, 0, 0, 0)),
        "templates/library/scaled_channels.dml",
        inputs=((0, 0, 1, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0)),
    ),
    Fault(
        "filled-with-unknown-number",
        "matrix(s, ..) of a number that only the run knows is taken for one without zeros: sum(matrix(s, ..) != 0) is"
        " its length, ifelse(matrix(s, ..), A, B) is A",
        "result = as.matrix(sum(matrix(as.scalar(X), rows=2, cols=2) != 0))",
        ((0,),),
        "full_matrix",
        inputs=((0,),),
    ),
    Fault(
        "sums-of-infinities",
        "sums with infinities are the last one of these, whatever the others or NaN are; so are the means of rows and"
        " columns, of a wrong sign",
        "result = cbind(as.matrix(sum(X)), rowSums(X), as.matrix(mean(X[1, 1:2])))",
        ((float("nan"), float("nan"), float("nan")),),
        "row_sums, col_sums, total",
        inputs=((float("inf"), float("nan"), 1),),
    ),
    Fault(
        "products-with-nan",
        "prod, rowProds and colProds are 0 once a factor is 0, whatever NaN or infinities follow; colProds of NaN is 0",
        "result = cbind(rowProds(X), colProds(t(X)))",
        ((float("nan"), float("nan")),),
        "templates/library/col_prods.dml",
        inputs=((0, float("nan")),),
    ),
    Fault(
        "delimiters-in-string",
        "as.frame of a string that only the run knows ends in an error where the string has a delimiter of the engine's"
        " instructions and its block is compiled anew, as those of unknown sizes are: it gets into the instruction",
        'degree = as.scalar(map(as.frame("x"), "x -> String.valueOf((char) 176)"))\n'
        'if (sum(X) > 0) {\nsome = removeEmpty(target=X, margin="rows")\ntext = as.frame(degree)\n}\n'
        "result = some * nrow(text)",
        ((1,),),
        "STRING_CUT of importing/passes/block_cuts.py",
        inputs=((1,),),
        raises="empty String",
    ),
    Fault(
        "product-of-few-rows",
        "X %*% Y of fewer than 16 rows, more than 1,024 inner elements for each thread, and fewer columns than rows,"
        " but more than one, ends in an error: the product's elements are counted in the columns of t(Y)",
        "result = matrix(as.scalar(X) + seq(1, 30000) * 0, rows=3, cols=10000)"
        " %*% matrix(as.scalar(X) + seq(1, 20000) * 0, rows=10000, cols=2)",
        ((10000, 10000),) * 3,
        "templates/library/product_of_few_rows.dml",
        inputs=((1,),),
        raises="out of bounds",
    ),
    Fault(
        "factor-of-one-cell",
        "A %*% as.matrix(F) of a frame of one cell multiplies by the frame: as.scalar(as.matrix(F)) is taken for F",
        'result = X %*% as.matrix(as.frame("3"))',
        ((3,), (6,)),
        "templates/library/values_of_codes.dml",
        inputs=((1,), (2,)),
        raises="Invalid binary broadcasting",
    ),
    Fault(
        "scalar-of-item",
        "as.scalar(as.matrix(L[1])) of a list is taken for L[1], which is no number; so is M[1, 1] of"
        " M = as.matrix(L[1]), where its size is known",
        "L = list(X)\nresult = as.matrix(abs(as.scalar(as.matrix(L[1]))))",
        ((2,),),
        "SequenceAt of operators/onnx/sequences.py: a cell of a matrix that has the item twice",
        inputs=((-2,),),
        raises="LIST",
    ),
    Fault(
        "parts-in-lists",
        "a matrix in a directory of part files, as the engine itself writes large ones, cannot be read out of a list of"
        " the local file system: its path has got a scheme by then, and is not seen to be a directory",
        'parts = read("{folder}/parts", data_type="list")\nresult = as.matrix(parts[1])',
        ((1,), (1,)),
        "engine.matrix_files.write_list",
        raises="(Is a directory)",
    ),
    Fault(
        "and-with-one",
        "X & 1 is 0 everywhere",
        "result = X & 1",
        ((1, 0),),
        "And in operators/onnx/comparison.py: a product of 0 and 1",
        inputs=((1, 0),),
    ),
    Fault(
        "last-of-equal-maxima",
        "rowIndexMax and rowIndexMin give the last of equal elements, and leave NaN out",
        "result = rowIndexMax(X)",
        ((2,),),
        "templates/library/row_arg_max.dml and its like",
        inputs=((1, 3, 3),),
    ),
    Fault(
        "zero-times-infinity",
        "X * 0 and the product with a matrix of zeros are 0 where X is infinite or NaN",
        "result = cbind(X * 0, X %*% matrix(0, rows=1, cols=1))",
        ((float("nan"), float("nan")),),
        "ifelse in the place of masks that are multiplied",
        inputs=((float("inf"),),),
    ),
    Fault(
        "negative-zero",
        "-X is 0 - X, so that zeros keep no sign; sparse matrices forget it, too",
        "result = 1 / (-X)",
        ((float("-inf"), -1),),
        "none: zeros have no sign (docs/differences.md)",
        inputs=((0, 1),),
    ),
    Fault(
        "gather-spreads-nan",
        "the product of a small 0/1 matrix, which is dense, and a matrix with NaN or infinities spreads these",
        "result = table(seq(1, 2), X[, 2], 2, 2) %*% X[, 1]",
        ((2,), (float("nan"),)),
        "gather_rows_text of selection_products.py: rows of zeros below make the 0/1 matrix sparse",
        inputs=((float("nan"), 2), (2, 1)),
    ),
    Fault(
        "count-of-selected-rows",
        'nrow(removeEmpty(target=X, margin="rows", select=S)) becomes the number of elements of S that are not 0, if'
        " nothing else reads these rows, but for one reader of their number; at the next one the compiler stops",
        'p = removeEmpty(target=X, margin="rows", select=X > 1, empty.return=FALSE)\n'
        "n = nrow(p)\nresult = rbind(X + n, X * n)",
        ((2,), (3,), (1,), (2,)),
        "importing/passes/counted_rows.py",
        inputs=((1,), (2,)),
        raises="Index 1 out of bounds for length 0",
    ),
    Fault(
        "sequence-to-zero",
        "seq(1, n, 1) counts down to 0 where n is 0; in table(seq(1, n), X, n, m) the engine does without, counting the"
        " rows of X, only where the compiler sees that these are n",
        'p = removeEmpty(target=X, margin="rows", select=X > 2, empty.return=FALSE)\n'
        "n = as.integer(sum(X > 2))\nresult = colSums(table(seq(1, n), p, n, 2))",
        ((0, 0),),
        "templates/library/gathered_rows.dml: n is nrow(X), which is counted in every block; count_up.dml",
        inputs=((1,), (2,)),
        raises="Erroneous input while computing the contingency table",
    ),
    Fault(
        "sum-of-ones-to-zero",
        "cumsum(matrix(1, rows=n, cols=1)) is taken for seq(1, n), which counts down where n is 0",
        'p = removeEmpty(target=X, margin="rows", select=X > 5, empty.return=FALSE)\n'
        'if (time() < 0) { print("") }\n'
        "result = rbind(cumsum(matrix(1, rows=nrow(p), cols=1)), matrix(7, rows=1, cols=1))",
        ((7,),),
        "count_from_one of engine/safe_forms.py: of abs the compiler does not see that all are ones",
        inputs=((1,), (2,)),
    ),
    Fault(
        "row-beside-nothing",
        "X + row and X - row are the row where X has no rows; min, max, / and comparisons end in an error, and so for"
        " columns beside a matrix without columns",
        'p = removeEmpty(target=X, margin="rows", select=X[, 1] > 5, empty.return=FALSE)\n'
        'if (time() < 0) { print("") }\n'
        "result = rbind(p + X[1, ], matrix(7, rows=1, cols=2))",
        ((7, 7),),
        "importing/empty_results.py; of inputs without rows importing/passes/checked_sizes.py",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "number-beside-nothing",
        "X + s * Y, X - s * Y and ifelse with a number, each one operation, refuse a matrix without rows or columns",
        'p = removeEmpty(target=X, margin="rows", select=X > 5, empty.return=FALSE)\n'
        'if (time() < 0) { print("") }\n'
        "result = rbind(p - floor(p / 4) * 4, matrix(7, rows=1, cols=1))",
        ((7,),),
        "importing/empty_results.py",
        inputs=((1,), (3,)),
        raises="Block sizes are not matched for ternary cell operations",
    ),
    Fault(
        "convolution-of-nothing",
        "conv2d of no images divides by zero",
        'p = removeEmpty(target=X, margin="rows", select=X[, 1] > 5, empty.return=FALSE)\n'
        "s = conv2d(p, matrix(1, rows=1, cols=2), input_shape=[nrow(p), 2, 1, 1], filter_shape=[1, 2, 1, 1],"
        " stride=[1, 1], padding=[0, 0])\nresult = rbind(s, matrix(7, rows=1, cols=1))",
        ((7,),),
        "importing/empty_results.py",
        inputs=((1, 2), (3, 4)),
        raises="/ by zero",
    ),
    Fault(
        "single-column-removed",
        "removeEmpty by columns with a select that takes none leaves a matrix of one column as it is",
        'result = removeEmpty(target=X, margin="cols", select=X[1, ] > 5)',
        ((0,), (0,)),
        "none is needed, as no generator removes columns",
        inputs=((1,), (3,)),
    ),
    Fault(
        "outer-with-filled-row",
        'outer(c, r, "+") has one column where r is known to be full of one number, for every operator',
        'result = outer(X, matrix(0, rows=1, cols=3), "+")',
        ((1, 1, 1), (2, 2, 2)),
        "FILLED_ROW of importing/passes/joined_operations.py, repeated_column of selection_products.py, else %*%",
        inputs=((1,), (2,)),
    ),
    Fault(
        "comparisons-with-sorted-row",
        "comparisons in outer(c, r, op) with a sorted row of more than 16 elements find no -0.0 where 0 is, no 0 where"
        " -0.0 is, and take NaN for more than all of them",
        'P = outer(X, t(seq(0, 16)), "==")\nQ = outer(X, t(seq(0, 16)), ">")\nresult = cbind(P[, 1], Q[, 1])',
        ((1, 0), (0, 0)),
        "equal_pairs",
        inputs=((-0.0,), (float("nan"),)),
    ),
    Fault(
        "product-of-row-and-cell",
        "(matrix(1, ..) %*% r) * c of a row and a computed matrix of one cell is one product of three, which fails: its"
        " matrices are taken to be of one size",
        'r = matrix("1 2", rows=1, cols=2)\nc = as.matrix(as.scalar(matrix(1, rows=1, cols=ncol(X)) %*% t(X)))\n'
        "result = (abs(matrix(1, rows=1, cols=1)) %*% r) * c",
        ((3, 6),),
        "_product of operators/onnx/linear.py: the cell as a number",
        inputs=((1, 2),),
        raises="out of bounds",
    ),
    Fault(
        "order-of-nan",
        "order by several columns, or of the places (index.return), leaves numbers that NaN stands between as they are",
        "result = order(target=X, by=1, index.return=TRUE)",
        ((3,), (1,), (2,)),
        "templates/library/unique_rows.dml, top_k_sorted.dml: infinities in the place of NaN",
        inputs=((2,), (float("nan"),), (1,)),
    ),
    Fault(
        "row-index-of-outer",
        'rowIndexMin(outer(c, r, "!=")) is 0 where no element is equal; of other comparisons it may be the place of an'
        " element that is not the least, and rowIndexMax may stop",
        'result = rowIndexMin(outer(X, matrix("2 4", rows=1, cols=2), "!="))',
        ((1,),),
        "none: templates/library/row_arg_max.dml and its like take no comparison as it is",
        inputs=((3,),),
    ),
    Fault(
        "reversed-sequence",
        "x = rev(seq(..)) that has several users reverses the sequence in place, and for all but one user once more",
        "x = rev(seq(0, 2))\nresult = cbind(x - (x + x), X)",
        ((-2, 1), (-1, 1), (0, 1)),
        "templates/library/count_up.dml, Range of operators/onnx/filling.py: a sequence and a number",
        inputs=((1,), (1,), (1,)),
    ),
    Fault(
        "product-of-embeddings",
        "a product with what transformapply makes of embeddings of words is 0",
        'F = frame(data=["a", "b"], rows=2, cols=1)\nE = matrix("1 2 3 4", 2, 2)\n'
        '[Z, M] = transformencode(target=F, spec="{ids: true, recode: [1]}")\n'
        'Y = transformapply(target=F, spec="{ids: true, word_embedding: [1]}", meta=M, embedding=E)\n'
        'result = Y %*% matrix("1 2", 2, 1)',
        ((5,), (11,)),
        "none is needed, as no generator transforms frames",
    ),
    Fault(
        "imputed-column-after-dummies",
        "a column that is imputed after one that dummycode has made several is not filled: another one is",
        'F = frame(data=["a", "1", "b", "NaN", "a", "3"], rows=3, cols=2)\n'
        's = "{ids: true, recode: [1], dummycode: [1], impute: [{id: 2, method: global_mean}]}"\n'
        "[result, M] = transformencode(target=F, spec=s)",
        ((1, 0, 1), (0, 1, 2), (1, 0, 3)),
        "_imputed_places of exporting/builtins/transforms.py refuses it",
    ),
    Fault(
        "imputation-in-another-order",
        "columns that are imputed in another order than that of the frame get each other's methods and numbers",
        'F = frame(data=["1", "NaN", "NaN", "2"], rows=2, cols=2)\n'
        's = "{ids: true, impute: [{id: 2, method: constant, value: 7}, {id: 1, method: constant, value: 5}]}"\n'
        "[result, M] = transformencode(target=F, spec=s)",
        ((1, 7), (5, 2)),
        "_imputed_places of exporting/builtins/transforms.py refuses it",
    ),
    Fault(
        "table-of-rows-with-nan",
        "table(seq(1, n), X) without sizes puts a 1 of another row into the rows after one with NaN",
        "result = table(seq(1, nrow(X)), X)",
        ((1, 0, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1)),
        "none is needed, as no generator gives table NaN",
        inputs=((1,), (float("nan"),), (2,), (3,)),
    ),
    Fault(
        "cumsum-forgets-nan",
        "cumsum and rowcumsum are infinite from an infinity on, after NaN as well",
        "result = cumsum(X)",
        ((float("nan"),), (float("nan"),)),
        "templates/library/cumulative_sum.dml, cumulative_row_sum.dml",
        inputs=((float("nan"),), (float("inf"),)),
    ),
    Fault(
        "cumprod-of-many-cells",
        "cumprod of 262,144 cells or more, which several threads compute, takes 0 for what the rows in front give where"
        " they have NaN, and in sparse matrices everywhere; cummax and cummin of these see a 0 there",
        "Z = matrix(1, rows=2000, cols=200)\nZ[1, 1] = X\nP = cumprod(Z)\n"
        "Q = cumprod(cbind(matrix(1, rows=2000, cols=1), matrix(0, rows=2000, cols=199)))\n"
        "result = cbind(P[2000, 1], Q[2000, 1])",
        ((float("nan"), 1),),
        "templates/library/cumulative_product.dml",
        inputs=((float("nan"),),),
    ),
    Fault(
        "convolution-of-nearly-empty-images",
        "conv2d of several filters without a bias is wrong where less than 0.00004 of the images differs from 0",
        "Z = cbind(X, matrix(0, rows=1, cols=249999))\nW = rbind(X, 2 * X)\n"
        "Y = conv2d(Z, W, input_shape=[1, 1, 500, 500], filter_shape=[2, 1, 1, 1], stride=[1, 1], padding=[0, 0])\n"
        "result = cbind(Y[1, 1], Y[1, 250001])",
        ((1, 2),),
        "a bias of zeros, of operators/onnx/convolution_layers.py",
        inputs=((1,),),
    ),
    Fault(
        "maximum-of-infinities",
        "max_pool of a window of -Inf with a stride is the lowest finite number; that of FP64 alone differs from -Inf",
        "result = max_pool(X, input_shape=[1, 1, 1, 4], pool_size=[1, 2], stride=[1, 2], padding=[0, 0])",
        ((float("-inf"), 3),),
        "engine/safe_forms.py: window_maxima",
        inputs=((float("-inf"), float("-inf"), 3, 2),),
    ),
    Fault(
        "several-items-below-a-named-list",
        "rbind of a list with names and of one with more than one item is refused",
        'L = rbind(list(a=X), list(b=X, c=X))\nresult = as.matrix(L["c"])',
        ((1,),),
        "templates/init.dml.jinja: one item at a time",
        inputs=((1,),),
        raises="Cannot add to a named list",
    ),
    Fault(
        "rows-below-those-of-a-list",
        "rbind(rbind(L), X) of a list is taken for rbind(L, X), which is without X; so are columns",
        "L = list(X)\nif (sum(X) > 0) { L = append(L, X) }\nrows = rbind(L)\nresult = rbind(rows, X)",
        ((1,), (1,), (1,)),
        "templates/library/list_rows.dml, which is not inlined",
        inputs=((1,),),
    ),
    Fault(
        "double-in-named-list",
        "as.scalar of a double in a list with names is 0 where it is calculated with",
        'L = list(a=X, b=7.5)\nresult = X + as.scalar(L["b"])',
        ((8.5,),),
        "none is needed, as no generator puts scalars into lists",
        inputs=((1,),),
    ),
    Fault(
        "one-value-by-two-names-in-lists",
        "lists that hold the same value by different names are compared in one block, which ends in an error",
        'L = list(a=2 * X)\nM = list(b=2 * X)\nresult = as.matrix(L["a"]) + as.matrix(M["b"])',
        ((4,),),
        "LISTED_CUT of importing/passes/block_cuts.py",
        inputs=((1,),),
        raises="intValue",
    ),
    Fault(
        "normalized-without-means",
        "batch_norm2d in the mode test ends in an error where all images, or all means, are 0",
        "o = matrix(1, rows=1, cols=1)\nz = X[, 1]\n"
        '[result, m, v, k, w] = batch_norm2d(X, o, o, z, o, "test", 0.5, 0.9)',
        ((1, 1),),
        "operators/onnx/batch_normalization.py: no layer of nn/layers where the means are known to be 0",
        inputs=((0, 0),),
        raises="sblock",
    ),
    Fault(
        "path-of-a-sum-behind-a-text",
        "the path of a read that is a text and, in parentheses, a sum of texts has the first one twice",
        'result = read("{folder}/" + ("parts" + "/1_more"))',
        ((1,), (1,), (1,)),
        "verifying/programs.py: _after",
        raises="does not exist",
    ),
)
