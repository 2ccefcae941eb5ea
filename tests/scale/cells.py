"""Families of models by the places that score them: which cells give what onnxruntime gives, and which are refused."""

from __future__ import annotations

from collections.abc import Iterator

FAMILIES = {
    "MLP": "mlp_tabular.ts",
    "XGBoost": "xgb_wine",
    "LightGBM": "lgb_dia",
    "random forest": "skl_bc_rf",
    "logistic regression": "skl_iris_logreg_zipmap",
    "CNN": "resnet_tiny.ts",
    "transformer, two inputs": "bert_tiny.ts",
    "LSTM": "lstm_gru_tagger.ts",
    "numbers and categories": "skl_mixed_cols",
    "words of strings": "txt_tfidf_lr",
}
PLACES = ("one machine", "hybrid", "local[2]", "local-cluster", "federated")
IN_ONE_CALL = "words of strings"
"""A tokenizer makes as many columns as the longest text of all rows has words."""
_TASKS = 'one call has all rows, which may depend on each other: node "Tokenizer" (Tokenizer)'
_SITES = 'results may depend on rows of several sites: node "Tokenizer" (Tokenizer)'
REFUSED = {
    (IN_ONE_CALL, "local[2]"): _TASKS,
    (IN_ONE_CALL, "local-cluster"): _TASKS,
    (IN_ONE_CALL, "federated"): _SITES,
}


def table() -> Iterator[str]:
    """The lines of the table of cells in the documentation."""
    yield f"| | {' | '.join(PLACES)} |"
    yield "|---" * (len(PLACES) + 1) + "|"
    for family in FAMILIES:
        cells = (REFUSED.get((family, place)) for place in PLACES)
        yield f"| {family} | {' | '.join('equal' if reason is None else _short(reason) for reason in cells)} |"


def _short(reason: str) -> str:
    return f"refused: {reason.rpartition('(')[2].rstrip(')')}"
