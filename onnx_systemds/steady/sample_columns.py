"""Images with a sample in each column, behind depthwise convolutions as products.

Such a product reads and gives its images transposed (see `products`). What follows it often does not care: operations
on single numbers, biases, and convolutions of single pixels, which in this form are one product of their weights with
all pixels of all samples, where `conv2d` copies the images and multiplies one by one. So images stay transposed until
another statement reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from onnx_systemds.exporting import syntax as tree
from onnx_systemds.exporting.scopes import assigned, read_in
from onnx_systemds.steady.products import Convolution, convolution_of, transposed
from onnx_systemds.steady.trees import reads, whole_number

_OF_NUMBERS = {"abs", "ceil", "ceiling", "exp", "floor", "round", "sqrt"}  # builtins of one matrix, number by number
_OPERATORS = {"+", "-", "*", "/", "^"}


@dataclass(frozen=True)
class _Images:
    """An expression that holds images, the samples last: one in each column, or a channel in each row."""

    value: tree.Expression
    samples: int
    channels: int
    pixels: int
    by_channel: bool = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Those that two images have in common to be added."""
        return self.samples, self.channels, self.pixels

    @property
    def columns(self) -> tree.Expression:
        """With a sample in each column."""
        rows = self.channels * self.pixels
        return _reshaped(self.value, rows, self.samples) if self.by_channel else self.value

    @property
    def planes(self) -> tree.Expression:
        """With a channel in each row."""
        cols = self.pixels * self.samples
        return self.value if self.by_channel else _reshaped(self.value, self.channels, cols)


def with_sample_columns(
    body: tree.Block, products: Mapping[str, Convolution], sizes: Mapping[str, int], results: Collection[str]
) -> tree.Block:
    """The statements of a function, with images transposed as long as that serves the products.

    products: depthwise convolutions by the names of their matrices. sizes: known numbers. results: what is read
    behind the body.
    """
    if not products:
        return body
    counts = Counter(name for statement in body for name in assigned((statement,)))
    names = read_in(tree.Script(body)) | counts.keys()
    suffix = "_columns"
    while any(name + suffix in names for name in names):
        suffix += "_"
    rewriting = _Rewriting(products, sizes)
    changed: list[tree.Statement] = []
    for statement in body:
        images = rewriting.of(statement.value) if _assigns_once(statement, counts) else None
        if images is None:
            changed.append(statement)
            continue
        (name,) = assigned((statement,))
        rewriting.known[name] = replace(images, value=tree.Name(name + suffix))
        changed.append(tree.Assign(tree.Name(name + suffix), images.value))
    read = set(results).union(*map(reads, changed))
    return tuple(
        further
        for statement, before in zip(changed, body)
        for further in (statement, *_transposed_back(before, rewriting.known, read))
    )


def _assigns_once(statement: tree.Statement, counts: Mapping[str, int]) -> TypeGuard[tree.Assign]:
    """Whether it gives a variable its only value."""
    if not isinstance(statement, tree.Assign) or not isinstance(statement.target, tree.Name):
        return False
    return not statement.accumulate and counts[statement.target.name] == 1


def _transposed_back(
    statement: tree.Statement, known: Mapping[str, _Images], read: Collection[str]
) -> list[tree.Statement]:
    """What gives other statements the images that ``statement`` gave, a sample in each row."""
    return [
        tree.Assign(tree.Name(name), transposed(known[name].columns))
        for name in assigned((statement,))
        if name in known and name in read
    ]


