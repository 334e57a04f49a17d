#!/usr/bin/env python3
"""Plants defects in a sorted output; valsort.py must see every one, and nothing else. Exit code 0: it does.

    python3 oracles/test_valsort.py
"""
import os
import sys
import tempfile

import numpy as np

import valsort


def verdict(folder, source, result):
    paths = [os.path.join(folder, name) for name in ("in", "a", "b")]
    cut = len(result) // 2
    for path, records in zip(paths, (source, result[:cut], result[cut:])):
        records.tofile(path)
    return valsort.check(paths[:1], paths[1:])[2]


def main():
    random = np.random.default_rng(7)
    source = random.integers(0, 256, (2000, 100), dtype=np.uint8)
    source[:, 99] = 0  # trailing zeros must count too
    order = np.lexsort(source[:, :10].T[::-1])
    good = source[order]

    def planted(change):
        return change(good.copy())

    def swap(bad):
        bad[[700, 701]] = bad[[701, 700]]
        return bad

    def swap_across_files(bad):
        bad[[999, 1000]] = bad[[1000, 999]]
        return bad

    def double(bad):
        bad[5] = bad[4]
        return bad

    def alter(bad):
        bad[1234, 99] ^= 1
        return bad

    defects = {
        "swapped": planted(swap),
        "swapped across files": planted(swap_across_files),
        "lost": np.delete(good, 3, axis=0),
        "doubled": planted(double),
        "altered": planted(alter),
    }
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        if verdict(folder, source, good):
            failures.append("a good output was refused")
        for name, bad in defects.items():
            if not verdict(folder, source, bad):
                failures.append(f"{name}: not seen")
    for failure in failures:
        print(f"ERROR - {failure}")
    print(f"planted {len(defects)} defects, missed {len(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
