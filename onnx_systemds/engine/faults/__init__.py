"""Known faults of the engine, SystemDS 3.4.0: what goes wrong, a script that shows it, and how to be safe from it.

Each fault has one entry in a module of its kind, and one function that generators use instead of the faulty form: of
`safe_forms`, of the library, or a pass, as the entry says. `tests/engine/test_faults.py` runs each reproducer of FAULTS
on the installed engine, `tests/scale/test_federated.py` those of FEDERATED, and `tests/scale/test_blocks.py` those of
SPARK: where it has become right, the entry and its workaround may go.
"""

from onnx_systemds.engine.faults.control_flow import CONTROL_FLOW
from onnx_systemds.engine.faults.fault import Fault
from onnx_systemds.engine.faults.federated import FEDERATED
from onnx_systemds.engine.faults.operations import OPERATIONS
from onnx_systemds.engine.faults.simplifications import SIMPLIFICATIONS
from onnx_systemds.engine.faults.sizes import SIZES
from onnx_systemds.engine.faults.spark import SPARK

FAULTS: tuple[Fault, ...] = (*CONTROL_FLOW, *SIZES, *SIMPLIFICATIONS, *OPERATIONS)

__all__ = ["FAULTS", "FEDERATED", "SPARK", "Fault"]
