"""Images with a sample in each column, after depthwise convolutions as products.

Such a product reads and gives its images transposed (see `products`). What follows it often does not care: operations
on single numbers, biases, and convolutions of single pixels, which in this form are one product of their weights with
all pixels of all samples, where `conv2d` copies the images and multiplies one by one. So images stay transposed until
another statement reads them. Sums over the taps of dilated convolutions are products of all samples, too (see
`tap_sums`), and channels of several images stand below each other.

Between the two products each sum and each maximum takes as long as they do. There ``W %*% max(Z + b, 0) + c`` becomes
``W %*% max(Z, -b) + (W %*% b + c)``, and the last sum one more column of ``W`` for a channel of ones: that is an empty
one of ``Z``, in which the maximum puts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeGuard

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import is_finite_number
from onnx_systemds.dml.rewrite import call, left_operands, reshaped, with_first
from onnx_systemds.dml.scopes import (
    assigned,
    assignment_counts,
    assigns_variable,
    is_call,
    is_operation,
    name_counts,
    read_in,
    reads,
)
from onnx_systemds.importing.passes.convolution_sizes import Convolution, IntegerOf, convolution_of
from onnx_systemds.importing.passes.specialisation.images import Images, filled, is_zero, shape_of, stacked
from onnx_systemds.importing.passes.specialisation.products import transposed
from onnx_systemds.importing.passes.specialisation.tap_sums import (
    TapSum,
    shifts_of_samples,
    summed_taps,
    tap_sum_of,
    tap_sums,
    weights_by_tap,
)
from onnx_systemds.operators.support.products import may_have_few_rows

_OF_NUMBERS = {"abs", "ceil", "ceiling", "exp", "floor", "round", "sqrt"}  # builtins of one matrix, number by number
_OPERATORS = {"+", "-", "*", "/", "^"}
_EXTREMES = ("max", "min")


@dataclass(frozen=True)
class SampleColumns:
    """The statements of a function, in which images have a sample in each column where that serves the products.

    bounds: variables with what maxima are taken with before a bias is added.
    """

    body: tree.Block
    bounds: Sequence[str]


def with_sample_columns(
    body: tree.Block, products: Mapping[str, Convolution], integer_of: IntegerOf, results: Collection[str], *,
    joins_biases: bool = True,
) -> SampleColumns:
    """The statements of a function, with images transposed as long as that serves the products.

    products: depthwise convolutions by the names of their matrices. results: what is read after the body.
    joins_biases: whether biases between two products are joined to the weights of the second one.
    """
    sums = tap_sums(body, integer_of)
    if not products and not sums:
        return SampleColumns(body, ())
    counts = assignment_counts(body)
    names = read_in(tree.Script(body)) | counts.keys()
    suffix = "_columns"
    while any(suffix in name for name in names):
        suffix += "_"
    room = _joinable(body, counts, integer_of, results) if joins_biases else ()
    rewriting = _Rewriting(products, sums, integer_of, suffix, room)
    changed: list[tree.Block] = [rewriting.changed(statement, counts) for statement in body]
    read = set(results).union(*(reads(statement) for block in changed for statement in block))
    unread = rewriting.unread_variables()
    written = [
        further
        for block, statement in zip(changed, body)
        if unread.isdisjoint(assigned((statement,)))
        for further in (*block, *rewriting.transposed_back(statement, read))
    ]
    return SampleColumns(tuple(map(rewriting.enlarged, written)), rewriting.bounds)


def _assigns_once(statement: tree.Statement, counts: Mapping[str, int]) -> TypeGuard[tree.Assign]:
    """Whether it gives a variable its only value."""
    return assigns_variable(statement) and not statement.accumulate and counts[statement.target.name] == 1


def _joinable(
    body: tree.Block, counts: Mapping[str, int], integer_of: IntegerOf, results: Collection[str]
) -> set[str]:
    """The variables that are only read by a maximum with a number, which only convolutions of single pixels read."""
    read = name_counts(body)
    read.subtract(counts.keys())  # where they are assigned
    read.update(results)
    convolved = Counter(
        node.arguments[0].value.name
        for node in tree.walk(*body)
        if is_call(node, "conv2d") and isinstance(node.arguments[0].value, tree.Name)
        if (convolution := convolution_of(node, integer_of)) is not None and convolution.is_pointwise
    )
    found = set()
    for statement in body:
        if _assigns_once(statement, counts) and convolved[statement.target.name] == read[statement.target.name]:
            given, functions = _after_extremes(statement.value)
            if "max" in functions and isinstance(given, tree.Name) and read[given.name] == 1:
                found.add(given.name)
    return found


def _after_extremes(node: tree.Expression) -> tuple[tree.Expression, set[str]]:
    """What maxima and minima with numbers are taken of, and which of both."""
    functions = set()
    while is_call(node, *_EXTREMES) and len(node.arguments) == 2:
        functions.add(node.function)
        node, _ = sorted((argument.value for argument in node.arguments), key=is_finite_number)
    return node, functions


class _Rewriting:
    """How expressions are written, with what is known of variables."""

    def __init__(
        self,
        products: Mapping[str, Convolution],
        sums: Mapping[str, TapSum],
        integer_of: IntegerOf,
        suffix: str,
        room: Collection[str],
    ) -> None:
        """room: variables for whose biases a convolution has room."""
        self.bounds: list[str] = []
        self._known: dict[str, Images] = {}
        self._products, self._sums, self._integer_of = products, sums, integer_of
        self._suffix, self._room = suffix, room
        self._taps = {found.taps for found in sums.values()}
        self._convolved: dict[str, tuple[Images, tree.Expression, int]] = {}  # what taps are made of (see `_note_taps`)
        self._summed: set[str] = set()  # by their shifts
        self._target = ""
        self._origin: object = None
        self._before: list[tree.Statement] = []
        self._wider: set[str] = set()  # matrices of products with an empty channel more

    def changed(self, statement: tree.Statement, counts: Mapping[str, int]) -> tree.Block:
        """The statement, and what it reads, before it."""
        if not _assigns_once(statement, counts):
            return (statement,)
        self._before, self._target, self._origin = [], statement.target.name, statement.origin
        if self._target in self._taps:
            self._note_taps(statement.value)
        wider, summed, bounds = self._wider.copy(), self._summed.copy(), len(self.bounds)
        images = self._of(statement.value)
        if images is None:  # then a part of it stays as well
            self._before, self._wider, self._summed = [], wider, summed
            del self.bounds[bounds:]
            value = self._with_rows(statement.value)
            return *self._before, replace(statement, value=value)
        name = tree.Name(self._target + self._suffix)
        self._known[self._target] = replace(images, value=name)
        return *self._before, tree.Assign(name, images.value, origin=statement.origin)

    def transposed_back(self, statement: tree.Statement, read: Collection[str]) -> tree.Block:
        """What gives other statements the images that ``statement`` gave, a sample in each row."""
        return tuple(
            tree.Assign(
                tree.Name(name), transposed(self._settled(self._known[name]).columns), origin=statement.origin
            )
            for name in assigned((statement,))
            if name in self._known and name in read
        )

    def unread_variables(self) -> set[str]:
        """The variables that nothing reads any longer."""
        return {self._sums[shifts].taps for shifts in self._summed}

    def enlarged(self, statement: tree.Statement) -> tree.Statement:
        """The statement that makes the matrix of a product, with empty rows for a channel more, or for all samples."""
        name = statement.target.name if isinstance(statement, tree.Assign) else ""
        if name not in self._wider | self._summed:
            return statement
        assert isinstance(statement, tree.Assign) and isinstance(statement.value, tree.Call)
        if name in self._summed:
            return replace(statement, value=shifts_of_samples(self._sums[name], statement.value))
        convolution = self._products[name]
        empty = filled(0, convolution.pixels, prod(convolution.images[1:]))
        return replace(statement, value=call("rbind", statement.value, empty))

    def _of(self, node: tree.Expression) -> Images | None:
        """The images that an expression gives, transposed; None where it stays as it is."""
        if isinstance(node, tree.Name):
            return self._known.get(node.name)
        if isinstance(node, tree.Unary) and node.operator == "-":
            return self._changed_numbers(node.operand, lambda operand: tree.Unary("-", operand))
        if isinstance(node, tree.Binary):
            return self._combined(node)
        return self._called(node) if isinstance(node, tree.Call) else None

    def _settled(self, images: Images) -> Images:
        """The images with the bias that is still to be added."""
        if images.bias is None:
            return images
        value = images.value
        if not isinstance(value, tree.Name):
            value = self._assigned("room", value)
        own = tree.Indexed(value.name, tree.Span(tree.IntLiteral(1), tree.IntLiteral(images.channels)), tree.Span())
        return replace(images, value=tree.Binary("+", own, images.bias), bias=None)

    def _assigned(self, what: str, value: tree.Expression) -> tree.Name:
        """A variable, assigned before the statement."""
        name = tree.Name(f"{self._target}{self._suffix}_{what}{len(self._before) or ''}")
        self._before.append(tree.Assign(name, value, origin=self._origin))
        return name

    def _changed_numbers(
        self, node: tree.Expression, change: Callable[[tree.Expression], tree.Expression]
    ) -> Images | None:
        """Images with each number changed."""
        images = self._of(node)
        if images is None:
            return None
        images = self._settled(images)
        return replace(images, value=change(images.value))

    def _combined(self, node: tree.Binary) -> Images | None:
        """Of images and of numbers, one at least of images."""
        first, chain = left_operands(node)
        if any(binary.operator not in _OPERATORS for binary in chain):
            return None
        left = self._of(first)
        for binary in chain:
            left = self._of_two(binary, left)
            if left is None:
                return None
        return left

    def _of_two(self, node: tree.Binary, left: Images | None) -> Images | None:
        """Of the images that the left operand is, if any, and of the right one."""
        right = self._of(node.right)
        left, right = left and self._settled(left), right and self._settled(right)
        if left is not None and right is not None:
            if left.sizes != right.sizes:
                return None
            other = right.planes if left.by_channel else right.columns
            return replace(left, value=tree.Binary(node.operator, left.value, other))
        if left is not None and is_finite_number(node.right):
            return replace(left, value=tree.Binary(node.operator, left.value, node.right))
        if right is not None and is_finite_number(node.left):
            return replace(right, value=tree.Binary(node.operator, node.left, right.value))
        return None

    def _called(self, node: tree.Call) -> Images | None:
        """What a call gives, of those that do not care how images lie."""
        operands = [argument.value for argument in node.arguments]
        if node.function == "t":
            return self._product(operands[0])
        if node.function == "conv2d":
            return self._pointwise(node)
        if node.function == "bias_add":
            return self._biased(*operands)
        if node.function in _EXTREMES and len(operands) == 2:
            return self._extreme(node.function, *sorted(operands, key=is_finite_number))
        if node.function in _OF_NUMBERS and len(operands) == 1:
            return self._changed_numbers(operands[0], lambda operand: call(node.function, operand))
        if node.function == "cbind":
            return self._stacked(operands)
        return self._tap_sum(node) or self._same(node) if node.function == "matrix" else None

    def _extreme(self, function: str, matrix: tree.Expression, number: tree.Expression) -> Images | None:
        """The larger or smaller one of images and a number."""
        images = self._of(matrix)
        if images is None or not is_finite_number(number):
            return None
        if images.bias is None:
            return replace(images, value=call(function, images.value, number))
        bound = self._assigned("bound", call("rbind", tree.Binary("-", number, images.bias), filled(1, 1, 1)))
        if function == "max":
            self.bounds.append(bound.name)
        return replace(images, value=call(function, images.value, bound))

    def _product(self, node: tree.Expression) -> Images | None:
        """A depthwise convolution, in ``t(M %*% t(images))``."""
        if not is_operation(node, "%*%") or not isinstance(node.left, tree.Name):
            return None
        convolution = self._products.get(node.left.name)
        if convolution is None:
            return None
        assert isinstance(node.right, tree.Call)
        given = self._of(node.right.arguments[0].value)
        value = tree.Binary("%*%", node.left, node.right if given is None else self._settled(given).columns)
        return Images(value, convolution.images[0], convolution.filters[0], convolution.pixels)

    def _pointwise(self, node: tree.Call, bias: tree.Expression | None = None) -> Images | None:
        """A convolution of single pixels, of images that are transposed already, with a bias if that can be joined."""
        images = self._of(node.arguments[0].value)
        convolution = convolution_of(node, self._integer_of)
        if images is None or convolution is None or not convolution.is_pointwise:
            return None
        samples, channels, height, width = convolution.images
        if images.sizes != (samples, channels, height * width):
            return None
        filters, weights = convolution.filters[0], node.arguments[1].value
        if may_have_few_rows((filters, channels + 1, samples * height * width)):  # with a channel of ones
            return None
        if images.bias is None:
            value = tree.Binary("%*%", weights, images.planes)
            images = replace(images, value=value, channels=filters, by_channel=True)
            return images if bias is None else replace(images, value=tree.Binary("+", value, bias))
        joined: tree.Expression = tree.Binary("%*%", weights, images.bias)
        joined = joined if bias is None else tree.Binary("+", joined, bias)
        weights = self._assigned("weights", call("cbind", weights, joined))
        return replace(images, value=tree.Binary("%*%", weights, images.value), channels=filters, bias=None)

    def _biased(self, operand: tree.Expression, bias: tree.Expression) -> Images | None:
        """Images with a number added to each channel, after a convolution, or with one number for all."""
        if is_call(bias, "as.matrix"):
            return self._changed_numbers(operand, lambda images: call("bias_add", images, bias))
        if not isinstance(operand, tree.Call):  # nobody knows how many channels it takes
            return None
        if operand.function == "conv2d":
            return self._pointwise(operand, None if is_zero(bias) else bias)  # zeros only keep it from a fault
        is_product = operand.function == "t"
        images = self._of(operand) if is_product else self._tap_sum(operand)
        if images is None or is_zero(bias):
            return images
        if not is_product or self._target not in self._room or not isinstance(bias, tree.Name):
            return replace(images, value=tree.Binary("+", images.planes, bias), by_channel=True)
        assert isinstance(images.value, tree.Binary) and isinstance(images.value.left, tree.Name)
        self._wider.add(images.value.left.name)
        planes = reshaped(images.value, images.channels + 1, images.pixels * images.samples)
        return replace(images, value=planes, by_channel=True, bias=bias)

    def _note_taps(self, node: tree.Expression) -> None:
        """Remember images, weights and number of filters of a convolution of single pixels, with a bias of zeros."""
        if is_call(node, "bias_add") and is_zero(node.arguments[1].value):
            node = node.arguments[0].value
        if not is_call(node, "conv2d"):
            return
        convolution = convolution_of(node, self._integer_of)
        if convolution is None or not convolution.is_pointwise:
            return
        given, weights = (argument.value for argument in node.arguments[:2])
        images = self._known.get(given.name) if isinstance(given, tree.Name) else None
        samples, channels, height, width = convolution.images
        images = images or Images(transposed(given), samples, channels, height * width)
        if images.sizes == (samples, channels, height * width):
            self._convolved[self._target] = self._settled(images), weights, convolution.filters[0]

    def _tap_sum(self, node: tree.Call) -> Images | None:
        """The sum of what taps give, of all samples by one product."""
        found = tap_sum_of(node, self._integer_of)
        if found is None or found.shifts not in self._sums or found.taps not in self._convolved:
            return None
        images, weights, results = self._convolved[found.taps]
        taps = found.given // images.pixels
        if (found.samples, found.given, found.filters * taps) != (images.samples, taps * images.pixels, results):
            return None
        self._summed.add(found.shifts)
        by_tap = self._assigned("weights", weights_by_tap(found, weights, taps))
        value = summed_taps(found, images.planes, by_tap)
        return Images(value, found.samples, found.filters, found.pixels, by_channel=True)

    def _stacked(self, operands: Sequence[tree.Expression]) -> Images | None:
        """Channels of several images, one after the other."""
        parts = [images for operand in operands if (images := self._of(operand)) is not None]
        is_known = parts and len(parts) == len(operands)
        return stacked([self._settled(images) for images in parts]) if is_known else None

    def _same(self, node: tree.Call) -> Images | None:
        """``matrix`` of images, to a row for each sample, as they are."""
        images = self._of(node.arguments[0].value)
        if images is None or shape_of(node, self._integer_of) != (images.samples, images.channels * images.pixels):
            return None
        return images

    def _with_rows(self, node: tree.Expression) -> tree.Expression:
        """An expression that stays, but ``matrix`` of a convolution: of what that gives now, transposed back."""
        if not is_call(node, "matrix"):
            return node
        first = node.arguments[0].value
        images = self._of(first) if is_call(first, "bias_add", "conv2d") else None
        return node if images is None else with_first(node, transposed(self._settled(images).columns))
