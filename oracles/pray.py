"""Independent tracer of scenes in the neutral file format (NFF), which compares a picture (PPM) with
its own.

    python3 oracles/pray.py SCENE PICTURE [DEPTH]

It tests every ray against every object, and cuts no polygon: a point is in one by the number of edges
that a line from it crosses. The model of light is that of docs/apps/pray.md. Pictures of two tracers
differ in the last bit of some colours, and at some edges of objects.
"""

import sys

import numpy as np

NEAR = 1e-7
# Pixels that differ by more than the last bit, and pixels that differ at all, as shares.
MAX_EDGES = 0.004
MAX_LAST_BITS = 0.03


class SceneError(Exception):
    """A scene that makes no sense."""


def dot(a, b):
    return np.sum(a * b, axis=-1)


def unit(a):
    return a / np.sqrt(dot(a, a))[..., None]


class Ball:
    def __init__(self, numbers):
        self.middle, self.radius = np.array(numbers[:3]), numbers[3]

    def box(self):
        return self.middle - abs(self.radius), self.middle + abs(self.radius)

    def roots(self, start, way):
        to = start - self.middle
        half, rest = dot(to, way), dot(to, to) - self.radius**2
        with np.errstate(invalid="ignore"):
            root = np.sqrt(half**2 - rest)
        return [-half - root, -half + root]

    def outward(self, place):
        return unit(place - self.middle)

    def smooth(self, place):
        return self.outward(place)

    def shows(self, facing):
        return facing if self.radius > 0 else ~facing


class Cone:
    def __init__(self, numbers):
        self.base, self.low = np.array(numbers[:3]), numbers[3]
        self.apex, self.high = np.array(numbers[4:7]), numbers[7]
        self.length = np.linalg.norm(self.apex - self.base)
        self.axis = (self.apex - self.base) / self.length
        self.slope = (abs(self.high) - abs(self.low)) / self.length

    def box(self):
        reach = np.sqrt(np.maximum(1 - self.axis**2, 0))
        ends = [(self.base, abs(self.low)), (self.apex, abs(self.high))]
        low = np.min([end - radius * reach for end, radius in ends], axis=0)
        return low, np.max([end + radius * reach for end, radius in ends], axis=0)

    def roots(self, start, way):
        height, climb = dot(start - self.base, self.axis), dot(way, self.axis)
        across = start - self.base - height[:, None] * self.axis
        sideways = way - climb[:, None] * self.axis
        radius = abs(self.low) + self.slope * height
        a = dot(sideways, sideways) - (self.slope * climb) ** 2
        b = 2 * (dot(across, sideways) - self.slope * climb * radius)
        c = dot(across, across) - radius**2
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(b * b - 4 * a * c)
            two = [(-b - root) / (2 * a), (-b + root) / (2 * a)]
            return [
                np.where((height + t * climb >= 0) & (height + t * climb <= self.length), t, np.nan)
                for t in (np.minimum(*two), np.maximum(*two))
            ]

    def outward(self, place):
        from_base = place - self.base
        away = from_base - dot(from_base, self.axis)[:, None] * self.axis
        return unit(unit(away) - self.slope * self.axis)

    def smooth(self, place):
        return self.outward(place)

    def shows(self, facing):
        return facing if self.low + self.high > 0 else ~facing


