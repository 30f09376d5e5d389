"""Random numbers as a function of (seed, stream, step): nothing is drawn from a generator that lives on.

So a resumed run, a sub-batch or another process draws what an uninterrupted single process would have drawn, and no
stream disturbs another: losses at one seed, dataset and batch size see the same weights, data order and views.
"""

import hashlib

import numpy as np


def stream(seed: int, name: str, step: int = 0) -> np.random.Generator:
    """A fresh generator for one step of the stream `name`; equal arguments give equal numbers on every platform.

    Streams are Philox counters: `seed` and `name` make the key, `step` the counter's high word, so that streams and
    steps never overlap.
    """
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, step]))
