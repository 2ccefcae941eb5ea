"""The results that a program trains: their losses, their targets, and the statements between both passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx_systemds.dml.names import Names
from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted, quoted_list
from onnx_systemds.importing.batch_statistics import obstacles
from onnx_systemds.importing.interface import Derivatives, Port, zeros_of
from onnx_systemds.importing.losses import Loss
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.values import dims_words
from onnx_systemds.model.ir import Model

_RANK = 2
"""Of results that have classes for each sample; with more dims for each of its places, such as words or pixels."""

_SAME = ("", "Identity"), ("", "Cast"), ("", "Reshape")
"""Operators that leave numbers as they are."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A result that is trained. name: in the functions of both passes. target: the file and variable of its target."""

    port: Port
    name: str
    loss: Loss
    target: str

    @property
    def classes(self) -> int:
        """The number of classes, 0 where targets are numbers."""
        count = self.port.dims[_class_axis(self.loss)] if self.loss.of_classes else 0
        return count if isinstance(count, int) else 0

    @property
    def of_places(self) -> bool:
        """Whether each place of a sample has a class of its own."""
        return self.loss.of_classes and len(self.port.dims) > _RANK

    @property
    def columns(self) -> int | None:
        """How many columns the target has, if they are known: classes may be numbers, or have a column each."""
        if self.classes and not self.of_places:
            return None
        others = [*self.port.dims]
        if self.of_places:
            del others[_class_axis(self.loss)]
        found: Dim = dim.product(others[1:])
        return found if isinstance(found, int) else None

    @property
    def target_words(self) -> str:
        """What the target is."""
        if self.of_places:
            return "a class number from 0 on for each place, or -100 for places that do not count"
        return self.loss.target or "class numbers from 0 on, or a column for each class"


@dataclass(frozen=True, slots=True)
class LossStatements:
    """The statements between both passes: of the loss, and of its derivatives by results.

    loss: its variable. count: of how many samples or places it is the mean.
    """

    forward: tuple[str, ...]
    backward: tuple[str, ...]
    loss: str
    count: str


def check_trainable(losses: Mapping[str, Loss], model: Model) -> None:
    """Raise InvalidModel where a loss does not take what comes after the operator that gives a result.

    Raises UnsupportedCase where batches have statistics that the program cannot keep.
    """
    graph = model.graph
    made_by = {name: node for node in graph.nodes for name in node.outputs}
    for result, loss in losses.items():
        for name in [result] if result else [output.name for output in graph.outputs]:
            node = made_by.get(name)
            while node is not None and node.identity in _SAME:
                node = made_by.get(node.inputs[0])
            if node is not None and not node.domain and node.op_type in loss.after:
                raise InvalidModel(f"{quoted(name)} comes after a {node.op_type}, {loss.name} takes {loss.of}")
    for norm, reason in obstacles(model):
        raise UnsupportedCase(
            f"node {quoted(norm.label)} (BatchNormalization) normalizes by batches, and nothing keeps its statistics: "
            f"{reason}", hint="export the model as one that infers, in PyTorch after model.eval()",
        )


def trained_results(derivatives: Derivatives, losses: Mapping[str, Loss], names: Names) -> list[Trained]:
    """The results that have losses. names: of what else there is. Raises InvalidModel, UnsupportedCase."""
    forward, found = derivatives.forward, []
    ports = [(name, port) for name, port in zip(forward.results, forward.outputs) if not port.is_of_passes]
    known = quoted_list(port.name for _, port in ports)
    for result, loss in losses.items():
        if not result and len(ports) > 1:
            raise InvalidModel(f"which result has the {loss.name}?", hint=f"write RESULT={loss.name}; there is {known}")
        if result and result not in (port.name for _, port in ports):
            raise InvalidModel(f"{quoted(result)} is no result that has derivatives", hint=f"there is {known}")
        name, port = next((name, port) for name, port in ports if result in ("", port.name))
        _check(port, loss, derivatives.forward.inputs[0])
        found.append(Trained(port, name, loss, names.fresh("target" if len(losses) == 1 else f"{name}_target")))
    return found


def weights_with_loss(derivatives: Derivatives, losses: Mapping[str, Loss]) -> list[str]:
    """The weights that are trained, of those that are derived by: results with losses depend on them."""
    every = [*derivatives.weights.values()]
    if "" in losses:  # that of the only result
        return every
    reached = set[str]().union(*(derivatives.behind.get(result, ()) for result in losses))
    return [name for name in every if name in reached]


