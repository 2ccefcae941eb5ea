"""One-to-one pairs of ONNX operators and DML: read by the importer and by the exporter."""

from __future__ import annotations

import re

# ONNX operator -> DML builtin of one matrix or scalar
UNARY_BUILTINS = {
    "Abs": "abs",
    "Acos": "acos",
    "Asin": "asin",
    "Atan": "atan",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}

# ONNX operator -> DML infix operator; the engine takes a vector as the right operand only
INFIX_OPERATORS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
}

COMPARISONS = {
    "Equal": "==",
    "Greater": ">",
    "GreaterOrEqual": ">=",
    "Less": "<",
    "LessOrEqual": "<=",
}

# ONNX operator of any number of inputs -> DML builtin of two
VARIADIC_BUILTINS = {
    "Max": "max",
    "Min": "min",
}

COMMUTATIVE = frozenset(["+", "*", "==", "min", "max"])

# a op b is b MIRRORED[op] a
MIRRORED = {"==": "==", ">": "<", ">=": "<=", "<": ">", "<=": ">="}

# the same of ONNX's operators that order
MIRRORED_ORDERS = {
    "Greater": "Less", "GreaterOrEqual": "LessOrEqual", "Less": "Greater", "LessOrEqual": "GreaterOrEqual",
}

ELEMENTWISE = (
    "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual",
    "Greater", "GreaterOrEqual", "Where", "Abs", "Acos", "Asin", "Atan", "Cast", "Ceil", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "Identity", "IsInf", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin",
    "Sinh", "Sqrt", "Tan", "Tanh",
)
"""Operators of ONNX whose results have an element for each of their operands, which broadcast."""
ACTIVATIONS = (
    "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Selu", "Softplus",
    "Softsign", "ThresholdedRelu",
)
"""The same of networks; some have attributes, or further inputs that are numbers."""
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
RECOGNISED = frozenset((
    "added_rows_removed", "area_cosh", "area_sinh", "area_tanh", "col_log_sum_exp", "coupled_probabilities",
    "cumulative_row_sum", "cumulative_sum", "depthwise_matrix", "erf", "gather_index", "gelu", "grouped_filters",
    "gru_layer", "interpolated_columns", "interpolated_planes", "interpolated_rows", "joined_strips", "lstm_layer",
    "nearest_float", "nearest_integer", "nearest_integer_plus", "pick_leaves", "product_of_few_rows", "rnn_layer",
    "round_half_even", "round_to_float", "row_arg_max", "row_arg_max_last", "row_arg_min", "row_arg_min_last",
    "row_log_sum_exp", "row_means", "row_sums", "rows_added", "scaled_rows", "single_precision", "softplus",
    "test_all_branches", "text_codes", "top_class", "top_k_passes", "top_k_sorted", "walk_trees",
))
"""Functions of converted models that are operators of ONNX again where a model is made of them: as they stand."""
_COPY = re.compile(r"_[0-9]+$")


def name_without_number(function: str) -> str:
    """The name of the function that one of this name is a copy of: copies have a number."""
    return _COPY.sub("", function)