class Polygon:
    def __init__(self, corners, normals=None):
        self.corners = np.array(corners)
        after = np.roll(self.corners, -1, axis=0)
        self.normal = np.sum(np.cross(self.corners, after), axis=0)
        self.has_area = np.linalg.norm(self.normal) > 0
        if self.has_area:
            self.normal = self.normal / np.linalg.norm(self.normal)
        self.normals = normals and np.array(normals)
        if normals and len(corners) != 3:
            raise SceneError("patches of other than three corners are not for this tracer")

    def box(self):
        return self.corners.min(axis=0), self.corners.max(axis=0)

    def roots(self, start, way):
        with np.errstate(divide="ignore", invalid="ignore"):
            far = dot(self.corners[0] - start, self.normal) / dot(way, self.normal)
        place = start + np.where(np.isfinite(far), far, 0)[:, None] * way
        # Even and odd, along an axis that the polygon is not perpendicular to.
        keep = [axis for axis in range(3) if axis != np.argmax(np.abs(self.normal))]
        x, y = place[:, keep[0]], place[:, keep[1]]
        inside = np.zeros(len(place), dtype=bool)
        for one, other in zip(self.corners, np.roll(self.corners, -1, axis=0)):
            (x0, y0), (x1, y1) = one[keep], other[keep]
            if y0 != y1:
                crosses = (y0 > y) != (y1 > y)
                inside ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
        return [np.where(inside, far, np.nan)]

    def outward(self, place):
        return np.broadcast_to(self.normal, place.shape)

    def smooth(self, place):
        if self.normals is None:
            return self.outward(place)
        a, b, c = self.corners
        area = dot(np.cross(b - a, c - a), self.normal)
        second = dot(np.cross(c - place, a - place), self.normal) / area
        third = dot(np.cross(a - place, b - place), self.normal) / area
        weights = np.stack([1 - second - third, second, third], axis=-1)
        return unit(weights @ self.normals)

    def shows(self, facing):
        return facing


class Scene:
    """Objects, lights and the eye of a text."""

    def __init__(self, text):
        lines = [line.split("#")[0] for line in text.splitlines()]
        self.words = " ".join(lines).split()
        self.at = 0
        self.background, self.lights, self.objects, self.fill = np.zeros(3), [], [], None
        while self.at < len(self.words):
            self.entity(self.word())
        if not self.objects:
            raise SceneError("no object")
        powers = 1 / np.sqrt(max(len(self.lights), 1))
        self.lights = [
            (place, np.full(3, powers) if colour is None else colour) for place, colour in self.lights
        ]
        boxes = [shape.box() for shape, _ in self.objects]
        low = np.min([box[0] for box in boxes], axis=0)
        high = np.max([box[1] for box in boxes], axis=0)
        self.near = NEAR * np.max(high - low) / 2

    def word(self):
        self.at += 1
        if self.at > len(self.words):
            raise SceneError("the text ends")
        return self.words[self.at - 1]

    def numbers(self, count):
        return [float(self.word()) for _ in range(count)]

    def named(self, name, count):
        if self.word() != name:
            raise SceneError(f"{name} is missing")
        return np.array(self.numbers(count))

    def entity(self, word):
        if word == "v":
            self.eye, self.look = self.named("from", 3), self.named("at", 3)
            self.up, self.angle = self.named("up", 3), self.named("angle", 1)[0]
            self.hither = max(self.named("hither", 1)[0], 0)
            self.size = self.named("resolution", 2).astype(int)
        elif word == "b":
            self.background = np.array(self.numbers(3))
        elif word == "l":
            place, colour = np.array(self.numbers(3)), None
            if self.at < len(self.words) and not self.words[self.at].isalpha():
                colour = np.array(self.numbers(3))
            self.lights.append((place, colour))
        elif word == "f":
            self.fill = self.numbers(8)
        elif word == "s":
            self.add(Ball(self.numbers(4)))
        elif word == "c":
            self.add(Cone(self.numbers(8)))
        elif word == "p":
            polygon = Polygon([self.numbers(3) for _ in range(int(self.word()))])
            if polygon.has_area:
                self.add(polygon)
        elif word == "pp":
            both = [self.numbers(6) for _ in range(int(self.word()))]
            self.add(Polygon([it[:3] for it in both], [it[3:] for it in both]))
        else:
            raise SceneError(f"{word} is no entity")

    def add(self, shape):
        if self.fill is None:
            raise SceneError("an object without a fill")
        self.objects.append((shape, np.array(self.fill)))

    def rays(self):
        columns, rows = self.size
        ahead = unit(self.look - self.eye)
        right = unit(np.cross(ahead, self.up))
        up = np.cross(right, ahead)
        pitch = 2 * np.tan(np.radians(self.angle) / 2) / max(rows - 1, 1)
        across = (np.arange(columns) - (columns - 1) / 2) * pitch
        down = (np.arange(rows) - (rows - 1) / 2) * pitch
        down, across = np.meshgrid(down, across, indexing="ij")
        way = ahead + across.reshape(-1, 1) * right - down.reshape(-1, 1) * up
        way = unit(way)
        return self.eye + (self.hither / dot(way, ahead))[:, None] * way, way

    def nearest(self, start, way):
        """Distance of the nearest object of each ray, and its number; -1 if there is none."""
        best, which = np.full(len(start), np.inf), np.full(len(start), -1)
        for number, (shape, fill) in enumerate(self.objects):
            for far in shape.roots(start, way):
                met = np.flatnonzero(far > self.near)
                place = start[met] + far[met, None] * way[met]
                if fill[6] == 0:
                    met = met[shape.shows(dot(shape.outward(place), way[met]) < 0)]
                met = met[far[met] < best[met]]
                best[met], which[met] = far[met], number
        return best, which

    def trace(self, start, way, depth):
        """Colours of rays."""
        colour = np.tile(self.background, (len(start), 1))
        best, which = self.nearest(start, way)
        for number in np.unique(which[which >= 0]):
            rays = np.flatnonzero(which == number)
            colour[rays] = self.shade(number, start[rays], way[rays], best[rays], depth)
        return colour

    def shade(self, number, start, way, far, depth):
        shape, (red, green, blue, diffuse, specular, shine, passed, index) = self.objects[number]
        place = start + far[:, None] * way
        inside = dot(shape.outward(place), way) > 0
        side = np.where(inside, -1.0, 1.0)[:, None]
        flat, normal = side * shape.outward(place), side * shape.smooth(place)
        mirror = unit(way - 2 * dot(way, normal)[:, None] * normal)
        colour = np.zeros((len(place), 3))
        for light, power in self.lights:
            to = light - place
            distance = np.sqrt(dot(to, to))
            to = to / distance[:, None]
            lit = np.flatnonzero((dot(flat, to) > 0) & (dot(normal, to) > 0))
            shadow, _ = self.nearest(place[lit], to[lit])
            lit = lit[shadow >= distance[lit]]
            straight = np.maximum(dot(mirror[lit], to[lit]), 0)
            highlight = np.where(straight > 0, specular * straight**shine, 0)
            scattered = diffuse * dot(normal[lit], to[lit])[:, None] * [red, green, blue]
            colour[lit] += (scattered + highlight[:, None]) * power
        if depth > 0 and specular > 0:
            colour += specular * self.trace(place, mirror, depth - 1)
        if depth > 0 and passed > 0:
            ratio = np.where(inside, index, 1 / index)
            cosine = -dot(way, normal)
            square = 1 - ratio**2 * (1 - cosine**2)
            bent = ratio[:, None] * way + (
                ratio * cosine - np.sqrt(np.maximum(square, 0))
            )[:, None] * normal
            on = np.where((square < 0)[:, None], mirror, unit(bent))
            colour += passed * self.trace(place, on, depth - 1)
        return colour

    def picture(self, depth):
        colours = self.trace(*self.rays(), depth)
        return (np.clip(colours, 0, 1) * 255).astype(np.uint8)


