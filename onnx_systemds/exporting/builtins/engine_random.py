"""The numbers that ``rand`` and ``sample`` of the engine give for a seed: `seeded_matrix`, `seeded_sample`.

The engine seeds a Well1024a generator from java.util.Random, takes a seed per block of 1000 x 1000 from it, and fills
each block from two streams of java.util.Random: one for the values, one for which cells are not 0. Blocks of numbers
out of counters are from Philox, and all their cells are 0 where not every one is to be filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.nodes import Array

_BLOCK = 1000
_BITS_48, _BITS_64 = (1 << 48) - 1, (1 << 64) - 1
_FACTOR, _INCREMENT = 0x5DEECE66D, 0xB
_SPARSE_BELOW = 0.4
COUNTED = ("cb_uniform", "cb_normal")
"""Distributions of numbers that are drawn out of counters, in lower case."""


def seeded_matrix(rows: int, cols: int, low: float, high: float, pdf: str, sparsity: float, seed: int) -> Array:
    """Return the matrix of ``rand(rows, cols, min=low, max=high, pdf, sparsity, seed)``.

    pdf: uniform, normal, cb_uniform or cb_normal. Raises UnsupportedCase for several blocks of the last two.
    """
    found = np.zeros((rows, cols))
    if pdf in COUNTED:
        return _counted(rows, cols, pdf, seed) if sparsity == 1.0 else found
    if sparsity == 0.0 or (pdf == "uniform" and low == high == 0.0):
        return found
    if pdf == "uniform" and low == high and sparsity == 1.0:
        return np.full((rows, cols), low)
    seeds = _block_seeds(seed)
    for top in range(0, rows, _BLOCK):
        for left in range(0, cols, _BLOCK):
            shape = min(_BLOCK, rows - top), min(_BLOCK, cols - left)
            block = _block(*shape, low, high, pdf, sparsity, next(seeds))
            found[top : top + _BLOCK, left : left + _BLOCK] = block
    return found


def _counted(rows: int, cols: int, pdf: str, seed: int) -> Array:
    """Return numbers of the counters 0, 1, 2, ...: minimum and maximum have no part in them."""
    if max(rows, cols) > _BLOCK:
        reason = "each thread of the engine counts its own blocks"
        raise UnsupportedCase(f"{rows} x {cols} numbers out of counters: {reason}",
                              hint=f"{_BLOCK} x {_BLOCK} are possible")
    count = rows * cols
    key = next(_block_seeds(seed)) & _BITS_64
    before_first = (1 << 256) - 1
    words = np.random.Philox(counter=before_first, key=key << 64 | key).random_raw(count + count % 2)
    uniform = words.view(np.int64) * 2.0**-64 + 0.5
    return (_paired(uniform) if pdf == "cb_normal" else uniform)[:count].reshape(rows, cols)


def seeded_sample(most: int, size: int, repeated: bool, seed: int) -> Array:
    """Return the numbers from 1 to `most` of ``sample(most, size, repeated, seed)``, as a column."""
    states = _endless_states(seed)
    if repeated:
        return np.array([[1.0 + _long_below(states, most)] for _ in range(size)]).reshape(size, 1)
    found = list(range(1, size + 1))
    for number in range(size + 1, most + 1):
        if _below(states, number) < size:
            found[_below(states, size)] = number
    for place in range(size - 1):
        other = _below(states, size - place) + place
        found[place], found[other] = found[other], found[place]
    return np.array(found, np.float64).reshape(size, 1)


def _endless_states(seed: int) -> Iterator[int]:
    """Yield the states of java.util.Random."""
    state = (seed ^ _FACTOR) & _BITS_48
    while True:
        state = (state * _FACTOR + _INCREMENT) & _BITS_48
        yield state


def _below(states: Iterator[int], bound: int) -> int:
    """Return ``nextInt(bound)`` of java.util.Random."""
    while True:
        bits = next(states) >> 17
        if bound & (bound - 1) == 0:
            return (bound * bits) >> 31
        found = bits % bound
        if bits - found + bound - 1 < 1 << 31:  # else the last multiple of the bound is not whole
            return found


def _long_below(states: Iterator[int], bound: int) -> int:
    """Return a number below a bound out of ``nextLong()``, whose lower half has a sign."""
    while True:
        high, low = next(states) >> 16, next(states) >> 16
        low -= (low >> 31) << 32
        bits = ((high << 32) + low) & (1 << 63) - 1
        found = bits % bound
        if bits - found + bound - 1 < 1 << 63:
            return found


def _block(rows: int, cols: int, low: float, high: float, pdf: str, sparsity: float, seed: int) -> Array:
    count = rows * cols
    values = _normal(seed, count + 1) if pdf == "normal" else low + (high - low) * _uniform(seed, count + 1)
    first = values[0] if pdf == "normal" else _uniform(seed, 1)[0]
    values = values[1:]
    if sparsity == 1.0:
        return values.reshape(rows, cols)
    found = np.zeros(count)
    # Java's cast to a long ends at its limits, which normal numbers beyond 1 pass
    chosen = _uniform(max(-1 << 63, min((1 << 63) - 1, int(float(first) * float(2**63 - 1)))), count)
    if _is_sparse(rows, cols, int(sparsity * rows * cols)):
        steps = np.ceil(np.log(chosen) / math.log(1 - sparsity))
        places = np.cumsum(steps).astype(np.int64)
        places = places[places <= count] - 1
    else:
        places = np.flatnonzero(chosen <= sparsity)
    found[places] = values[: places.size]
    return found.reshape(rows, cols)


def _uniform(seed: int, count: int) -> Array:
    """Return ``nextDouble()`` of java.util.Random, `count` times."""
    states = _states(seed, 2 * count)
    high, low = states[0::2] >> np.uint64(22), states[1::2] >> np.uint64(21)
    return ((high << np.uint64(27)) + low).astype(np.float64) * 2.0**-53


def _normal(seed: int, count: int) -> Array:
    """Return normal numbers of java.util.Random."""
    return _paired(_uniform(seed, count + count % 2))[:count]


def _paired(uniform: Array) -> Array:
    """Return two normal numbers for each two uniform ones."""
    length, angle = np.sqrt(-2 * np.log(uniform[0::2])), 2 * math.pi * uniform[1::2]
    return np.stack([length * np.cos(angle), length * np.sin(angle)], 1).ravel()


def _states(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the states of java.util.Random; each pass doubles how many are known."""
    mask = np.uint64(_BITS_48)
    states = np.empty(max(count, 1), np.uint64)
    states[0] = (((seed ^ _FACTOR) & _BITS_48) * _FACTOR + _INCREMENT) & _BITS_48
    known, factor, increment = 1, _FACTOR, _INCREMENT
    while known < count:
        more = min(known, count - known)
        states[known : known + more] = (states[:more] * np.uint64(factor) + np.uint64(increment)) & mask
        known += more
        factor, increment = factor * factor & _BITS_48, (factor * increment + increment) & _BITS_48
    return states[:count]


