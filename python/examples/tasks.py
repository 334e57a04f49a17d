"""Tasks: a parameter study on workers that are started for it."""

import concurrent.futures

import numpy as np

import clump


def simulate(seed, steps):
    """A random walk; returns how far it came."""
    return float(np.abs(np.random.default_rng(seed).choice([-1.0, 1.0], steps).sum()))


with clump.Executor(3) as executor:
    distances = list(executor.map(simulate, range(60), [10_000] * 60, chunksize=5))
    futures = {executor.submit(simulate, seed, 100): seed for seed in range(10)}
    first = [futures[future] for future in concurrent.futures.as_completed(futures)]

assert distances == [simulate(seed, 10_000) for seed in range(60)]
assert sorted(first) == list(range(10))
print("right: on average", np.mean(distances), "from where they began")
