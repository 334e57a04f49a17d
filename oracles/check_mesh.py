"""Checks a Delaunay mesh of clump-shared-apps against Qhull's (PyPI: scipy).

    cargo run -p clump-shared-apps --example mesh -- 2800 1 > mesh.txt
    python3 oracles/check_mesh.py mesh.txt

Both must have the same tetrahedra. Prints how many; exits with 1 and the difference otherwise.
"""

import sys

import numpy
from scipy.spatial import Delaunay


def check(lines):
    points, ours = [], set()
    for line in lines:
        kind, *words = line.split()
        if kind == "p":
            points.append([int(word) for word in words])
        elif kind == "t":
            ours.add(tuple(sorted(int(word) for word in words)))
        else:
            raise ValueError(f"a line of neither kind: {line!r}")
    theirs = {tuple(sorted(corners)) for corners in Delaunay(numpy.array(points)).simplices.tolist()}
    if ours != theirs:
        alone, missing = sorted(ours - theirs), sorted(theirs - ours)
        raise ValueError(f"{len(alone)} that Qhull has not {alone[:3]}, {len(missing)} missing {missing[:3]}")
    return len(points), len(ours)


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as lines:
            print("{} points, {} tetrahedra as Qhull has them".format(*check(lines)))
    except ValueError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
