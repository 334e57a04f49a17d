#!/usr/bin/env python3
"""Plants defects in a sorted output; valsort.py must see every one, and nothing else.

    python3 -m unittest discover -s oracles
"""
import json
import os
import tempfile
import unittest
import zlib

import numpy as np

import valsort


def faults(source, result, manifest=None):
    """What the oracle says of `result`, cut into two files in the middle."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("in", "a", "b")]
        cut = len(result) // 2
        for path, records in zip(paths, (source, result[:cut], result[cut:])):
            records.tofile(path)
        if manifest is None:
            return valsort.check(paths[:1], paths[1:])[2]
        with open(os.path.join(folder, "manifest.json"), "w") as f:
            json.dump(manifest, f)
        return valsort.check(paths[:1], [folder])[2]


class PlantedDefects(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(7)
        self.source = random.integers(0, 256, (2000, 100), dtype=np.uint8)
        self.source[:, 99] = 0  # trailing zeros must count too
        self.good = self.source[np.lexsort(self.source[:, :10].T[::-1])]

    def expect(self, bad, word):
        found = faults(self.source, bad)
        self.assertTrue(any(word in fault for fault in found), found)

    def test_a_good_output_passes(self):
        self.assertEqual(faults(self.source, self.good), [])

    def test_swapped(self):
        self.good[[700, 701]] = self.good[[701, 700]]
        self.expect(self.good, "record 701 is below")

    def test_swapped_across_files(self):
        self.good[[999, 1000]] = self.good[[1000, 999]]
        self.expect(self.good, "record 1000 is below")

    def test_swapped_by_the_last_byte_of_the_key(self):
        self.good[700:702, :9] = 5
        self.good[700:702, 9] = [2, 1]
        self.expect(self.good, "is below")

    def test_lost(self):
        self.expect(np.delete(self.good, 3, axis=0), "the input has 2000")

    def test_doubled(self):
        self.good[5] = self.good[4]
        self.expect(self.good, "not those of the input")

    def test_altered_behind_the_key(self):
        self.good[1234, 99] ^= 1
        self.expect(self.good, "not those of the input")

    def manifest(self):
        total = sum(zlib.crc32(record.tobytes()) for record in self.source)
        parts = [{"file": "a", "records": 1000}, {"file": "b", "records": 1000}]
        return {"checksum": f"{total:x}", "records": 2000, "parts": parts}

    def test_a_good_manifest_passes(self):
        self.assertEqual(faults(self.source, self.good, self.manifest()), [])

    def test_a_manifest_with_a_wrong_checksum(self):
        manifest = self.manifest() | {"checksum": "1"}
        self.assertIn("checksum", faults(self.source, self.good, manifest)[0])

    def test_a_manifest_with_a_wrong_count(self):
        manifest = self.manifest()
        manifest["parts"][1]["records"] = 999
        self.assertIn("counts", faults(self.source, self.good, manifest)[0])


if __name__ == "__main__":
    unittest.main()
