"""A worker that does what workers must be kept from, for the tests."""

import os

from tests.fuzz.bounded_worker import serve


def answer(task: bytes) -> bytes:
    """Spin, eat memory, end the process, or say the task again."""
    if task == b"spin":
        while True:
            pass
    if task == b"eat":
        try:
            return str(len(bytearray(4 << 30))).encode()
        except MemoryError:
            return b"no memory"
    if task == b"die":
        os.abort()
    return task


if __name__ == "__main__":
    serve(answer)