def _block_seeds(seed: int) -> Iterator[int]:
    """Yield the seeds of the blocks: ``nextLong()`` of Well1024a."""
    pool = [int(state) >> 16 for state in _states(seed, 32)]
    index = 0

    def draw() -> int:
        nonlocal index
        before = (index + 31) % 32
        third, far, farther = (pool[(index + offset) % 32] for offset in (3, 24, 10))
        z0, z1 = pool[before], pool[index] ^ third ^ (third >> 8)
        z2 = far ^ _left(far, 19) ^ farther ^ _left(farther, 14)
        pool[index] = z1 ^ z2
        pool[before] = z0 ^ _left(z0, 11) ^ z1 ^ _left(z1, 7) ^ z2 ^ _left(z2, 13)
        index = before
        return pool[before]

    while True:
        high = draw()
        yield (high << 32) | draw()


def _left(word: int, bits: int) -> int:
    return (word << bits) & 0xFFFFFFFF


def _is_sparse(rows: int, cols: int, nonzeros: int) -> bool:
    """Whether the engine holds a block in sparse form, and so draws the distances between its cells."""
    share = nonzeros / rows / cols
    if share >= _SPARSE_BELOW or cols <= 1:
        return False
    if share == 0:
        return True
    filled = math.ceil(share * rows * cols)
    used_rows = min(rows, filled)
    row_size = int(88 + 12 * max(1.0, max(4.0, filled / used_rows)))
    sparse = 16 + 32 + 8 * rows + used_rows * row_size
    dense = 64 + 32 + 8 * rows * cols
    return sparse < dense
