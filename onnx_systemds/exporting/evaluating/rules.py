"""The rules of the evaluator: which function evaluates or runs each kind of expression and statement."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.exporting.evaluating import branches, calls, expressions, indexing, loops, simple_statements
from onnx_systemds.exporting.evaluating.evaluator import Rules

RULES = Rules(
    expressions={
        tree.IntLiteral: expressions.literal,
        tree.DoubleLiteral: expressions.literal,
        tree.StringLiteral: expressions.literal,
        tree.BooleanLiteral: expressions.literal,
        tree.Constant: expressions.constant,
        tree.Name: expressions.variable,
        tree.Argument: expressions.argument,
        tree.IfDefined: expressions.if_defined,
        tree.ListExpression: expressions.list_of,
        tree.Unary: expressions.unary,
        tree.Binary: expressions.binary,
        tree.Indexed: indexing.read,
        tree.Call: calls.call_for_one,
    },
    statements={
        tree.Assign: simple_statements.assign,
        tree.MultiAssign: simple_statements.assign_several,
        tree.CallStatement: simple_statements.call_alone,
        tree.Source: simple_statements.declare,
        tree.SetWorkingFolder: simple_statements.declare,
        tree.If: branches.run_if,
        tree.For: loops.run_for,
        tree.While: loops.run_while,
    },
)
