"""Which axis of a model is its batch: one whose parts can be scored apart and put together again.

A size that only the run knows is a symbol in the dims, so the dims say where the axis is in every value. A model is
computed part by part if each value that the axis reaches has it in exactly one dim, and if no node mixes elements
along it. A node that sums or selects along it loses it; of the others, only operators listed here are trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from onnx_systemds.errors import TranspileError
from onnx_systemds.inference.dims import Dim, Dims, Operation, divide_exactly, lone_symbol, product, symbol, symbols
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import MapType, Node
from onnx_systemds.model.walk import names_read, reverse_order
from onnx_systemds.operators.onnx.joining import concat_axis
from onnx_systemds.operators.onnx.padding import pad_amounts
from onnx_systemds.operators.onnx.slicing import slice_ranges

MOST_SYMBOLS = 4  # that are tried; batches come first in the inputs
MANY = -1  # for an axis: it is none of its own
LARGEST = 10**9
"""Samples that are ever scored at once: exporters slice up to such a number to say that they slice to the end."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The axis called ``symbol`` in each input and output; None where one has no such axis and is the same for all."""

    symbol: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


Mixes = Callable[[NodeFacts, int, int], bool]
"""Whether a node mixes elements, or counts them, along an axis of an input (both by position)."""


def find_batch(typed: TypedGraph) -> Batch | None:
    """The batch axis of a graph of tensors of numbers, None where there is none."""
    ports = [typed.values[name] for name in (*typed.inputs, *typed.outputs)]
    if any(port.is_list or port.is_text or port.keys or isinstance(port.type, MapType) for port in ports):
        return None
    found: dict[str, None] = {}
    for name in typed.inputs:
        for dim in typed.values[name].dims or ():
            if (lone := lone_symbol(dim)) is not None:
                found.setdefault(lone)
    for candidate in list(found)[:MOST_SYMBOLS]:
        batch = _batch_of(typed, candidate)
        if batch is not None:
            return batch
    return None


def _batch_of(typed: TypedGraph, name: str) -> Batch | None:
    search = _Search(typed, name)
    inputs = [search.axis(given) for given in typed.inputs]
    outputs = [search.axis(given) for given in typed.outputs]
    whole = symbol(name)
    for given, axis in zip(typed.inputs, inputs):
        dims = typed.values[given].dims
        if axis == MANY or (axis is not None and dims is not None and dims[axis] != whole):
            return None
    if MANY in outputs or all(axis is None for axis in outputs) or any(map(search.tells_size, typed.outputs)):
        return None
    needed = {*typed.outputs, *typed.run_sizes.sources}
    for position in reverse_order(typed.nodes):
        node = typed.nodes[position]
        wanted = [output for output in node.outputs if output in needed and not _is_known(typed.values[output])]
        if wanted:
            if not search.keeps_apart(node, wanted):
                return None
            needed |= names_read(node)
    return Batch(name, tuple(inputs), tuple(outputs))


def _is_known(value: Value) -> bool:
    """Whether the script writes a value down as numbers and sizes, whatever node gives it."""
    return value.constant is not None or value.elements is not None


class _Search:
    """The values of a graph, seen from one symbol."""

    def __init__(self, typed: TypedGraph, name: str) -> None:
        self.typed, self.values, self.symbol = typed, typed.values, symbol(name)
        self.names = {name}  # and all sizes that are computed from it
        for computed, call in typed.run_sizes.calls.items():
            if self._counts(call.arguments):
                self.names.add(computed)

    def _counts(self, sizes: Iterable[Dim]) -> bool:
        return not self.names.isdisjoint(symbols(sizes))

    def axis(self, value: str) -> int | None:
        """The only axis of a value whose size tells of the symbol, None where there is none, else `MANY`."""
        dims = self.values[value].dims
        if dims is None or self.values[value].is_text:
            return MANY
        having = [axis for axis, size in enumerate(dims) if self._counts((size,))]
        return None if not having else having[0] if len(having) == 1 else MANY

    def tells_size(self, value: str) -> bool:
        """Whether the elements of a value are computed from the number of samples."""
        elements = self.values[value].elements
        return elements is not None and self._counts(elements.ravel().tolist())

    def size(self, value: str) -> Dim | None:
        """The size of that axis."""
        axis, dims = self.axis(value), self.values[value].dims
        return None if axis is None or axis == MANY or dims is None else _unlimited(dims[axis])

    def keeps_apart(self, node: Node, outputs: Sequence[str]) -> bool:
        """Whether parts of the axis can be given to a node one by one."""
        facts, mixes = NodeFacts(node, self.values, self.typed.name), RULES.get(node.identity)
        facts.run_sizes = self.typed.run_sizes
        batched: list[str] = []
        for read in names_read(node):
            axis = self.axis(read)
            if self.values[read].constant is not None:
                continue
            positions = [position for position, given in enumerate(node.inputs) if given == read]
            if self.tells_size(read):
                if any((node.op_type, position) not in _SIZES for position in positions) or not positions:
                    return False
            elif axis is not None:
                if mixes is None or axis == MANY or not positions:
                    return False
                try:
                    if any(mixes(facts, position, axis) for position in positions):
                        return False
                except TranspileError:  # what decides it is known when the model runs only
                    return False
                batched.append(read)
        if node.op_type in _RANDOM:
            return False
        return all(self._carries_on(node, batched, output) for output in outputs)

    def _carries_on(self, node: Node, batched: Sequence[str], output: str) -> bool:
        """Whether an output has the axis if the inputs have it, and its parts in their order."""
        axis, size = self.axis(output), self.size(output)
        if not batched:
            return axis is None or (size == self.symbol and node.op_type in _FILLS)
        if axis is None or axis == MANY:
            return False
        if node.op_type not in _RESHAPES:
            return all(self.size(given) == size for given in batched)
        before, after = self.values[node.inputs[0]].dims, self.values[output].dims
        old = self.axis(node.inputs[0])
        assert before is not None and after is not None and old is not None and size is not None
        in_front = product(before[:old]) == product(after[:axis])  # they are free of the symbol
        return in_front and divide_exactly(size, self.symbol) is not None


