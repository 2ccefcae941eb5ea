"""Calls of prepared scripts in a single round trip: a Java class that the engine's own compiler, Janino, makes.

A call takes some ten round trips else, two for each input and three to six for each output, of some 60 microseconds
each; for small models that is as long as the script runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NAME = "OnnxSystemdsCaller"
# Janino knows neither generics nor lambdas to the full.
SOURCE = """
import java.nio.DoubleBuffer;
import org.apache.sysds.api.DMLException;
import org.apache.sysds.api.jmlc.PreparedScript;
import org.apache.sysds.api.jmlc.ResultVariables;
import org.apache.sysds.runtime.matrix.data.MatrixBlock;
import org.apache.sysds.runtime.util.DataConverter;

public class OnnxSystemdsCaller {
  private PreparedScript script;
  private String[] inputs;
  private String[] outputs;
  private ResultVariables results;

  public void serve(PreparedScript script, String[] inputs, String[] outputs) {
    this.script = script;
    this.inputs = inputs;
    this.outputs = outputs;
  }

  /** Of the last call. */
  public ResultVariables results() {
    return results;
  }

  /** Rows and columns of all outputs; those that are no matrix, or find no room, have none. */
  public String call(DoubleBuffer shared, String sizes) throws Exception {
    String[] given = sizes.split(" ");
    int place = 0;
    for (int i = 0; i < inputs.length; i++) {
      int rows = Integer.parseInt(given[2 * i]);
      int cols = Integer.parseInt(given[2 * i + 1]);
      double[] cells = new double[rows * cols];
      shared.get(place, cells, 0, cells.length);
      place += cells.length;
      MatrixBlock block = new MatrixBlock(rows, cols, cells);
      block.recomputeNonZeros();
      block.examSparsity();
      script.setMatrix(inputs[i], block, false);
    }
    results = null;
    results = script.executeScript();
    StringBuilder found = new StringBuilder();
    place = 0;
    for (int i = 0; i < outputs.length; i++) {
      MatrixBlock block = null;
      try {
        block = results.getMatrixBlock(outputs[i]);
      } catch (DMLException other) {
        // a number or a frame
      }
      long size = block == null ? -1 : (long) block.getNumRows() * block.getNumColumns();
      if (size < 0 || place + size > shared.capacity()) {
        found.append("- - ");
        continue;
      }
      if (size > 0) {
        double[] cells = block.isInSparseFormat() ? null : block.getDenseBlockValues();
        cells = cells == null ? DataConverter.convertToDoubleVector(block) : cells;
        shared.put(place, cells, 0, (int) size);
        place += (int) size;
      }
      found.append(block.getNumRows()).append(' ').append(block.getNumColumns()).append(' ');
    }
    return found.toString();
  }
}
"""


def caller_class(jvm: Any) -> Any:
    """The class, compiled in the JVM. Raises what py4j does where the engine comes without its compiler."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE)
    return compiler.getClassLoader().loadClass(NAME)


def sizes_of(answer: str) -> Sequence[tuple[int, int] | None]:
    """Rows and columns of the outputs by the answer to a call."""
    words = answer.split()
    return [None if rows == "-" else (int(rows), int(cols)) for rows, cols in zip(words[::2], words[1::2])]