def _check(port: Port, loss: Loss, samples: Port) -> None:
    dims, words = port.dims, f"{quoted(port.name)} has the dims {dims_words(port.dims)}"
    if not dims or dims[0] != samples.dims[0]:
        raise UnsupportedCase(f"a loss takes a row for each sample, {words}")
    if not loss.of_classes:
        return
    is_rank = len(dims) >= _RANK + loss.of_channels
    if not is_rank or not isinstance(dims[_class_axis(loss)], int) or dims[_class_axis(loss)] == 1:
        which = "second of three or more" if loss.of_channels else "last of two or more"
        hint = "" if loss.of_channels or len(dims) == _RANK else f"of channels it is {loss.name}2d"
        raise UnsupportedCase(f"{loss.name} takes dims of which the {which} are classes, {words}", hint=hint)


def _class_axis(loss: Loss) -> int:
    return 1 if loss.of_channels else -1


def loss_statements(derivatives: Derivatives, trained: Sequence[Trained], names: Names) -> LossStatements:
    """The loss of results, and its derivatives by them. Targets are parameters of their own names. names: others."""
    forward, backward = derivatives.forward, derivatives.backward
    loss, count = names.fresh("loss"), f"nrow({forward.parameters[0]})"
    seeds = dict(zip(forward.results, backward.parameters))
    statements: list[str] = []
    derived: list[str] = []
    losses: list[str] = []
    for each in trained:
        result, target, seed = each.name, each.target, seeds[each.name]
        if each.of_places:
            places, wanted, counting = (names.fresh(f"{hint}_of_places") for hint in (result, "classes", "count"))
            share, count = names.fresh("share"), f"sum({counting})"
            given = f"t({target})" if each.loss.of_channels else target
            statements += [
                f"{places} = {_rows_of_places(each)}",
                f"[{wanted}, {counting}] = class_rows_of_places({given}, {each.classes})",
                f"{share} = max(mean({counting}), 1e-300)",
            ]
            derivative = f"{each.loss.call('backward', places, wanted)} * ({counting} / {share})"
            derived.append(f"{seed} = {_as_result(each, derivative)}")
            losses.append(f"{each.loss.call('forward', places, wanted)} / {share}")
        else:
            if each.classes:
                wanted = names.fresh("classes")
                shape = f"rows=nrow({target}), cols={each.classes}"
                statements.append(f"{wanted} = matrix(class_rows({target}, {each.classes}), {shape})")
            else:
                wanted = target
            derived.append(f"{seed} = {each.loss.call('backward', result, wanted)}")
            losses.append(each.loss.call("forward", result, wanted))
    statements.append(f"{loss} = {' + '.join(losses)}")
    for each in trained:
        if each.loss.of_probabilities:
            outside = f"min({each.name}) < 0 | max({each.name}) > 1.000001"
            statements.append(f"if ({outside}) {{ {loss} = 0 / 0 }}  # no probabilities")
    derived += _without_loss(derivatives, {each.name for each in trained})
    return LossStatements(tuple(statements), tuple(derived), loss, count)


def _rows_of_places(each: Trained) -> str:
    """The result with a row for each place and a column for each class. Of channels, places are ahead of samples."""
    result, classes = each.name, each.classes
    planes = f"t(matrix({result}, rows=nrow({result}) * {classes}, cols=ncol({result}) / {classes}))"
    return f"matrix({planes if each.loss.of_channels else result}, rows=length({result}) / {classes}, cols={classes})"


def _as_result(each: Trained, rows: str) -> str:
    """What such rows are in the form of the result."""
    result, classes = each.name, each.classes
    planes = f"t(matrix({rows}, rows=ncol({result}) / {classes}, cols=nrow({result}) * {classes}))"
    return f"matrix({planes if each.loss.of_channels else rows}, rows=nrow({result}), cols=ncol({result}))"


def _without_loss(derivatives: Derivatives, trained: set[str]) -> Iterator[str]:
    """The statements that give derivatives by the results that no loss depends on."""
    forward, backward = derivatives.forward, derivatives.backward
    for seed, result, port in zip(backward.parameters, forward.results, forward.outputs):
        if not port.is_of_passes and result not in trained:
            yield f"{seed} = {zeros_of(result, port)}"
