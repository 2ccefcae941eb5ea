"""One-to-one pairs of ONNX operators and DML: read by the importer and by the exporter."""

from __future__ import annotations

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
