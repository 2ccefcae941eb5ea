"""Shares of distributions and the numbers of shares, against the engine: to 1e-7 in float32, to 1e-9 in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export

NUMBERS = np.array([[-7.5, -0.125, 0.5, 3.25, 30.0]]).T  # float32 holds them
ABOVE = np.array([[0.0, 0.0625, 1.0, 12.0, 90.0]]).T
SHARES = np.array([[0.0009765625, 0.25, 0.5, 0.96875, 0.99999904632568359375, 0.0, 1.0]]).T
EXACT = {"float64": 1e-9, "float32": 1.2e-7}


def row(name: str, numbers: np.ndarray, calls: Sequence[str]) -> ExportCase:
    """Each call for each of the numbers, which is `s` there."""
    lines = [f"s{i} = as.scalar(X[{i}, 1])" for i in range(1, len(numbers) + 1)]
    lines.append("d = s3 * 0.5 + 1")
    results = [f"as.matrix({call.replace('(s', f'(target=s{i}')})" for call in calls for i in range(1, len(numbers) + 1)]
    lines += [f"y{i} = {result}" for i, result in enumerate(results)]
    body = "\n".join([*lines, f"Y = rbind({', '.join(f'y{i}' for i in range(len(results)))})"])
    return ExportCase(name, body, {"X": numbers}, tolerance=EXACT)


CASES = [
    row("normal", NUMBERS, ["pnorm(s)", "pnorm(s, mean=1, sd=2)"]),
    row("normal of a computed width", NUMBERS, ["pnorm(s, sd=d, lower.tail=FALSE)", 'cdf(s, dist="normal", mean=d)']),
    row("normal backwards", SHARES, ["qnorm(s)", "qnorm(s, mean=1, sd=d)", 'icdf(s, dist="normal", sd=3)']),
    row("exponential", ABOVE, ["pexp(s)", "pexp(s, rate=d, lower.tail=FALSE)", 'cdf(s, dist="exp", rate=0.5)']),
    row("exponential below 0", np.array([[-1.0, -np.inf, 4.0, np.nan]]).T, ["pexp(s)", "pexp(s, rate=d, lower.tail=FALSE)"]),
    row("exponential backwards", SHARES, ["qexp(s)", "qexp(s, rate=d)", 'icdf(s, dist="exp", rate=2)']),
    row("chi-squared", ABOVE, ["pchisq(s, df=1)", "pchisq(s, df=5)", "pchisq(s, df=8, lower.tail=FALSE)",
                               'cdf(s, dist="chisq", df=101)']),
    row("t", NUMBERS, ["pt(s, df=1)", "pt(s, df=7)", "pt(s, df=10, lower.tail=FALSE)", 'cdf(s, dist="t", df=99)']),
    row("F", ABOVE, ["pf(s, df1=1, df2=9)", "pf(s, df1=3, df2=4)", "pf(s, df1=5, df2=7, lower.tail=FALSE)", "pf(s, df1=9, df2=1)",
                     'cdf(s, dist="f", df1=10, df2=21)']),
    row("F beyond all numbers", np.array([[np.inf, -np.inf, 4.0, 1e30]]).T, ["pf(s, df1=1, df2=9)", "pf(s, df1=7, df2=3 * d)"]),
    row("chi-squared of many or computed degrees", ABOVE, ["pchisq(s, df=d)", "pchisq(s, df=60 * d)", "pchisq(s, df=201)",
                                                           "pchisq(s, df=999, lower.tail=FALSE)"]),
    row("t of many or computed degrees", NUMBERS, ["pt(s, df=d)", "pt(s, df=7 * d)", "pt(s, df=1000)",
                                                   'cdf(s, dist="t", df=100000 * d, lower.tail=FALSE)']),
    row("F of many or computed degrees", ABOVE, ["pf(s, df1=d, df2=7 * d)", "pf(s, df1=3, df2=40 * d)", "pf(s, df1=3, df2=1000)",
                                                 "pf(s, df1=4000, df2=9 * d, lower.tail=FALSE)"]),
    row("chi-squared backwards", SHARES, ["qchisq(s, df=1)", "qchisq(s, df=7)", 'icdf(s, dist="chisq", df=6 * d)']),
    row("t backwards", SHARES, ["qt(s, df=1)", "qt(s, df=12)", "qt(s, df=5 * d)", 'icdf(s, dist="t", df=1000)']),
    row("F backwards", SHARES, ["qf(s, df1=2, df2=9)", "qf(s, df1=4 * d, df2=12)", 'icdf(s, dist="f", df1=11, df2=300 * d)']),
    ExportCase("known backwards", "Y = X + qt(target=0.975, df=12) + qchisq(target=0.05, df=3) + qf(target=0.9, df1=4, df2=30)",
               {"X": ABOVE}, operators=["Add"] * 3),
    ExportCase("known ends", "Y = rbind(X, as.matrix(qt(target=0, df=3)), as.matrix(qf(target=1, df1=1, df2=1)),"
               " as.matrix(qt(target=1, df=1)), as.matrix(qchisq(target=0, df=4)))", {"X": ABOVE}, operators=["Concat"]),
    ExportCase("known, of many degrees", "Y = X + pt(target=2.5, df=5000) + qf(target=0.3, df1=1000, df2=201)", {"X": ABOVE},
               operators=["Add"] * 2),
    ExportCase("in a branch of a loop", """
        Y = matrix(NaN, rows=nrow(X), cols=1)
        for (i in 1:nrow(X)) {
            q = as.scalar(X[i, 1])
            d = as.scalar(X[nrow(X) - i + 1, 1])
            if (q >= 1 & d >= 1) {
                Y[i, 1] = pf(target=q, df1=d, df2=q, lower.tail=FALSE)
            }
        }""", {"X": np.arange(7.0).reshape(7, 1)}, tolerance=EXACT),
    ExportCase("known", "Y = X + pnorm(target=0.3, mean=1, sd=2) + pt(target=2.5, df=3) + qnorm(target=0.2)", {"X": ABOVE},
               operators=["Add"] * 3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_distributions_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize(("call", "reason"), [
    ("pchisq(target=sum(X), df=2.5)", "2.5 degrees of freedom"),
    ("pt(target=sum(X), df=0)", "0 degrees of freedom"),
    ("pf(target=sum(X), df1=3, df2=10000000)", "1e+07 degrees of freedom"),
    ("qt(target=0.5, df=0.5)", "0.5 degrees of freedom"),
    ('cdf(target=sum(X), dist="gamma")', "the distribution gamma"),
    ('cdf(target=sum(X), dist="t")', "its degrees of freedom are not given"),
    ('icdf(target=sum(X), dist="t")', "its degrees of freedom are not given"),
    ('icdf(target=sum(X), dist="f", df1=3)', "its degrees of freedom are not given"),
    ('icdf(target=sum(X), dist="gamma")', "the distribution gamma"),
])
def test_what_cannot_be_exported_is_refused(call: str, reason: str) -> None:
    with pytest.raises(TranspileError) as error:
        export_script(f'X = read("X")\nY = X * {call}\nwrite(Y, "Y")\n', inputs={"X": "double[N,1]"})
    assert reason in str(error.value)
