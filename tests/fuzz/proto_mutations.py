"""Small changes of a protobuf message and of its bytes: what a faulty exporter or a damaged disk does to a model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, defs

INTEGERS = (0, 1, -1, 2, 3, 7, 100, 4096, 2**16, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "ai.onnx", "ai.onnx.ml", "com.microsoft", "a\nb", "stop()", "N*2", "-1", "0", "é", "\0", "n" * 300)
_NUMBERS = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT64)
_REALS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_LONGEST = 64  # elements of a field looked at one by one

Draw = random.Random


def mutated(model: ModelProto, draw: Draw) -> str:
    """Change ``model`` in one place; return what was done."""
    change = draw.choices(_CHANGES, _WEIGHTS)[0]
    return change(model, draw) or "nothing"


def mutated_bytes(data: bytes, draw: Draw) -> tuple[bytes, str]:
    """The bytes changed in one place, and what was done."""
    place = draw.randrange(len(data) + 1)
    kind = draw.choice(["flip", "flip", "set", "cut", "insert", "drop", "repeat"])
    end = min(len(data), place + draw.choice([1, 2, 8, 100]))
    if kind == "cut":
        data = data[:place]
    elif kind == "insert":
        data = data[:place] + draw.randbytes(end - place) + data[place:]
    elif kind == "drop":
        data = data[:place] + data[end:]
    elif kind == "repeat":
        data = data[:end] + data[place:]
    elif place < len(data):
        byte = draw.choice([0, 1, 0x7F, 0x80, 0xFF]) if kind == "set" else data[place] ^ 1 << draw.randrange(8)
        data = data[:place] + bytes([byte]) + data[place + 1 :]
    return data, f"{kind} at byte {place}"


def messages(message: Any, depth: int = 0) -> Iterator[Any]:
    """The message and all those in it."""
    yield message
    if depth > 40:
        return
    for field, content in message.ListFields():
        if field.message_type is not None:
            for part in content if field.is_repeated else (content,):
                yield from messages(part, depth + 1)


def _by_type(model: ModelProto) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for message in messages(model):
        found.setdefault(message.DESCRIPTOR.name, []).append(message)
    return found


def _any_field(model: ModelProto, draw: Draw) -> str:
    """Any field of any message: each type of message is as likely as the others."""
    parts = _by_type(model)
    message = draw.choice(parts[draw.choice(sorted(parts))])
    present = [field for field, _ in message.ListFields()]
    field = draw.choice(present) if present and draw.random() < 0.85 else draw.choice(message.DESCRIPTOR.fields)
    done = _change_repeated(message, field, model, draw) if field.is_repeated else _change_single(message, field, model, draw)
    return f"{message.DESCRIPTOR.name}.{field.name}: {done}"


def _change_single(message: Any, field: FieldDescriptor, model: ModelProto, draw: Draw) -> str:
    if draw.random() < 0.2:
        message.ClearField(field.name)
        return "cleared"
    if field.message_type is not None:
        getattr(message, field.name).CopyFrom(_another(field.message_type.name, model, draw, field))
        return "another one"
    value = _value(field, getattr(message, field.name), model, draw)
    setattr(message, field.name, value)
    return f"set to {value!r:.40}"


def _change_repeated(message: Any, field: FieldDescriptor, model: ModelProto, draw: Draw) -> str:
    items = getattr(message, field.name)
    count = len(items)
    kind = draw.choice(["drop", "repeat", "add", "change", "swap", "clear"]) if count else "add"
    place = draw.randrange(count) if count else 0
    if kind == "drop":
        del items[place]
    elif kind == "clear":
        message.ClearField(field.name)
    elif kind == "swap" and count < _LONGEST:
        order = list(range(count))
        draw.shuffle(order)
        copies = [_copy(items[position]) for position in order]
        del items[:]
        items.extend(copies)
    elif kind == "repeat":
        items.extend([_copy(items[place])] * draw.choice([1, 1, 2, 50]))
    elif kind == "add" and field.message_type is not None:
        items.append(_another(field.message_type.name, model, draw, field))
    elif field.message_type is not None:
        items[place].CopyFrom(_another(field.message_type.name, model, draw, field))
    else:
        value = _value(field, items[place] if count else None, model, draw)
        if kind == "add" or not count:
            items.append(value)
        else:
            items[place] = value
        return f"{kind} {value!r:.40}"
    return f"{kind} {place}"


def _copy(item: Any) -> Any:
    if not hasattr(item, "CopyFrom"):
        return item
    copy = type(item)()
    copy.CopyFrom(item)
    return copy


def _another(name: str, model: ModelProto, draw: Draw, field: FieldDescriptor) -> Any:
    """A copy of a message of this type somewhere in the model, an empty one where there is none."""
    found = _by_type(model).get(name)
    if found:
        return _copy(draw.choice(found))
    return field.message_type._concrete_class()


def _value(field: FieldDescriptor, old: Any, model: ModelProto, draw: Draw) -> Any:
    """Another value of a field that is no message."""
    if field.enum_type is not None:
        return draw.choice([*field.enum_type.values_by_number])
    if field.cpp_type in _NUMBERS:
        choices = [*INTEGERS]
        if isinstance(old, int):
            choices += [old + 1, old - 1, old * 2, -old] * 2
        value = draw.choice(choices)
        low, high = {FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
                     FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1)}.get(field.cpp_type, (-(2**63), 2**63 - 1))
        return min(max(value, low), high)
    if field.cpp_type in _REALS:
        return draw.choice(FLOATS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        data = old if isinstance(old, bytes) else b""
        return draw.choice([b"", data[:-1], data + b"\0", data * 2, draw.randbytes(max(1, len(data[:100]))), b"\xff\xfe"])
    names = sorted({name for node in _nodes(model) for name in (*node.input, *node.output)})
    return draw.choice([*TEXTS, *names[:_LONGEST], *names[:_LONGEST]])


def _nodes(model: ModelProto) -> list[Any]:
    return [message for message in messages(model) if isinstance(message, NodeProto)]


def _rewire(model: ModelProto, draw: Draw) -> str:
    """An input of a node becomes another value: a later one, its own output, one of another graph, none."""
    nodes = [node for node in _nodes(model) if node.input]
    if not nodes:
        return ""
    node = draw.choice(nodes)
    names = ["", *(name for other in _nodes(model) for name in (*other.input, *other.output))]
    place = draw.randrange(len(node.input))
    node.input[place] = draw.choice(names)
    return f"input {place} of {node.op_type} becomes {node.input[place]!r:.40}"


def _other_operator(model: ModelProto, draw: Draw) -> str:
    nodes = _nodes(model)
    if not nodes:
        return ""
    node = draw.choice(nodes)
    schema = draw.choice(_SCHEMAS)
    old, node.op_type = node.op_type, schema.name
    node.domain = schema.domain
    return f"{old} becomes {schema.name}"


def _inputs_of_node(model: ModelProto, draw: Draw) -> str:
    """A node gets more or fewer inputs or outputs."""
    nodes = _nodes(model)
    if not nodes:
        return ""
    node = draw.choice(nodes)
    field = node.input if draw.random() < 0.7 else node.output
    if field and draw.random() < 0.5:
        del field[draw.randrange(len(field)) :]
        return f"{node.op_type} loses inputs or outputs"
    names = ["", *(name for other in nodes for name in other.input)]
    field.extend(draw.choice(names) for _ in range(draw.choice([1, 2, 30])))
    return f"{node.op_type} gets more inputs or outputs"


def _attribute(model: ModelProto, draw: Draw) -> str:
    """An attribute that the operator knows is set to something, of the right type or another."""
    nodes = _nodes(model)
    if not nodes:
        return ""
    node = draw.choice(nodes)
    known = [schema for schema in _SCHEMAS if schema.name == node.op_type and schema.attributes]
    if not known:
        return ""
    name = draw.choice(sorted(known[0].attributes))
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    attribute = AttributeProto(name=name, type=draw.choice([1, 2, 3, 6, 7, 8]))
    if draw.random() < 0.7 and known[0].attributes[name].type.value in (1, 2, 3, 6, 7, 8):
        attribute.type = known[0].attributes[name].type.value
    count = draw.choice([0, 1, 2, 2, 3, 4, 4, 100])
    attribute.i, attribute.f = draw.choice(INTEGERS), draw.choice(FLOATS)
    attribute.s = draw.choice([*TEXTS, "SAME_UPPER", "linear", "constant", "min", "Relu"]).encode()
    attribute.ints.extend(draw.choice((0, 1, 1, 2, 3, -1, 2**31, 2**63 - 1)) for _ in range(count))
    attribute.floats.extend(draw.choice(FLOATS) for _ in range(count))
    attribute.strings.extend(draw.choice(TEXTS).encode() for _ in range(count))
    node.attribute.append(attribute)
    return f"attribute {name} of {node.op_type}, type {attribute.type}, {count} elements"


def _graft(model: ModelProto, draw: Draw) -> str:
    """A sub-graph, or the whole graph, becomes the body of a node."""
    nodes = _nodes(model)
    if not nodes:
        return ""
    graphs = [message for message in messages(model) if isinstance(message, GraphProto)]
    body = _copy(draw.choice(graphs))
    node = draw.choice(nodes)
    node.attribute.append(AttributeProto(
        name=draw.choice(["body", "then_branch", "else_branch"]), type=AttributeProto.GRAPH, g=body
    ))
    if draw.random() < 0.7:
        node.op_type, node.domain = draw.choice(["If", "Loop", "Scan", "SequenceMap"]), ""
    return f"a graph becomes a body of {node.op_type}"


def _declared(model: ModelProto, draw: Draw) -> str:
    """The declared type of an input: other dims, another element type."""
    infos = [info for info in (*model.graph.input, *model.graph.output) if info.type.HasField("tensor_type")]
    if not infos:
        return ""
    type_ = draw.choice(infos).type.tensor_type
    if draw.random() < 0.3:
        type_.elem_type = draw.randrange(26)
        return f"declared type {type_.elem_type}"
    if type_.shape.dim and draw.random() < 0.7:
        dim = draw.choice(type_.shape.dim)
    else:
        dim = type_.shape.dim.add()
    if draw.random() < 0.4:
        dim.dim_param = draw.choice(["N", "M", "N + 1", "batch size", "2*N", "", "nrow"])
        return f"declared dim {dim.dim_param!r}"
    dim.dim_value = draw.choice([0, 0, 1, 2, 5, 1000, 2**20, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -1, -2])
    return f"declared dim {dim.dim_value}"


def _opset(model: ModelProto, draw: Draw) -> str:
    if not model.opset_import:
        return ""
    entry = draw.choice(model.opset_import)
    entry.version = draw.choice([*range(29), -1, 2**31, 2**63 - 1])
    return f"opset {entry.version} of {entry.domain!r:.40}"


def _constant_becomes_input(model: ModelProto, draw: Draw) -> str:
    """What was a constant is only known when the model runs, or the other way round."""
    if not model.graph.initializer:
        return ""
    tensor = model.graph.initializer.pop(draw.randrange(len(model.graph.initializer)))
    info = model.graph.input.add(name=tensor.name)
    info.type.tensor_type.elem_type = tensor.data_type
    for size in tensor.dims:
        info.type.tensor_type.shape.dim.add(dim_value=size)
    return f"initializer {tensor.name!r:.40} becomes an input"


_SCHEMAS = sorted(
    {(schema.domain, schema.name): schema for schema in defs.get_all_schemas()}.values(),
    key=lambda schema: (schema.domain, schema.name),
)
_Change = Callable[[ModelProto, Draw], str]
_WEIGHTED: dict[_Change, float] = {
    _any_field: 10, _rewire: 3, _other_operator: 2, _inputs_of_node: 2, _attribute: 5, _graft: 0.5, _declared: 4, _opset: 2,
    _constant_becomes_input: 2,
}
_CHANGES, _WEIGHTS = list(_WEIGHTED), list(_WEIGHTED.values())
