"""Tests of the independent explorer of Murphi models, and the suite of the language, which it shares
with the checker."""

import pathlib
import unittest

from murphi import Model
from murphi_reader import ModelError

MODELS = pathlib.Path(__file__).parent.parent / "apps/global/models"
# Numbers of any size are no error here.
UNBOUNDED = {"too large"}


def cases():
    text = (MODELS / "language.txt").read_text(encoding="utf-8")
    for case in text.split("=== ")[1:]:
        name, expected, model = case.split("\n", 2)
        yield name, expected[2:], model


def count(name, **constants):
    return Model((MODELS / f"{name}.m").read_text(encoding="utf-8"), constants).search()


class Explorer(unittest.TestCase):
    def test_known_counts(self):
        for bits in (1, 4, 8):
            self.assertEqual(count("counter", Bits=bits), (2**bits, 2**bits * bits))
        for disks in (1, 3, 5):
            self.assertEqual(count("hanoi", Disks=disks)[0], 3**disks)

    def test_counts_of_the_language_suite(self):
        seen = 0
        for name, expected, text in cases():
            with self.subTest(name):
                if "states, " in expected:
                    states, fired = Model(text).search()
                    self.assertEqual(f"{states} states, {fired} fired", expected)
                    seen += 1
                elif expected.startswith("fails ") and name not in UNBOUNDED:
                    with self.assertRaises((ModelError, RecursionError)):
                        Model(text).search()
        self.assertGreater(seen, 100)

    def test_a_planted_bug_is_found(self):
        text = (MODELS / "dekker.m").read_text(encoding="utf-8")
        bug = text.replace("point = test & !wants[other(p)]", "point = test")
        self.assertNotEqual(text, bug)
        with self.assertRaises(ModelError):
            Model(bug).search()


if __name__ == "__main__":
    unittest.main()