def _unlimited(size: Dim) -> Dim:
    """A size without a minimum that it never reaches."""
    if isinstance(size, int) or len(size.terms) != 1:
        return size
    ((atoms, coefficient),) = size.terms
    if coefficient != 1 or len(atoms) != 1 or not isinstance(atoms[0], Operation) or atoms[0].operator != "min":
        return size
    limits = (atoms[0].left, atoms[0].right)
    rest = [limit for limit in limits if not (isinstance(limit, int) and limit >= LARGEST)]
    return rest[0] if len(rest) == 1 else size


# --- what nodes do along an axis -------------------------------------------------------------------------------


def _nothing(node: NodeFacts, position: int, axis: int) -> bool:
    """Elementwise and broadcasting; or whatever would be mixed is gone from the dims."""
    return False


def _aligned(node: NodeFacts, position: int, axis: int) -> bool:
    """Where inputs are broadcast, all of them have the axis at the same place, or do not have it."""
    dims = node.dims(position)
    size, from_right = _unlimited(dims[axis]), len(dims) - axis
    given = [other for other in range(node.input_count) if other != position and node.has(other)]
    at = [_from_right(node.dims(other), from_right) for other in given]
    return _at_output(node, from_right) != size or any(other not in (1, size) for other in at)


def _from_right(dims: Dims, place: int) -> Dim:
    return _unlimited(dims[len(dims) - place]) if place <= len(dims) else 1


def _at_output(node: NodeFacts, place: int) -> Dim:
    return _from_right(node.values[next(filter(None, node.node.outputs))].dims or (), place)


def _product(node: NodeFacts, position: int, axis: int) -> bool:
    """Rows of the left and columns of the right matrix; axes before them are broadcast."""
    factors = (0, 3) if node.node.op_type == "QLinearMatMul" else (0, 1)
    if position not in factors or node.attribute("transBatchA") or node.attribute("transBatchB"):
        return True
    size, from_right = _unlimited(node.dims(position)[axis]), node.rank(position) - axis
    if from_right <= 2:
        return from_right != (2 if position == 0 else 1) or _at_output(node, from_right) != size
    other = _from_right(node.dims(factors[position == 0]), from_right)
    return other not in (1, size) or _at_output(node, from_right) != size


def _gemm(node: NodeFacts, position: int, axis: int) -> bool:
    size, place = _unlimited(node.dims(position)[axis]), {0: 2, 1: 1}.get(position, node.rank(position) - axis)
    added = _from_right(node.dims(2), place) if node.has(2) else 1
    return _at_output(node, place) != size or added not in (1, size)


def _quantized(node: NodeFacts, position: int, axis: int) -> bool:
    """Scales for each place along the axis tell how long it is."""
    given = node.attribute("axis")  # none in opset 10, where it is 1: see `scaled_operands`
    if position != 0 or node.rank(1) > 1:
        return True
    return product(node.dims(1)) != 1 and axis == node.normalize_axis(1 if given is None else int(given), node.rank(0))


def _all_but_first(node: NodeFacts, position: int, axis: int) -> bool:
    """Rows are samples."""
    return position != 0 or axis != 0 or node.rank(0) < 2


