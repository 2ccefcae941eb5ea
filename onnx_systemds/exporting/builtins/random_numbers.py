"""Random numbers: those of a seed are constants of the model, or drawn by it on request; all others are refused."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.engine_random import COUNTED, seeded_matrix, seeded_sample
from onnx_systemds.exporting.builtins.registry import known_content
from onnx_systemds.exporting.values import BOOLEAN
from onnx_systemds.inference.dims import Dim, Dims

_UNSEEDED = -1
_MOST_DRAWN = 1 << 22
"""Numbers from which a sample without repetition is drawn: a draw for each of them."""


@builtin("rand", "Rand")
def rand(
    ctx: Context, rows: Dim = 1, cols: Dim = 1, min: float = 0.0, max: float = 1.0,
    pdf: str = "uniform", sparsity: float = 1.0, seed: int = _UNSEEDED,
) -> Value:
    """The random numbers that the engine draws for this seed. Without a seed only matrices that are not random.

    Where only the run knows the size, `--random` lets the model draw others, of the same distribution.
    """
    pdf = pdf.lower()
    if pdf == "uniform" and (sparsity == 0.0 or (min == max and sparsity == 1.0)):
        return ctx.matrix(ctx.g.filled(min if sparsity else 0.0, (rows, cols)))
    if seed == _UNSEEDED:
        raise UnsupportedCase("the engine draws new random numbers in every run",
                              hint="give a seed, or bind the matrix to values")
    if pdf not in ("uniform", "normal", *COUNTED):
        raise UnsupportedCase(f"random numbers of the distribution {pdf}", hint="bind the matrix to values")
    if not 0.0 <= sparsity <= 1.0:
        raise UnsupportedCase(f"a sparsity of {sparsity:g}")
    if not isinstance(rows, int) or not isinstance(cols, int):
        if pdf in COUNTED or not ctx.random:
            advice = "" if pdf in COUNTED else ", or let the model draw numbers of its own: --random"
            raise UnsupportedCase(f"random numbers in {rows} x {cols}: the size must be known",
                                  hint=f"give it as numbers{advice}")
        return ctx.matrix(_drawn(ctx, (rows, cols), (min, max), pdf, sparsity, seed))
    ctx.g.reserve(rows * cols)
    return ctx.matrix(ctx.g.constant(seeded_matrix(rows, cols, min, max, pdf, sparsity, seed), FLOAT))


def _drawn(
    ctx: Context, dims: Dims, limits: tuple[float, float], pdf: str, sparsity: float, seed: int
) -> Tensor:
    """Return numbers that the model draws when it runs, 0 but for a share of `sparsity`."""
    like = ctx.g.filled(0.0, dims)
    drawn = ctx.g.number(limits[0])
    if pdf == "uniform" and limits[0] < limits[1]:
        drawn = ctx.g.node("RandomUniformLike", [like], dims, low=limits[0], high=limits[1], seed=float(seed))
    elif pdf == "normal":
        drawn = ctx.g.node("RandomNormalLike", [like], dims, mean=0.0, scale=1.0, seed=float(seed))
    if sparsity == 1.0:
        return drawn
    shares = ctx.g.node("RandomUniformLike", [like], dims, low=0.0, high=1.0, seed=float(seed) + 1)
    return ctx.g.where(shares < sparsity, drawn, 0.0)


@builtin("sample")
def sample(ctx: Context, range: int, size: int, replace: Value | None = None, seed: int = _UNSEEDED, /) -> Value:
    """The random sample of 1 to `range` that the engine draws for this seed, which may also be the third argument."""
    repeated = False
    if isinstance(replace, Scalar) and replace.type != BOOLEAN:
        seed = known_content(replace, int, "seed", "sample")
    elif replace is not None:
        repeated = known_content(replace, bool, "replace", "sample")
    if seed == _UNSEEDED:
        raise UnsupportedCase("sample draws new random numbers in every run",
                              hint="give a seed, or draw them before and bind them to a variable")
    if size < 1 or range < (1 if repeated else size):
        raise UnsupportedCase(f"a sample of {size} from {range} numbers")
    if not repeated and range > _MOST_DRAWN:
        raise UnsupportedCase(f"a sample from {range} numbers, and {_MOST_DRAWN} are possible")
    ctx.g.reserve(size)
    return ctx.matrix(ctx.g.constant(seeded_sample(range, size, repeated, seed), FLOAT))