def read_picture(data):
    """Pixels of a picture (P6), and its columns and rows."""
    kind, columns, rows, most, rest = data.split(maxsplit=4)
    size = int(columns) * int(rows) * 3
    if kind != b"P6" or most != b"255":
        raise SceneError("no picture")
    return np.frombuffer(data[len(data) - size :], dtype=np.uint8).reshape(-1, 3), (
        int(columns),
        int(rows),
    )


def compare(scene, data, depth):
    """Shares of pixels that differ by more than the last bit, and that differ at all."""
    found, size = read_picture(data)
    if size != tuple(scene.size):
        raise SceneError(f"the picture has {size} pixels")
    due = scene.picture(depth)
    apart = np.abs(found.astype(int) - due.astype(int)).max(axis=1)
    return np.mean(apart > 1), np.mean(apart > 0)


def main(words):
    scene, picture = words[:2]
    with open(scene, encoding="utf-8") as file:
        scene = Scene(file.read())
    with open(picture, "rb") as file:
        edges, bits = compare(scene, file.read(), int(words[2]) if len(words) > 2 else 5)
    print(f"{100 * edges:.3f} % of the pixels differ, {100 * bits:.3f} % in the last bit or more")
    return 0 if edges <= MAX_EDGES and bits <= MAX_LAST_BITS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