class _Rewriting:
    """How expressions are written, with what is known of variables."""

    def __init__(self, products: Mapping[str, Convolution], sizes: Mapping[str, int]) -> None:
        self.known: dict[str, _Images] = {}
        self._products, self._sizes = products, sizes

    def of(self, node: tree.Expression) -> _Images | None:
        """The images that an expression gives, transposed; None where it stays as it is."""
        if isinstance(node, tree.Name):
            return self.known.get(node.name)
        if isinstance(node, tree.Unary) and node.operator == "-":
            operand = self.of(node.operand)
            return operand and replace(operand, value=tree.Unary("-", operand.value))
        if isinstance(node, tree.Binary):
            return self._combined(node)
        return self._called(node) if isinstance(node, tree.Call) else None

    def _combined(self, node: tree.Binary) -> _Images | None:
        """Of images and of numbers, one at least of images."""
        spine: list[tree.Binary] = []  # sums of many terms are deep on the left
        first: tree.Expression = node
        while isinstance(first, tree.Binary):
            if first.operator not in _OPERATORS:
                return None
            spine.append(first)
            first = first.left
        left = self.of(first)
        for binary in reversed(spine):
            left = self._of_two(binary, left)
            if left is None:
                return None
        return left

    def _of_two(self, node: tree.Binary, left: _Images | None) -> _Images | None:
        """Of the images that the left operand is, if any, and of the right one."""
        right = self.of(node.right)
        if left is not None and right is not None:
            if left.sizes != right.sizes:
                return None
            other = right.planes if left.by_channel else right.columns
            return replace(left, value=tree.Binary(node.operator, left.value, other))
        if left is not None and _is_number(node.right):
            return replace(left, value=tree.Binary(node.operator, left.value, node.right))
        if right is not None and _is_number(node.left):
            return replace(right, value=tree.Binary(node.operator, node.left, right.value))
        return None

    def _called(self, node: tree.Call) -> _Images | None:
        """What a call gives, of those that do not care how images lie."""
        operands = [argument.value for argument in node.arguments]
        if node.function == "t":
            return self._product(operands[0])
        if node.function == "conv2d":
            return self._pointwise(node)
        if node.function == "bias_add":
            return self._biased(*operands)
        if node.function in ("max", "min") and len(operands) == 2:
            return self._extreme(node, operands)
        if node.function in _OF_NUMBERS and len(operands) == 1:
            images = self.of(operands[0])
            return images and replace(images, value=_call(node.function, images.value))
        return self._same(node) if node.function == "matrix" else None

    def _extreme(self, node: tree.Call, operands: Sequence[tree.Expression]) -> _Images | None:
        """The larger or smaller one of images and a number."""
        matrix, number = sorted(operands, key=_is_number)
        images = self.of(matrix)
        if images is None or not _is_number(number):
            return None
        return replace(images, value=_call(node.function, images.value, number))

    def _product(self, node: tree.Expression) -> _Images | None:
        """A depthwise convolution, in ``t(M %*% t(images))``."""
        if not isinstance(node, tree.Binary) or node.operator != "%*%" or not isinstance(node.left, tree.Name):
            return None
        convolution = self._products.get(node.left.name)
        if convolution is None:
            return None
        assert isinstance(node.right, tree.Call)
        given = self.of(node.right.arguments[0].value)
        value = tree.Binary("%*%", node.left, node.right if given is None else given.columns)
        return _Images(value, convolution.images[0], convolution.filters[0], convolution.pixels)

    def _pointwise(self, node: tree.Call) -> _Images | None:
        """A convolution of single pixels, of images that are transposed already."""
        images = self.of(node.arguments[0].value)
        convolution = convolution_of(node, self._sizes)
        if images is None or convolution is None or not convolution.is_pointwise:
            return None
        samples, channels, height, width = convolution.images
        if images.sizes != (samples, channels, height * width):
            return None
        filters = convolution.filters[0]
        value = tree.Binary("%*%", node.arguments[1].value, images.planes)
        return replace(images, value=value, channels=filters, by_channel=True)

    def _biased(self, operand: tree.Expression, bias: tree.Expression) -> _Images | None:
        """Images with a number added to each channel, behind a convolution, or with one number for all."""
        images = self.of(operand)
        if images is None:
            return None
        if isinstance(bias, tree.Call) and bias.function == "as.matrix":
            return replace(images, value=_call("bias_add", images.value, bias))
        if not isinstance(operand, tree.Call) or operand.function not in ("conv2d", "t"):  # how many channels it takes
            return None
        if _is_zero(bias):  # it only keeps `conv2d` from a fault
            return images
        return replace(images, value=tree.Binary("+", images.planes, bias), by_channel=True)

    def _same(self, node: tree.Call) -> _Images | None:
        """``matrix`` of images, to a row for each sample, as they are."""
        images = self.of(node.arguments[0].value)
        given = {argument.name: argument.value for argument in node.arguments[1:]}
        if images is None or given.keys() != {"rows", "cols"}:
            return None
        shape = [whole_number(given[name], self._sizes) for name in ("rows", "cols")]
        return images if shape == [images.samples, images.channels * images.pixels] else None


def _reshaped(value: tree.Expression, rows: int, cols: int) -> tree.Expression:
    """``matrix(value, rows=rows, cols=cols)``."""
    sizes = (tree.CallArgument(name, tree.IntLiteral(size)) for name, size in (("rows", rows), ("cols", cols)))
    return tree.Call("matrix", (tree.CallArgument(None, value), *sizes))


def _call(function: str, *operands: tree.Expression) -> tree.Call:
    return tree.Call(function, tuple(tree.CallArgument(None, operand) for operand in operands))


def _is_number(node: tree.Expression) -> bool:
    operand = node.operand if isinstance(node, tree.Unary) and node.operator == "-" else node
    return isinstance(operand, (tree.IntLiteral, tree.DoubleLiteral))


def _is_zero(node: tree.Expression) -> bool:
    """Whether it is ``matrix(0, rows=..., cols=...)``."""
    return isinstance(node, tree.Call) and node.function == "matrix" and node.arguments[0].value == tree.IntLiteral(0)
