"""Random models in the Murphi language, each with its counts by the independent explorer.

Usage: random_models.py COUNT SEED; prints cases in the form of the language suite.
"""

import random
import sys

from murphi import Model

MAX_STATES = 3000


class Maker:
    """Makes one model."""

    def __init__(self, rng, plain):
        self.rng, self.plain, self.names = rng, plain, 0
        self.variables = []
        self.lines = []

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def chance(self, share):
        return self.rng.random() < share

    # Types: (kind, text, size, extra).

    def types(self):
        rng = self.rng
        self.top = rng.randint(1, 4)
        self.labels = [f"l{i}" for i in range(rng.randint(2, 3))]
        self.others = [f"m{i}" for i in range(2)]
        self.procs = rng.randint(2, 3)
        self.lines += [
            f"const Top: {self.top}; Procs: {self.procs};",
            "type",
            "  Num: 0..Top;",
            f"  Label: enum {{{', '.join(self.labels)}}};",
            f"  Other: enum {{{', '.join(self.others)}}};",
            "  Proc: scalarset(Procs);",
            "  Pair: record n: Num; f: boolean end;",
        ]
        if not self.plain:
            self.lines.append("  Who: union {Proc, Other};")

    def state(self):
        rng = self.rng
        kinds = ["num", "bool", "label", "proc", "array", "flags", "pair"]
        kinds += [] if self.plain else ["who", "bag", "proc", "proc"]
        chosen = ["num", rng.choice(["array", "flags"])]
        chosen += rng.choices(kinds, k=rng.randint(1, 3))
        text = {"num": "Num", "bool": "boolean", "label": "Label", "proc": "Proc",
                "array": "array [Proc] of Num", "flags": "array [Proc] of boolean",
                "pair": "Pair", "who": "Who", "bag": "multiset [2] of Num"}
        self.lines.append("var")
        for kind in chosen:
            name = self.name("v")
            self.variables.append((name, kind))
            self.lines.append(f"  {name}: {text[kind]};")

    def of(self, kind):
        return [name for name, its in self.variables if its == kind]

    # Expressions; `proc` is a name of the type Proc in scope, or None.

    def num_places(self, proc):
        places = self.of("num") + [f"{it}.n" for it in self.of("pair")]
        return places + ([f"{it}[{proc}]" for it in self.of("array")] if proc else [])

    def bool_places(self, proc):
        places = self.of("bool") + [f"{it}.f" for it in self.of("pair")]
        return places + ([f"{it}[{proc}]" for it in self.of("flags")] if proc else [])

    def num(self, proc, depth):
        rng = self.rng
        if depth == 0 or self.chance(0.3):
            return rng.choice(self.num_places(proc) + [str(rng.randint(0, self.top))])
        a, b = self.num(proc, depth - 1), self.num(proc, depth - 1)
        return rng.choice([
            f"(({a} + {b}) % (Top + 1))", f"({self.bool(proc, depth - 1)} ? {a} : {b})",
            f"(({a} * {b} + 1) % (Top + 1))", f"(({a} + Top - {b}) % (Top + 1))", f"({a} / 2)",
        ])

    def bool(self, proc, depth):
        rng = self.rng
        if depth == 0:
            return rng.choice(self.bool_places(proc) + [
                f"{self.num(proc, 0)} {rng.choice(['<', '<=', '=', '!=', '>', '>='])} "
                f"{self.num(proc, 0)}"])
        a, b = self.bool(proc, depth - 1), self.bool(proc, depth - 1)
        every = self.name("q")
        choices = [
            f"({a} {rng.choice(['&', '|', '->'])} {b})", f"!({a})",
            f"{self.num(proc, depth - 1)} <= {self.num(proc, depth - 1)}",
            f"({rng.choice(['forall', 'exists'])} {every}: Proc do {self.bool(every, depth - 1)} end)",
        ]
        choices += [f"{it} = {rng.choice(self.labels)}" for it in self.of("label")]
        choices += [f"!isundefined({it})" for it in self.of("proc")]
        if proc:
            choices += [f"(!isundefined({it}) & {it} = {proc})" for it in self.of("proc")]
            choices += [f"{it} = {proc}" for it in self.of("who")]
        choices += [f"ismember({it}, Other)" for it in self.of("who")]
        for bag in self.of("bag"):
            i = self.name("i")
            choices.append(f"multisetcount({i}: {bag}, {bag}[{i}] = {self.num(None, 0)}) > 0")
        return rng.choice(choices)

    # Statements.

    def assignment(self, proc):
        rng = self.rng
        choices = [f"{it} := {self.num(proc, 2)}" for it in self.num_places(proc)]
        choices += [f"{it} := {self.bool(proc, 1)}" for it in self.bool_places(proc)]
        choices += [f"{it} := {rng.choice(self.labels)}" for it in self.of("label")]
        if proc:
            choices += [f"{it} := {proc}" for it in self.of("proc") + self.of("who")]
        choices += [f"undefine {it}" for it in self.of("proc")]
        if not self.plain:
            # rumur takes a copy of what is undefined for an error, and has no word for it.
            some = [rng.choice(["UNDEFINED", *self.of("proc")]) for _ in range(6)]
            for it in self.of("proc"):
                choices += [f"{it} := {other}" for other in some]
                choices += [f"take({it}, {other})" for other in some]
        choices += [f"{it} := {rng.choice(self.others)}" for it in self.of("who")]
        for bag in self.of("bag"):
            i, j = self.name("i"), self.name("i")
            choices.append(f"if multisetcount({i}: {bag}, true) < 2 then "
                           f"multisetadd({self.num(proc, 1)}, {bag}) end")
            choices.append(f"multisetremovepred({j}: {bag}, {bag}[{j}] = {self.num(None, 0)})")
        return rng.choice(choices)

    def statement(self, proc, depth):
        if depth == 0 or self.chance(0.5):
            return self.assignment(proc)
        rng, each = self.rng, self.name("p")
        some, other = self.statement(proc, depth - 1), self.statement(proc, depth - 1)
        choices = [
            f"if {self.bool(proc, 1)} then {some}; else {other}; end",
            f"{some};\n  {other}", f"step({self.num_place(proc)}, {self.num(proc, 1)})",
            f"for {each}: Num do {self.in_loop(proc)} end",
            f"switch {self.num(proc, 1)} case 0: {some}; case 1: {other}; else {some}; end",
        ]
        return rng.choice(choices)

    def num_place(self, proc):
        return self.rng.choice(self.num_places(proc))

    def in_loop(self, proc):
        at = self.num_place(proc)
        return f"if {self.bool(proc, 0)} then {at} := ({at} + 1) % (Top + 1) end"

    def start(self):
        lines = []
        for name, kind in self.variables:
            every = self.name("s")
            lines.append({
                "num": f"{name} := {self.rng.randint(0, self.top)}",
                "bool": f"{name} := {self.rng.choice(['true', 'false'])}",
                "label": f"{name} := {self.rng.choice(self.labels)}",
                "proc": f"undefine {name}",
                "array": f"for {every}: Proc do {name}[{every}] := 0 end",
                "flags": f"for {every}: Proc do {name}[{every}] := false end",
                "pair": f"{name}.n := 0; {name}.f := true",
                "who": f"{name} := {self.others[0]}",
                "bag": f"undefine {name}",
            }[kind])
        return "startstate\n  " + ";\n  ".join(lines) + ";\nend;"

    def model(self):
        self.types()
        self.state()
        self.lines += [
            "procedure step(var x: Num; more: Num);",
            "begin x := (x + more) % (Top + 1) end;",
            "procedure take(var x: Proc; y: Proc);",
            "begin if isundefined(x) then x := y end end;",
            self.start(),
        ]
        for number in range(self.rng.randint(2, 5)):
            proc = self.name("r") if self.chance(0.6) else None
            guard = self.bool(proc, self.rng.randint(0, 2))
            body = self.statement(proc, 2)
            rule = f'rule "rule {number}" {guard} ==> begin\n  {body};\nend;'
            self.lines.append(f"ruleset {proc}: Proc do\n{rule}\nend;" if proc else rule)
        if self.chance(0.5):
            self.lines.append(f'invariant "no harm" Top >= 0 & ({self.bool(None, 1)} -> true);')
        return "\n".join(self.lines) + "\n"


def counted(text):
    """Returns states and rules fired; None if the model does something wrong."""
    try:
        return Model(text).search(MAX_STATES)
    except ModelError:
        return None


def case(seed, number, plain=None):
    """Returns the counts of a random model, and its text; None for counts if it does something
    wrong. A plain one has no unions and no multisets, and does nothing wrong."""
    rng = random.Random(f"{seed} {number}")
    least = rng.choice([8, 40, 150, 400])
    fails = rng.random() < 0.1 and plain is None
    plain = rng.random() < 0.5 if plain is None else plain
    found = []
    for attempt in range(400):
        text = Maker(random.Random(f"{seed} {number} {attempt}"), plain).model()
        counts = counted(text)
        if counts is None:
            if fails:
                return None, text
        elif counts[0] <= MAX_STATES:
            found = sorted([*found, (counts, text)], reverse=True)[:1]
            if counts[0] >= least and not fails:
                break
    return found[0]


def main(count, seed):
    for number in range(count):
        counts, text = case(seed, number)
        expected = f"{counts[0]} states, {counts[1]} fired" if counts else "fails"
        print(f"=== seed {seed}, model {number}\n> {expected}\n{text}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
