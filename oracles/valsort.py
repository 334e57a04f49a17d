#!/usr/bin/env python3
"""Checks a sorted output against its input with NumPy. Exit code 0: it holds; 1: it does not; 2: unreadable.

    python3 oracles/valsort.py INPUT... --sorted FOLDER|FILE...

Rules (sortbenchmark.org, valsort): keys, the first 10 bytes of each 100-byte record, never decrease within
a file or from one file to the next; the output holds exactly the records of the input. Unlike valsort,
which compares sums of CRC-32s, this sorts whole records of both sides and compares them byte by byte; the
sum of the CRC-32s is computed too (zlib) and compared with the manifest's. Shares no code with the sort.
"""
import argparse
import json
import os
import sys
import zlib

import numpy as np

RECORD, KEY = 100, 10


def load(path):
    data = np.fromfile(path, dtype=np.uint8)
    if data.size % RECORD:
        raise ValueError(f"{path}: {data.size % RECORD} bytes more than whole records")
    return data.reshape(-1, RECORD)


def crc_sum(records):
    raw = records.tobytes()
    return sum(zlib.crc32(raw[i : i + RECORD]) for i in range(0, len(raw), RECORD))


def first_descent(records):
    """Number of the first record whose key is below its predecessor's, or None."""
    if len(records) < 2:
        return None
    # Two big-endian numbers per key: 8 bytes and 2 bytes.
    high = records[:, :8].copy().view(">u8").ravel()
    low = records[:, 8:KEY].copy().view(">u2").ravel()
    down = (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))
    where = np.flatnonzero(down)
    return int(where[0]) + 1 if where.size else None


def same_multiset(a, b):
    if a.shape != b.shape:
        return False
    # 'S' strings ignore trailing zero bytes, so a byte that is never zero is put at the end.
    def in_order(records):
        padded = np.hstack([records, np.ones((len(records), 1), np.uint8)])
        return np.sort(np.ascontiguousarray(padded).view(f"S{RECORD + 1}").ravel())

    return bool(np.array_equal(in_order(a), in_order(b)))


def outputs(paths):
    """The files that `paths` stand for, and their manifest where there is one."""
    if len(paths) == 1 and os.path.isdir(paths[0]):
        with open(os.path.join(paths[0], "manifest.json")) as f:
            manifest = json.load(f)
        return [os.path.join(paths[0], part["file"]) for part in manifest["parts"]], manifest
    return paths, None


def check(inputs, sorted_paths):
    files, manifest = outputs(sorted_paths)
    source = np.concatenate([load(path) for path in inputs])
    parts = [load(path) for path in files]
    result = np.concatenate(parts)
    faults = []
    descent = first_descent(result)
    if descent is not None:
        faults.append(f"record {descent} is below its predecessor")
    if len(source) != len(result):
        faults.append(f"{len(result)} records, the input has {len(source)}")
    if not same_multiset(source, result):
        faults.append("the records are not those of the input")
    total = crc_sum(source)
    if manifest is not None:
        if int(manifest["checksum"], 16) != total:
            faults.append(f"the manifest's checksum is {manifest['checksum']}, the input's {total:x}")
        listed = [part["records"] for part in manifest["parts"]]
        if listed != [len(part) for part in parts] or manifest["records"] != len(result):
            faults.append("the manifest's record counts are not those of the files")
    return len(result), total, faults


def main():
    parser = argparse.ArgumentParser(description="Check a sorted output against its input.")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--sorted", nargs="+", required=True)
    args = parser.parse_args()
    try:
        records, total, faults = check(args.inputs, args.sorted)
    except (OSError, ValueError, KeyError) as error:
        print(f"ERROR - {error}")
        return 2
    print(f"Records: {records}\nChecksum: {total:x}")
    for fault in faults:
        print(f"ERROR - {fault}")
    print(f"verified: {'no' if faults else 'yes'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
