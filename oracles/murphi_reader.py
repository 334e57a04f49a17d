"""The reader of the independent explorer of Murphi models (murphi.py): words, types, expressions.

It reads the language by itself, and turns a model into Python.
"""

import re

WORD = re.compile(
    r'(?P<blank>\s+|--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)'
    r'|(?P<text>"[^"\n]*")|(?P<sign>==>|:=|\.\.|->|!=|<=|>=|[][(){};:,.+*/%<>=!&|?-])',
    re.DOTALL,
)
KEYS = set(
    """alias array assert begin boolean by case choose clear const do else elsif end endalias endchoose
    endexists endfor endforall endfunction endif endprocedure endrecord endrule endruleset
    endstartstate endswitch endwhile enum error exists false for forall function if invariant ismember
    isundefined multiset multisetadd multisetcount multisetremove multisetremovepred of procedure put
    record return rule ruleset scalarset startstate switch then to true type undefine undefined union var
    while""".split()
)
MAX_TURNS = 1000
ABSENT = "(absent)"


class ModelError(Exception):
    """An error that a model runs into, or that is in its text."""


# What generated code calls.


def rd(value):
    if value is None:
        raise ModelError("undefined")
    return value


def ck(kind, value):
    if not kind.has(value):
        raise ModelError("range")
    return value


def ckc(kind, value):
    return value if value is None else ck(kind, value)


def cp(value):
    return [cp(part) for part in value] if isinstance(value, list) else value


def div(a, b):
    if b == 0:
        raise ModelError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rem(a, b):
    return a - b * div(a, b)


def fail(text):
    raise ModelError(text)


def steps(a, b, by):
    if by == 0:
        raise ModelError("a loop by 0")
    return range(a, b + (1 if by > 0 else -1), by)


def ix(kind, value):
    try:
        return kind.place[value]
    except KeyError:
        raise ModelError("index") from None


def at_slot(bag, slot):
    if not 0 <= slot < len(bag) or bag[slot] == ABSENT:
        raise ModelError("no such element")
    return slot


def add(bag, value):
    for slot, known in enumerate(bag):
        if known == ABSENT:
            bag[slot] = value
            return
    raise ModelError("full")


def slots(bag):
    return [slot for slot, value in enumerate(bag) if value != ABSENT]


class Kind:
    """A type: scalar (values, or bounds of a range), record, array, multiset."""

    def __init__(self, form, values=(), parts=(), size=0):
        self.form, self.values, self.parts, self.size = form, values, parts, size
        if form == "scalar":
            self.place = {value: number for number, value in enumerate(values)} if len(values) < 10**6 else {}

    def has(self, value):
        return value in self.values

    def fresh(self, clear=False):
        if self.form == "scalar":
            return self.values[0] if clear else None
        if self.form == "record":
            return [kind.fresh(clear) for _, kind in self.parts]
        if self.form == "array":
            return [self.parts[1].fresh(clear) for _ in self.parts[0].values]
        return [ABSENT] * self.size

    def freeze(self, value):
        if self.form == "scalar" or value == ABSENT:
            return value
        if self.form == "record":
            return tuple(kind.freeze(part) for (_, kind), part in zip(self.parts, value))
        if self.form == "array":
            return tuple(self.parts[1].freeze(part) for part in value)
        return tuple(sorted((self.parts[0].freeze(v) for v in value if v != ABSENT), key=repr))

    def thaw(self, value):
        if self.form == "scalar":
            return value
        if self.form == "record":
            return [kind.thaw(part) for (_, kind), part in zip(self.parts, value)]
        if self.form == "array":
            return [self.parts[1].thaw(part) for part in value]
        return [self.parts[0].thaw(v) for v in value] + [ABSENT] * (self.size - len(value))


