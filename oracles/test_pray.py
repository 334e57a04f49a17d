"""Tests of the independent tracer: places and colours that are known without one."""

import unittest

import numpy as np

from pray import Ball, Cone, Polygon, Scene, SceneError, compare

VIEW = "v from 0 0 10 at 0 0 0 up 0 1 0 angle 45 hither 1 resolution 9 9\nb 0 0 1\nl 0 0 10\n"
RED = "f 1 0 0 0.5 0 1 0 0\n"


def met(shape, start, way):
    roots = shape.roots(np.array([start], dtype=float), np.array([way], dtype=float))
    return [root[0] for root in roots if np.isfinite(root[0])]


class Tracer(unittest.TestCase):
    def test_places_where_lines_meet_objects(self):
        self.assertEqual(met(Ball([0, 0, 0, 2]), [0, 0, -5], [0, 0, 1]), [3, 7])
        tube = Cone([0, 0, 0, 1, 0, 4, 0, 1])
        self.assertEqual(met(tube, [-5, 2, 0], [1, 0, 0]), [4, 6])
        self.assertEqual(met(tube, [-5, 5, 0], [1, 0, 0]), [])
        arrow = Polygon([[0, 0, 0], [4, 0, 0], [4, 4, 0], [2, 1, 0], [0, 4, 0]])
        self.assertEqual(met(arrow, [1, 1, 3], [0, 0, -1]), [3])
        self.assertEqual(met(arrow, [2, 3, 3], [0, 0, -1]), [])

    def test_colours_of_known_places(self):
        picture = Scene(VIEW + RED + "s 0 0 0 1\n").picture(5)
        self.assertEqual(picture[40].tolist(), [127, 0, 0])
        self.assertEqual(picture[0].tolist(), [0, 0, 255])
        mirror = Scene(VIEW + "f 1 1 1 0 1 9 0 0\np 3 -9 -9 0 9 -9 0 0 9 0\n").picture(5)
        self.assertEqual(mirror[40].tolist(), [255, 255, 255])
        behind = Scene(VIEW + RED + "p 3 -9 -9 0 0 9 0 9 -9 0\n").picture(5)
        self.assertEqual(behind[40].tolist(), [0, 0, 255])

    def test_differences_are_counted(self):
        scene = Scene(VIEW + RED + "s 0 0 0 1\n")
        pixels = scene.picture(5)
        file = b"P6\n9 9\n255\n"
        self.assertEqual(compare(scene, file + pixels.tobytes(), 5), (0, 0))
        pixels[40, 0] += 1
        pixels[0, 1] += 100
        self.assertEqual(compare(scene, file + pixels.tobytes(), 5), (1 / 81, 2 / 81))

    def test_nonsense_is_refused(self):
        for text in ("", VIEW, VIEW + "s 0 0 0 1", VIEW + RED + "s 0 0", VIEW + "nurbs 7"):
            with self.assertRaises(SceneError):
                Scene(text)


if __name__ == "__main__":
    unittest.main()
