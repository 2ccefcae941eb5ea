"""Calls of functions for attention in scripts for open sizes; see `specialise` for those of known ones."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.passes.attention import attention_called
from onnx_systemds.importing.passes.specialisation.specialise import example_sizes
from onnx_systemds.importing.passes.specialisation.trees import called_functions
from onnx_systemds.importing.script import Script, with_main


def with_attention(script: Script) -> Script:
    """The script whose main function calls functions for attention; the same object where there is none."""
    others = {name: it for name, it in script.callable_functions.items() if name != script.function}
    main, functions = attention_called(script.main, others, example_sizes(script), is_sized=False)
    if not functions:
        return script
    library = {it.name: it for it in script.library} | functions
    changed = with_main(script, main)
    called = {it.name for it in called_functions(tree.Script((*library.values(), *changed.functions)), [main])}
    return replace(changed, library=tuple(library[name] for name in sorted(library.keys() & called)))
