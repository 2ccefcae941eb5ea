"""What goes wrong with rows at federated sites: ``X`` of these has its first row at one site, the others at another."""

from __future__ import annotations

from onnx_systemds.engine.faults.fault import Fault

FEDERATED: tuple[Fault, ...] = (
    Fault(
        "rows-below-federated-ones",
        "rows of the coordinator that rbind puts below federated ones never reach a site: who reads them finds no file",
        "Y = rbind(X, matrix(7, rows=1, cols=2))\nresult = 2 * Y",
        ((2, 4), (6, 8), (14, 14)),
        "score_at_site of templates/score.dml.jinja: sites compute whole functions of their rows",
        inputs=((1, 2), (3, 4)),
        raises="Federated matrix read failed",
    ),
    Fault(
        "federated-columns-in-another-shape",
        "matrix(X, rows=r, cols=c) of a matrix whose columns are at several sites leaves numbers out and ends in zeros",
        "result = matrix(t(X), rows=4, cols=1)",
        ((1,), (3,), (2,), (4,)),
        "templates/score.dml.jinja: rows that may leave their sites are fetched before anything is computed of them",
        inputs=((1, 2), (3, 4)),
    ),
    Fault(
        "empty-text-of-one-column",
        "a site cannot read a csv file of a frame of one column where a line is empty, for an empty text",
        'result = as.matrix(map(X, "x -> x.isEmpty() ? 1 : 2"))',
        ((2,), (1,), (2,)),
        "none is needed, as the run ends with an error",
        inputs=(("a",), ("",), ("b",)),
        raises="Federation initialization failed",
    ),
)
