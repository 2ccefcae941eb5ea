"""Calls of functions for attention in scripts for open sizes; see `specialise` for those of known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.importing.passes.attention import attention_called
from onnx_systemds.importing.passes.call_guards import is_guard, with_guards
from onnx_systemds.importing.passes.specialisation.specialise import symbolic_sizes
from onnx_systemds.importing.script import Script, with_main


def with_attention(script: Script) -> Script:
    """The script whose main function calls functions for attention; the same object where there is none."""
    main, functions = attention_called(script.main, script.callees, symbolic_sizes(script), is_sized=False)
    if not functions:
        return script
    library = {it.name: it for it in script.library} | functions
    called = _called(script, library, replace(main, body=tuple(it for it in main.body if not is_guard(it))))
    changed = with_main(script, with_guards(main, called))
    return replace(changed, library=tuple(library[name] for name in sorted(library.keys() & called)))


def _called(script: Script, library: Mapping[str, tree.Function], main: tree.Function) -> dict[str, tree.Function]:
    """The functions that the main one calls, directly or not, by name."""
    others = {it.name: it for it in script.functions if it is not script.main}
    return callees({**library, **others}, [main])