def _at_axis(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0 or axis == node.axis()


def _from_axis(node: NodeFacts, position: int, axis: int) -> bool:
    """All from an axis on; what they are scaled by has no others."""
    is_longer = any(node.has(other) and node.rank(other) > node.rank(0) - node.axis() for other in (1, 2))
    return position != 0 or axis >= node.axis() or is_longer


def _softmax(node: NodeFacts, position: int, axis: int) -> bool:
    return _at_axis(node, position, axis) if node.version >= 13 else _from_axis(node, position, axis)


def _last_two(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0 or axis >= node.rank(0) - 2


def _concat(node: NodeFacts, position: int, axis: int) -> bool:
    sizes = {_unlimited(node.dims(other)[axis]) for other in range(node.input_count)}
    return axis == concat_axis(node) or len(sizes) > 1


def _input_axis(node: NodeFacts, position: int, axis: int) -> bool:
    """The axis is an input of its own."""
    given = int(node.require_constant(1, "the axis").item())
    return position != 0 or axis == node.normalize_axis(given, node.rank(0))


def _batch_normalization(node: NodeFacts, position: int, axis: int) -> bool:
    trains = node.has_output(1) or bool(node.attribute("training_mode"))
    return trains or (node.version < 7 and not node.attribute("is_test")) or _all_but_first(node, position, axis)


def _dropout(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0 or node.has(2) or (node.version < 7 and not node.attribute("is_test"))


def _pool(node: NodeFacts, position: int, axis: int) -> bool:
    """Indices of maxima count the elements of all samples."""
    return node.has_output(1) or _all_but_first(node, position, axis)


def _slice(node: NodeFacts, position: int, axis: int) -> bool:
    """A slice from the first to the last element is none."""
    size = node.dims(0)[axis]
    taken = [(start, _unlimited(count), step) for sliced, start, count, step in slice_ranges(node) if sliced == axis]
    return position != 0 or any(part != (0, _unlimited(size), 1) for part in taken)


def _pad(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0 or pad_amounts(node)[axis] != (0, 0)


def _resize(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0 or node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"


def _expand(node: NodeFacts, position: int, axis: int) -> bool:
    place = node.rank(0) - axis
    return position != 0 or _at_output(node, place) != _unlimited(node.dims(0)[axis])


def _first_only(node: NodeFacts, position: int, axis: int) -> bool:
    return position != 0


def _gather(node: NodeFacts, position: int, axis: int) -> bool:
    return position == 0 and axis == node.axis()


def _recurrent(node: NodeFacts, position: int, axis: int) -> bool:
    """X [steps, batch, features], lengths of sequences, initial states [directions, batch, units]; or batch first."""
    batch, size = 0 if node.attribute("layout") else 1, node.dims(position)[axis]
    alike = [(0, batch), (4, 0), (5, batch), (6, batch)]
    return (position, axis) not in alike or any(
        node.dims(other)[its] != size for other, its in alike if node.has(other)
    )


_ELEMENTWISE = """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu
Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"""
_LOSING = """ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
ReduceSum ReduceSumSquare Squeeze Transpose Unsqueeze"""
_SAMPLES = """Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool
GroupNormalization InstanceNormalization LRN LpPool QLinearConv SpaceToDepth"""
_SAMPLES_ML = """Binarizer Imputer LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor
Scaler TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"""
_CONTRIB = "QLinearAdd QLinearLeakyRelu QLinearMul QLinearSigmoid QuickGelu"
RULES: dict[tuple[str, str], Mixes] = {
    **{("", op): _aligned for op in _ELEMENTWISE.split()},
    **{("", op): _nothing for op in _LOSING.split()},
    **{("", op): _all_but_first for op in _SAMPLES.split()},
    **{("ai.onnx.ml", op): _all_but_first for op in _SAMPLES_ML.split()},
    **{("com.microsoft", op): _aligned for op in _CONTRIB.split()},
    ("com.microsoft", "FusedMatMul"): _product,
    ("com.microsoft", "QLinearAveragePool"): _all_but_first,
    ("com.microsoft", "QLinearGlobalAveragePool"): _all_but_first,
    ("", "AveragePool"): _all_but_first,
    ("", "BatchNormalization"): _batch_normalization,
    ("", "Concat"): _concat,
    ("", "CumSum"): _input_axis,
    ("", "DequantizeLinear"): _quantized,
    ("", "Dropout"): _dropout,
    ("", "Expand"): _expand,
    ("", "Flatten"): _first_only,
    ("", "GRU"): _recurrent,
    ("", "Gather"): _gather,
    ("", "Gemm"): _gemm,
    ("", "Hardmax"): _softmax,
    ("", "LSTM"): _recurrent,
    ("", "LayerNormalization"): _from_axis,
    ("", "LogSoftmax"): _softmax,
    ("", "LpNormalization"): _at_axis,
    ("", "MatMul"): _product,
    ("", "MatMulInteger"): _product,
    ("", "MaxPool"): _pool,
    ("", "Pad"): _pad,
    ("", "QLinearMatMul"): _product,
    ("", "QuantizeLinear"): _quantized,
    ("", "RMSNormalization"): _from_axis,
    ("", "RNN"): _recurrent,
    ("", "Reshape"): _first_only,
    ("", "Resize"): _resize,
    ("", "SimplifiedLayerNormalization"): _from_axis,
    ("", "Slice"): _slice,
    ("", "Softmax"): _softmax,
    ("", "Split"): _at_axis,
    ("", "TopK"): _at_axis,
    ("", "Trilu"): _last_two,
    ("", "Upsample"): _first_only,
}
_RESHAPES = ("Reshape", "Flatten")
_FILLS = ("ConstantOfShape", "Expand")  # give the same all along an axis that no input has
_SIZES = {("ConstantOfShape", 0), ("Expand", 1), ("Reshape", 1), ("Resize", 3), ("Slice", 1), ("Slice", 2)}
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
