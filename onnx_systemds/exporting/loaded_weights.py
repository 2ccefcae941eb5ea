"""Weights of scripts that were converted from ONNX: what their init function makes of the list in the folder.

``gen_<graph>_init()`` reads the list, and adds to it what depends on weights and sizes alone. The other functions of
the script take the longer list, and the folder has the shorter one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import assigns_variable, is_call
from onnx_systemds.errors import shown_path
from onnx_systemds.operators.api.reserved_names import WEIGHTS


def with_loaded_weights(script: tree.Script, name: str, bindings: Mapping[str, Any]) -> tree.Script:
    """The script, whose function of this name makes of a list that is bound to its weights what the init function does.

    It has no init function then, whose file there need not be. The same script where the function takes no weights.
    """
    function, init = script.functions.get(name), _init(script)
    if function is None or init is None or all(each.name != WEIGHTS for each in function.parameters):
        return script
    others = [item for item in script.items if item is not init]
    bound, added = bindings.get(WEIGHTS), _added(init)
    if not isinstance(bound, Mapping) or not added.difference(bound):
        return replace(script, items=tuple(others))
    place, read = next((place, each) for place, each in enumerate(init.body) if _reads_list(each))
    adding = replace(
        init, name=Names(script.functions).fresh(f"{init.name}_of"), body=(*init.body[:place], *init.body[place + 1:]),
        parameters=(replace(init.results[0], position=init.position),),
    )
    value = replace(call(adding.name, tree.Name(WEIGHTS)), position=read.position)
    loaded = tree.Assign(tree.Name(WEIGHTS), value, position=read.position)
    changed = replace(function, body=(loaded, *function.body))
    return replace(script, items=(*(changed if item is function else item for item in others), adding))


def shown_folder(script: tree.Script) -> str:
    """The path of the folder of weights beside a script that was converted from ONNX, "" where there is none."""
    folder = Path(script.file).with_suffix(".weights")
    return shown_path(folder) if folder.is_dir() else ""


def _init(script: tree.Script) -> tree.Function | None:
    """The function of a script that reads its weights."""
    return next((each for each in script.functions.values() if each.name.endswith("_init") and not each.parameters
                 and [result.name for result in each.results] == [WEIGHTS] and any(map(_reads_list, each.body))), None)


def _reads_list(statement: tree.Statement) -> bool:
    return assigns_variable(statement) and statement.target.name == WEIGHTS and is_call(statement.value, "read")


def _added(init: tree.Function) -> set[str]:
    """The names under which a function adds items to the list of weights."""
    additions = (it.value for it in init.body if assigns_variable(it) and it.target.name == WEIGHTS)
    return {item.name for addition in additions if is_call(addition, "rbind")
            for items in addition.arguments if is_call(items.value, "list")
            for item in items.value.arguments if item.name is not None}
