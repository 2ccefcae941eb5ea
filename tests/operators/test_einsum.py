"""Einsum in all its forms; Attention and RotaryEmbedding by definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Case, at_sizes, check_case, random

EQUATIONS = {
    "ij->ji": [(3, 4)],
    "ij": [(3, 4)],
    "ba": [(3, 4)],
    "ij->": [(3, 4)],
    "ij->i": [(3, 4)],
    "ij->j": [(3, 4)],
    "ii->i": [(4, 4)],
    "ii": [(4, 4)],
    "iji->j": [(3, 4, 3)],
    "biji->bij": [(2, 3, 4, 3)],
    "bii->bi": [(2, 3, 3)],
    "...ii->...i": [(2, 3, 4, 4)],
    "...ij->...": [(2, 3, 4, 5)],
    "ij,jk->ik": [(3, 4), (4, 5)],
    "ab,bc->ac": [(5, 3000), (3000, 3)],
    "ij,jk": [(3, 4), (4, 5)],
    "ij,kj->ki": [(3, 4), (5, 4)],
    "i,j->ij": [(3,), (4,)],
    "i,i": [(3,), (3,)],
    "i,i->i": [(3,), (3,)],
    "ij,ij->ij": [(3, 4), (3, 4)],
    "ij,i->ij": [(3, 4), (3,)],
    "j,ij->ij": [(4,), (3, 4)],
    "ij,ji->ij": [(3, 4), (4, 3)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bqhd,bkhd->bhqk": [(2, 4, 3, 5), (2, 6, 3, 5)],
    "bhqk,bkhd->bqhd": [(2, 3, 4, 6), (2, 6, 3, 5)],
    "bsd,dhe->bshe": [(2, 3, 4), (4, 2, 5)],
    "bn,anm,bm->ba": [(2, 3), (4, 3, 5), (2, 5)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    "ij,jk,ki->": [(2, 3), (3, 4), (4, 2)],
    "...ij,...jk->...ik": [(2, 3, 4, 5), (3, 5, 6)],
    "...ij,jk->...ik": [(2, 3, 4, 5), (5, 6)],
    "i...->...": [(2, 3, 4)],
    "...,...->...": [(2, 1, 4), (3, 1)],
    "ab,cd->acbd": [(2, 3), (4, 5)],
    "bij,bik->b": [(2, 3, 4), (2, 3, 5)],
    ",ij->ij": [(), (3, 4)],
    "abcd,cdef->abef": [(2, 3, 4, 2), (4, 2, 3, 2)],
    "nchw,ncvw->nhv": [(2, 3, 4, 5), (2, 3, 6, 5)],
    " b i j , b j k -> b i k ": [(2, 3, 4), (2, 4, 5)],
}


def einsum(equation: str, *shapes: tuple[int, ...], opset: int = 12, dtype: str = "float", **more: object) -> Case:
    """A case that numpy judges."""
    inputs = {f"x{i}": random(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)}
    return Case("Einsum", opset, inputs, {"equation": equation}, note=equation, expected=lambda *arrays, equation:
                np.einsum(equation.replace(" ", ""), *arrays).astype(arrays[0].dtype), **more)  # type: ignore


def wrapping(equation: str, *shapes: tuple[int, ...], dtype: str) -> Case:
    """A case of integers of all sizes, whose products and sums wrap around; of Python's own integers in the judgement."""
    bounds = np.iinfo(dtype)
    generator = np.random.default_rng(len(equation))
    inputs = {f"x{i}": generator.integers(bounds.min, bounds.max, shape, dtype) for i, shape in enumerate(shapes)}

    def expected(*arrays: np.ndarray, equation: str) -> np.ndarray:
        exact = np.asarray(np.einsum(equation, *(array.astype(object) for array in arrays)))
        rest = [int(number) % 2**bounds.bits for number in exact.ravel()]
        return np.array(rest, np.uint64).astype(dtype).reshape(exact.shape)

    return Case("Einsum", 12, inputs, {"equation": equation}, note=f"{equation} {dtype}", expected=expected)


CASES = [
    *[einsum(equation, *shapes) for equation, shapes in EQUATIONS.items()],
    einsum("bij,bjk->bik", (2, 3, 4), (2, 4, 5), dtype="int32"),
    *[wrapping(equation, *shapes, dtype=dtype) for dtype in ("int32", "uint32", "int16") for equation, shapes in {
        "l,jk,ij->": ((2,), (1, 3), (2, 1)), "bij,bjk->bik": ((2, 2, 3), (2, 3, 2)), "bij,bkj->bik": ((2, 2, 3), (2, 2, 3)),
        "ij,i->ij": ((2, 3), (2,)), "ij,jk,kl->il": ((2, 2), (2, 2), (2, 2)), "ij->j": ((3, 2),)}.items()],
    einsum("ij,jk->ik", (3, 4), (4, 5), opset=28),
    einsum("bij,bjk->bik", (1, 3, 4), (2, 4, 5)),
    *[at_sizes(einsum(equation, (2, 4, 3, 5), (2, 6, 3, 5)), {"x0": ["b", "q", 3, 5], "x1": ["b", "k", 3, 5]},
               {"x0": random(3, 2, 3, 5), "x1": random(3, 7, 3, 5)},
               {"x0": random(1, 1, 3, 5), "x1": random(1, 1, 3, 5)})
      for equation in ["bqhd,bkhd->bhqk", "bqhd,bkhd->bqk", "bqhd,bkhd->"]],
    at_sizes(einsum("ii->i", (3, 3)), {"x0": ["i", "i"]}, {"x0": random(5, 5)}),
    at_sizes(einsum("biib->bi", (3, 3, 3, 3)), {"x0": ["b", "i", "i", "b"]}, {"x0": random(5, 5, 5, 5)}),
]


DERIVATIVES = [
    *[Derivative("Einsum", {"a": near(2, 3, 4), "b": near(*right, seed=1)}, {"equation": equation})
      for right, equation in [((4, 2), "abc,cd->abd"), ((2, 4), "abc,ac->ab"), ((3, 4), "abc,bc->a"),
                              ((4, 2), "...c,cd->...d"), ((3, 4), "...bc,bc"), ((1, 4), "abc,bc->a"), ((5,), "abc,d->a")]],
    *[Derivative("Einsum", {"a": near(*left), "b": near(*right, seed=1)}, {"equation": equation})
      for left, right, equation in [((3, 3), (3, 2), "ii,ij->j"), ((2, 3, 2), (2, 2), "aba,aa->ba"), ((3, 3, 3), (3,), "iii,i->i"),
                                    ((3, 3), (4,), "ii,j->"), ((1, 1), (3,), "ii,i->i")]],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