class Reader:
    """Reads a model and writes Python."""

    def __init__(self, text, constants):
        self.words, at = [], 0
        while at < len(text):
            found = WORD.match(text, at)
            if not found:
                raise ModelError(f"no word at {text[at:at + 10]!r}")
            at = found.end()
            if found.lastgroup != "blank":
                word = found.group()
                if found.lastgroup == "name" and word.lower() in KEYS:
                    self.words.append(("key", word.lower()))
                else:
                    self.words.append((found.lastgroup, word))
        self.words.append(("end", ""))
        self.next = 0
        self.constants = constants
        self.scopes = [{}]
        self.kinds, self.variables, self.code = [Kind("scalar", (False, True))], [], []
        self.rules = {"startstate": [], "rule": [], "invariant": []}
        self.serial = 0
        self.env = dict(rd=rd, ck=ck, ckc=ckc, cp=cp, div=div, rem=rem, fail=fail, steps=steps, ix=ix, add=add,
                        at_slot=at_slot, slots=slots, K=self.kinds, ABSENT=ABSENT, MAX_TURNS=MAX_TURNS)

    # Words.

    def is_(self, *words):
        return self.words[self.next][1] in words and self.words[self.next][0] in ("key", "sign")

    def take(self):
        self.next += 1
        return self.words[self.next - 1][1]

    def skip(self, *words):
        found = self.is_(*words)
        self.next += found
        return found

    def need(self, *words):
        if not self.skip(*words):
            raise ModelError(f"{words} needed, not {self.words[self.next]}")

    def end(self, of):
        self.need("end", "end" + of)

    def name(self):
        if self.words[self.next][0] != "name":
            raise ModelError(f"a name needed, not {self.words[self.next]}")
        return self.take()

    def names(self):
        found = [self.name()]
        while self.skip(","):
            found.append(self.name())
        return found

    def find(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise ModelError(f"{name} is not declared")

    def unique(self, name):
        self.serial += 1
        return f"{name}_{self.serial}"

    def kind(self, kind):
        self.kinds.append(kind)
        return len(self.kinds) - 1

    # Types.

    def type_(self):
        if self.skip("boolean"):
            return 0
        if self.skip("enum"):
            self.need("{")
            values = self.names()
            self.need("}")
            number = self.kind(Kind("scalar", tuple(values)))
            for value in values:
                self.scopes[-1][value] = ("value", value, number)
            return number
        if self.skip("scalarset"):
            self.need("(")
            count = self.known()
            self.need(")")
            label = self.unique("set")
            return self.kind(Kind("scalar", tuple((label, value) for value in range(count))))
        if self.skip("union"):
            self.need("{")
            values = ()
            while not self.skip("}"):
                values += tuple(self.kinds[self.type_()].values)
                self.skip(",")
            return self.kind(Kind("scalar", values))
        if self.skip("record"):
            parts = []
            while not self.is_("end", "endrecord"):
                names = self.names()
                self.need(":")
                kind = self.kinds[self.type_()]
                parts += [(name, kind) for name in names]
                self.skip(";")
            self.end("record")
            return self.kind(Kind("record", parts=parts))
        if self.skip("array"):
            self.need("[")
            index = self.kinds[self.type_()]
            self.need("]")
            self.need("of")
            return self.kind(Kind("array", parts=(index, self.kinds[self.type_()])))
        if self.skip("multiset"):
            self.need("[")
            size = self.known()
            self.need("]")
            self.need("of")
            return self.kind(Kind("multiset", parts=(self.kinds[self.type_()],), size=size))
        if self.words[self.next][0] == "name" and self.find(self.words[self.next][1])[0] == "type":
            return self.find(self.take())[1]
        low = self.known()
        self.need("..")
        return self.kind(Kind("scalar", range(low, self.known() + 1)))

    def known(self):
        return eval(self.sum()[0], self.env)

    # Expressions: pairs of Python and a type's number, and for places of container and key.

    def expression(self):
        first = self.implication()
        if not self.skip("?"):
            return first
        yes = self.expression()
        self.need(":")
        no = self.expression()
        return (f"({self.value(yes)} if {self.value(first)} else {self.value(no)})", yes[1])

    def copied(self, operand):
        """Like value, of a scalar that is copied: undefined stays so."""
        return f"{operand[2]}[{operand[3]}]" if len(operand) == 4 else operand[0]

    def need_do(self):
        self.need("do", ":")

    def value(self, operand):
        if len(operand) == 2:
            return operand[0]
        return f"rd({operand[2]}[{operand[3]}])"

    def implication(self):
        left = self.chain(self.conjunction, {"|": "or"})
        if self.skip("->"):
            return (f"(not {self.value(left)} or {self.value(self.implication())})", 0)
        return left

    def conjunction(self):
        return self.chain(self.negation, {"&": "and"})

    def chain(self, below, signs):
        left = below()
        while self.is_(*signs):
            word = signs[self.take()]
            right = below()
            if word in ("div", "rem"):
                left = (f"{word}({self.value(left)}, {self.value(right)})", None)
            else:
                kind = 0 if word in ("and", "or") else None
                left = (f"({self.value(left)} {word} {self.value(right)})", kind)
        return left

    def negation(self):
        if self.skip("!"):
            return (f"(not {self.value(self.negation())})", 0)
        left = self.sum()
        signs = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
        if self.is_(*signs):
            word = signs[self.take()]
            return (f"({self.value(left)} {word} {self.value(self.sum())})", 0)
        return left

    def sum(self):
        return self.chain(self.product, {"+": "+", "-": "-"})

    def product(self):
        return self.chain(self.sign, {"*": "*", "/": "div", "%": "rem"})

    def sign(self):
        if self.skip("-"):
            return (f"(-{self.value(self.sign())})", None)
        if self.skip("+"):
            return self.sign()
        return self.primary()

    def primary(self):
        group, word = self.words[self.next]
        if group == "number":
            return (self.take(), None)
        if self.skip("true"):
            return ("True", 0)
        if self.skip("false"):
            return ("False", 0)
        if self.skip("("):
            inside = self.expression()
            self.need(")")
            return inside
        if self.is_("forall", "exists"):
            self.take()
            self.scopes.append({})
            loops = self.loops()
            body = self.value(self.expression())
            self.end(word)
            self.scopes.pop()
            over = " ".join(f"for {target} in {values}" for target, values in loops)
            return (f"{'all' if word == 'forall' else 'any'}({body} {over})", 0)
        if self.skip("undefined"):
            return ("None", None)
        if self.skip("isundefined"):
            self.need("(")
            place = self.place()
            self.need(")")
            return (f"({place[2]}[{place[3]}] is None)", 0)
        if self.skip("ismember"):
            self.need("(")
            value = self.value(self.expression())
            self.need(",")
            kind = self.type_()
            self.need(")")
            return (f"K[{kind}].has({value})", 0)
        if self.skip("multisetcount"):
            self.scopes.append({})
            target, bag = self.slot()
            self.need(",")
            test = self.value(self.expression())
            self.need(")")
            self.scopes.pop()
            return (f"sum(1 for {target} in slots({bag}) if {test})", None)
        item = self.find(self.name())
        self.next -= 1
        if item[0] == "value":
            self.take()
            return (repr(item[1]), item[2])
        if item[0] == "routine":
            self.take()
            return (self.call(item), item[3])
        return self.place()

    def call(self, item):
        _, name, parameters, _ = item
        self.need("(")
        given = []
        for by_reference, kind in parameters:
            operand = self.expression()
            if by_reference:
                given.append(f"({operand[2]}, {operand[3]})")
            elif self.kinds[kind].form == "scalar":
                given.append(f"ckc(K[{kind}], {self.copied(operand)})")
            else:
                given.append(f"cp({operand[2]}[{operand[3]}])")
            self.skip(",")
        self.need(")")
        return f"{name}({', '.join(['S'] + given)})"

    def slot(self):
        """`(name : multiset`: declares the name as a slot."""
        self.need("(")
        name = self.name()
        self.need(":")
        bag = self.place()
        local = self.unique(name)
        self.scopes[-1][name] = ("place", None, "L", repr(local))
        return f"L[{local!r}]", f"{bag[2]}[{bag[3]}]"

    def place(self):
        item = self.find(self.name())
        if item[0] != "place":
            raise ModelError("a place is needed")
        _, kind, container, key = item
        while self.is_(".", "["):
            whole, form = f"{container}[{key}]", self.kinds[kind]
            if self.take() == ".":
                field = self.name()
                number = [name for name, _ in form.parts].index(field)
                container, key, part = whole, str(number), form.parts[number][1]
            elif form.form == "array":
                index = self.value(self.expression())
                self.need("]")
                number = self.kinds.index(form.parts[0])
                container, key, part = whole, f"ix(K[{number}], {index})", form.parts[1]
            else:
                index = self.value(self.expression())
                self.need("]")
                container, key, part = whole, f"at_slot({whole}, {index})", form.parts[0]
            kind = self.kinds.index(part)
        return ("", kind, container, key)

    def loops(self):
        """Loops that are nested, up to `do`."""
        found = [self.loop()]
        while self.skip(";") and not self.is_("do"):
            found.append(self.loop())
        self.need_do()
        return found

    def loop(self):
        name = self.name()
        local = self.unique(name)
        if self.skip(":="):
            first = self.value(self.expression())
            self.need("to")
            last = self.value(self.expression())
            by = self.value(self.expression()) if self.skip("by") else "1"
            values, kind = f"steps({first}, {last}, {by})", None
        else:
            self.need(":")
            kind = self.type_()
            values = f"K[{kind}].values"
        self.scopes[-1][name] = ("place", kind, "L", repr(local))
        return f"L[{local!r}]", values
