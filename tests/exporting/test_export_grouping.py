"""Groups, distinct elements, Fourier transforms, sums of products and gradients of layers, against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, model_of, run_model

RNG = np.random.default_rng(23)
NAN, INF = np.nan, np.inf
G = {"X": np.array([[3.0], [1], [4], [2], [-1]]), "G": np.array([[1.0], [2], [1], [4], [2]])}
FREE = {"X": ["N", 1], "G": ["N", 1]}
FEWER = [{"X": G["X"][:2], "G": G["G"][:2]}]
WAVE = {"X": RNG.normal(size=(2, 8))}
REPEATED = np.array([[3, 1, 0], [1, 2, 0], [3, 1, INF], [NAN, 1, 0], [NAN, 3, NAN]])
DISTINCT = {"X": REPEATED}
N3 = {"X": ["N", 3]}
SOME = [{"X": REPEATED[:3]}, {"X": REPEATED[4:]}]
EIN = {"A": RNG.normal(size=(3, 4)), "B": RNG.normal(size=(4, 2))}
SIZED = "A = matrix(A, 3, 4)\nB = matrix(B, 4, 2)\n"
IMAGES = {"X": RNG.normal(size=(2, 2 * 25)), "D": RNG.normal(size=(2, 3 * 9)), "P": RNG.normal(size=(2, 2 * 4))}
ROWS = {"A": np.array([[3.0, 1], [2, 2], [3, 1]]), "B": np.array([[NAN, 1], [2, 2], [NAN, 1]])}
GROUPED = {"X": RNG.normal(size=(6, 3)) - 1, "G": np.array([[2.0], [1], [2], [5], [5], [2]])}
FILTER = "filter_shape=[3,2,{0},{1}], stride=[{2},{3}], padding=[{4},{5}])"
POOL = "input_shape=[2,2,5,5], pool_size=[2,2], stride=[{0},{0}], padding=[0,0])"


def gradient(name: str, dout: tuple[int, int], *sizes: int) -> ExportCase:
    """The gradient of filters; `dout`: height and width of what the convolution gives."""
    data = {"X": IMAGES["X"], "D": RNG.normal(size=(2, 3 * dout[0] * dout[1]))}
    body = f"Y = conv2d_backward_filter(X, D, input_shape=[2,2,5,5], {FILTER.format(*sizes)}"
    return ExportCase(name, body, data, dtypes=["float32"], tolerance={"float32": 1e-4})


def pooled(kind: str, window: int, stride: int, pad: int, size: int) -> ExportCase:
    """The gradient of pooling; `size`: height and width of what the pooling gives. Some numbers in X are equal."""
    data = {"X": np.round(IMAGES["X"]), "D": RNG.normal(size=(2, 2 * size * size))}
    sizes = f"pool_size=[{window},{window}], stride=[{stride},{stride}], padding=[{pad},{pad}])"
    body = f"Y = {kind}_pool_backward(X, D, input_shape=[2,2,5,5], {sizes}"
    return ExportCase(f"gradient of {kind} {sizes}", body, data, dtypes=["float64", "float32"] if kind == "max" else ["float32"])


MODES = [np.array(rows) for rows in ([[2.0, 3, NAN], [3, 2, 2], [NAN, NAN, 9], [4, 5, 1]], [[9.0, 0.5, NAN], [8, 0, -3]],
                                     [[1.5, 2.9, np.inf], [2.7, 2.1, NAN], [2.2, 3.3, 1]])]
CASES = [
    ExportCase("most frequent categories", "[Y, V] = imputeByMode(X=X)", {"X": MODES[0]}, outputs=["Y", "V"], symbols=N3,
               sizes=[{"X": x} for x in MODES[1:]]),
    ExportCase("sums of groups", 'Y = aggregate(target=X, groups=G, fn="sum")', G, symbols=FREE, sizes=FEWER),
    ExportCase("counts of groups", 'Y = aggregate(target=X, groups=G, fn="count")', G, symbols=FREE, sizes=FEWER),
    ExportCase("means of groups", 'Y = groupedAggregate(target=X, groups=G, fn="mean")', G, symbols=FREE, sizes=FEWER),
    ExportCase("variances of groups", 'Y = aggregate(target=X, groups=G, fn="variance")', G, symbols=FREE, sizes=FEWER),
    ExportCase("moments of groups", 'Y = aggregate(target=X, groups=G, fn="centralmoment", order="3")'
               ' + aggregate(target=X, groups=G, fn="centralmoment", order=4)', G, symbols=FREE, sizes=FEWER),
    ExportCase("second moments of groups", 'Y = aggregate(target=X, groups=G, fn="centralmoment", order="2")', G),
    ExportCase("groups with weights", 'Y = aggregate(target=X, groups=G, weights=W, fn="sum")'
               ' + aggregate(target=X, groups=G, weights=W, fn="mean") + aggregate(target=X, groups=G, weights=W, fn="count")',
               {**G, "W": np.array([[1.0], [2], [0.5], [3], [2]])}),
    *(ExportCase(f"{fn} {order} of groups with weights", f'Y = aggregate(target=X, groups=G, weights=W, fn="{fn}"{order})',
                 {**G, "W": np.array([[1.0], [2], [0.5], [3], [weight]])}, symbols={**FREE, "W": ["N", 1]},
                 sizes=[{**each, "W": np.ones_like(each["X"]) / 2} for each in FEWER])
      for weight in (2, 0.25) for fn, order in (("variance", ""), ("min", ""), ("max", ""), *(("centralmoment", f", order={k}") for k in (2, 3, 4)))),
    *(ExportCase(f"{fn} of groups, some after the last", "X = matrix(X, 5, 1)\nG = matrix(G, 5, 1)\n"
                 f'Y = aggregate(target=X, groups=G, fn="{fn}", ngroups=2)', G) for fn in ("sum", "count", "mean", "variance")),
    *(ExportCase(name, body, ROWS, symbols={"A": ["N", 2], "B": ["M", 2]}, sizes=[{"A": np.array([[2.0, 2], [5, 5]])}]) for name, body in {
        "distinct rows": "Y = unique(rbind(A, B))", "united rows": "Y = union(A, A)",
        "distinct rows that are known": 'C = rbind(matrix("3 4 1 2", 2, 2), matrix("3 4 5 6", 2, 2))\nY = unique(C) + A[1, ]',
        "distinct elements of a matrix that is equal to stacked ones":
            'C = rbind(matrix("3 4", 1, 2), matrix("4 3", 1, 2))\nM = matrix("3 4 4 3", 2, 2)\nY = order(target=unique(M), by=1) + sum(C) + as.scalar(A[1, 1])',
        "distinct numbers that are known": 'Y = unique(rbind(matrix("3 1", 2, 1), matrix("2 1", 2, 1))) + as.scalar(A[1, 1])',
        "sums of united rows": "Z = union(A, B)\nY = colSums(Z)"}.items()),
    ExportCase("groups of rows", 'X = matrix(X, 4, 3)\nG = matrix(G, 4, 1)\nY = aggregate(target=X, groups=G, fn="sum", ngroups=5)',
               {"X": RNG.normal(size=(4, 3)), "G": np.array([[2.0], [1], [2], [5]])}),
    *(ExportCase(f"{fn} of {number} groups of rows", "X = matrix(X, 6, 3)\nG = matrix(G, 6, 1)\n"
                 f'Y = aggregate(target=X, groups=G, fn="{fn}", ngroups={number})', GROUPED)
      for fn in ("count", "mean", "variance", "min", "max") for number in (2, 6)),
    ExportCase("infinite in one group", 'Y = aggregate(target=X, groups=G, fn="sum")', {**G, "X": G["X"] * [[1], [1], [INF], [1], [1]]}),
    ExportCase("distinct elements in order", "Y = order(target=unique(X), by=1)", {"X": REPEATED[:3, :2]},
               symbols={"X": ["N", 2]}, sizes=[{"X": REPEATED[:1, :2]}]),
    *(ExportCase(name, f'Z = replace(target=unique(X, dir="{way}"), pattern=NaN, replacement=9)\nZ = replace(target=Z, pattern=Inf, replacement=8)\n'
                 f"Y = {sums}", DISTINCT, symbols=N3, sizes=SOME) for name, way, sums in (
        ("distinct elements of each row", "r", "cbind(rowSums(Z), rowSums(Z ^ 2), rowSums(Z ^ 3)) + ncol(Z)"),
        ("distinct elements of each column", "c", "rbind(colSums(Z), colSums(Z ^ 2), colSums(Z ^ 3)) + nrow(Z)"))),
    ExportCase("number of distinct elements", "Y = as.matrix(countDistinct(X))", DISTINCT, symbols=N3, sizes=SOME),
    ExportCase("distinct elements of rows", "Y = rowCountDistinct(X)", DISTINCT, symbols=N3, sizes=SOME),
    ExportCase("distinct elements of columns", "Y = colCountDistinct(X)", DISTINCT, symbols=N3, sizes=SOME[:1]),
    *[ExportCase(f"middle half of {n}", "Y = as.matrix(interQuartileMean(X))", {"X": RNG.normal(size=(n, 1))})
      for n in (4, 5, 6, 7, 10, 12)],
    ExportCase("middle half with zeros", "Y = as.matrix(interQuartileMean(X))",
               {"X": np.array([[0.0], [0], [3], [-1], [0], [2], [5]])}),
    ExportCase("transform", "X = matrix(X, 2, 8)\n[Y, Z] = fft(X)", WAVE, ("Y", "Z")),
    ExportCase("transform of rows", "X = matrix(X, 2, 8)\n[Y, Z] = fft_linearized(X)", WAVE, ("Y", "Z")),
    ExportCase("inverse transform", "X = matrix(X, 2, 8)\n[Y, Z] = ifft(X, X)", WAVE, ("Y", "Z")),
    ExportCase("inverse transform of real numbers", "X = matrix(X, 2, 8)\n[Y, Z] = ifft(X)", WAVE, ("Y", "Z")),
    ExportCase("inverse transform of rows", "X = matrix(X, 2, 8)\n[Y, Z] = ifft_linearized(X, X)", WAVE, ("Y", "Z")),
    ExportCase("sum of products", f'{SIZED}Y = einsum("ij,jk->ik", A, B)', EIN),
    ExportCase("sum of products to rows", f'{SIZED}Y = einsum("ij,jk->i", A, B)', EIN),
    ExportCase("sum of products to columns", f'{SIZED}Y = einsum("ij->j", A) + sum(B)', EIN),
    ExportCase("transposed by letters", f'{SIZED}Y = einsum("ij->ji", A) + sum(B)', EIN),
    gradient("gradient of filters", (3, 3), 3, 3, 1, 1, 0, 0),
    gradient("gradient of padded filters", (5, 5), 3, 3, 1, 1, 1, 1),
    gradient("gradient of filters with strides", (2, 2), 2, 3, 2, 2, 0, 0),
    gradient("gradient of wide strides", (3, 2), 3, 2, 2, 3, 1, 0),
    ExportCase("gradient of a maximum", f"Y = max_pool_backward(X, P, {POOL.format(2)}", {"X": IMAGES["X"], "P": IMAGES["P"]}),
    ExportCase("gradient of spread maxima", f"Y = max_pool_backward(X, P, {POOL.format(3)}", {"X": IMAGES["X"], "P": IMAGES["P"]}),
    ExportCase("gradient of maxima of channels that are images of their own",
               "X = max_pool(A, input_shape=[2,3,5,5], pool_size=[2,2], stride=[1,1], padding=[0,0])\n"
               "Y = max_pool_backward(matrix(X, rows=6, cols=16), D, input_shape=[6,1,4,4], pool_size=[2,2], stride=[2,2], padding=[0,0])",
               {"A": RNG.normal(size=(2, 75)), "D": RNG.normal(size=(6, 4))}),
    *(pooled("avg", *sizes) for sizes in ((3, 2, 1, 3), (3, 1, 1, 5), (2, 3, 0, 2), (2, 1, 0, 4))),
    pooled("max", 2, 2, 1, 3),
    ExportCase("nothing to decompress", "Y = decompress(compress(X))", WAVE),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_builtin_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


def test_maxima_of_windows_that_overlap_have_the_sum_of_their_gradients() -> None:
    """The engine gives the last one, or none; its script nn/layers/max_pool2d.dml gives the sum."""
    body = "Y = max_pool_backward(X, D, input_shape=[1,1,3,3], pool_size=[2,2], stride=[1,1], padding=[0,0])"
    data = {"X": np.array([[1.0, 5, 2, 0, 5, 3, 4, 1, 1]]), "D": np.array([[1.0, 2, 3, 4]])}
    for dtype in ("float32", "float64"):
        found = run_model(model_of(ExportCase("overlap", body, data), dtype), data)["Y"]
        assert found.tolist() == [[0, 3, 0, 0, 7, 0, 0, 0, 0]]


@pytest.mark.parametrize(("body", "reason"), [
    ('Y = aggregate(target=X, groups=X, fn="median")', "no aggregate of groups that is exported"),
    ('Y = unique(X, dir="x")', "in the direction x"),
    ("[Y, Z] = fft(X)", "their number must be known, and a power of 2"),
    ("Y = as.matrix(countDistinctApprox(X))", "countDistinct and its like count"),
    ('Y = einsum("ijk->i", X)', "by ijk->i"),
    ("[Y, M] = compress(X, matrix(3, 1, 1))", "into bins, which it learns"),
    ("Y = as.matrix(toString(X))", "gives a text"),
])
def test_what_cannot_be_exported_is_refused(body: str, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[N,1]"})
