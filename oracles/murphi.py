"""An independent, serial explorer of Murphi models: it reads the language by itself, turns a model
into Python, and counts states and rules that fire.

Usage: murphi.py MODEL [NAME=NUMBER ...]; prints states and rules fired, or the error.
"""

import itertools
import sys
from collections import deque

from murphi_reader import ABSENT, Kind, ModelError, Reader, cp

END = ("end", "else", "elsif", "case", "endif", "endfor", "endwhile", "endswitch", "endalias",
       "endrule", "endstartstate", "endfunction", "endprocedure", "endruleset", "endchoose")


class Model(Reader):
    """A model that has been read, and can be searched."""

    def __init__(self, text, constants=()):
        super().__init__(text, dict(constants))
        scope = ([], [])
        while self.words[self.next][0] != "end":
            if self.skip(";"):
                continue
            if self.is_("const", "type", "var"):
                self.declarations(None)
            elif self.is_("function", "procedure"):
                self.routine()
            else:
                self.rule(scope)
        source = "\n".join(self.code)
        exec(compile(source, "model", "exec"), self.env)

    # Declarations.

    def declarations(self, out):
        while self.is_("const", "type", "var"):
            word = self.take()
            while self.words[self.next][0] == "name" and (
                    word == "var" or self.words[self.next + 1][1] == ":"):
                names = self.names()
                self.need(":")
                if word == "const":
                    operand = self.expression()
                    value = self.constants.pop(names[0], None)
                    value = eval(operand[0], self.env) if value is None else value
                    self.scopes[-1][names[0]] = ("value", value, operand[1])
                elif word == "type":
                    self.scopes[-1][names[0]] = ("type", self.type_())
                else:
                    kind = self.type_()
                    for name in names:
                        if out is None:
                            self.scopes[-1][name] = ("place", kind, "S", str(len(self.variables)))
                            self.variables.append(self.kinds[kind])
                        else:
                            local = self.unique(name)
                            self.scopes[-1][name] = ("place", kind, "L", repr(local))
                            out.append(f"L[{local!r}] = K[{kind}].fresh()")
                if not self.skip(";"):
                    break

    def routine(self):
        word = self.take()
        name = self.name()
        made, parameters, formals, out = self.unique("f_" + name), [], [], []
        self.scopes.append({})
        self.need("(")
        while not self.skip(")"):
            by_reference = self.skip("var")
            names = self.names()
            self.need(":")
            kind = self.type_()
            for one in names:
                local = self.unique(one)
                parameters.append((by_reference, kind))
                formals.append(local)
                out.append(f"L[{local!r}] = {local}")
                at = f"L[{local!r}]"
                self.scopes[-1][one] = (("place", kind, f"{at}[0]", f"{at}[1]") if by_reference
                                        else ("place", kind, "L", repr(local)))
            self.skip(";", ",")
        self.result = None
        if word == "function":
            self.need(":")
            self.result = self.type_()
        self.need(";")
        self.scopes[0][name] = ("routine", made, parameters, self.result)
        self.declarations(out)
        self.skip("begin")
        out += self.statements()
        self.end(word)
        self.scopes.pop()
        self.define(made, ["S"] + formals, out)
        self.result = None

    def define(self, name, formals, lines):
        self.code.append(f"def {name}({', '.join(formals)}):")
        self.code += ["    " + line for line in ["L = {}"] + lines + ["return None"]]

    # Statements: lists of lines.

    def statements(self):
        lines = []
        while True:
            while self.skip(";"):
                pass
            if self.is_(*END):
                return lines or ["pass"]
            lines += self.statement()

    def body(self):
        return ["    " + line for line in self.statements()]

    def statement(self):
        if self.words[self.next][0] == "name":
            item = self.find(self.words[self.next][1])
            if item[0] == "routine":
                self.take()
                return [self.call(item)]
            to = self.place()
            self.need(":=")
            value = self.expression()
            if self.kinds[to[1]].form == "scalar":
                # The place comes first, as errors do.
                return [f"C, X = {to[2]}, {to[3]}", f"C[X] = ckc(K[{to[1]}], {self.copied(value)})"]
            if value[0] == "None":
                return [f"{to[2]}[{to[3]}] = K[{to[1]}].fresh()"]
            return [f"{to[2]}[{to[3]}] = cp({value[2]}[{value[3]}])"]
        word = self.take()
        handler = getattr(self, "do_" + word, None)
        if handler is None:
            raise ModelError(f"no statement: {word}")
        return handler()

    def do_if(self):
        lines, word = [], "if"
        while True:
            lines.append(f"{word} {self.value(self.expression())}:")
            self.need("then")
            lines += self.body()
            if self.skip("elsif"):
                word = "elif"
                continue
            if self.skip("else"):
                lines += ["else:"] + self.body()
            self.end("if")
            return lines

    def do_switch(self):
        local = self.unique("switch")
        lines, word = [f"L[{local!r}] = {self.value(self.expression())}"], "if"
        while self.skip("case"):
            cases = [self.value(self.expression())]
            while self.skip(","):
                cases.append(self.value(self.expression()))
            self.need(":")
            tests = " or ".join(f"L[{local!r}] == {case}" for case in cases)
            lines += [f"{word} {tests}:"] + self.body()
            word = "elif"
        if self.skip("else"):
            lines += ["else:" if word == "elif" else "if True:"] + self.body()
        self.end("switch")
        return lines

    def do_for(self):
        self.scopes.append({})
        lines = []
        for depth, (target, values) in enumerate(self.loops()):
            lines.append("    " * depth + f"for {target} in {values}:")
        lines += ["    " * (len(lines) - 1) + line for line in self.body()]
        self.end("for")
        self.scopes.pop()
        return lines

    def do_while(self):
        local = self.unique("turns")
        test = self.value(self.expression())
        self.need_do()
        lines = [f"L[{local!r}] = 0", f"while {test}:", f"    L[{local!r}] += 1",
                 f"    if L[{local!r}] > MAX_TURNS: fail('turns')"] + self.body()
        self.end("while")
        return lines

    def do_alias(self):
        self.scopes.append({})
        lines = self.aliases() + self.statements()
        self.end("alias")
        self.scopes.pop()
        return lines

    def aliases(self):
        lines = []
        while True:
            name = self.name()
            self.need(":")
            of = self.expression()
            at = f"L[{self.unique(name)!r}]"
            if len(of) == 4:
                lines.append(f"{at} = ({of[2]}, {of[3]})")
                self.scopes[-1][name] = ("place", of[1], f"{at}[0]", f"{at}[1]")
            else:
                lines.append(f"{at} = {of[0]}")
                self.scopes[-1][name] = ("place", of[1], "L", at[2:-1])
            if not self.skip(";") or self.is_("do"):
                self.need_do()
                return lines

    def do_clear(self, clear=True):
        to = self.place()
        return [f"{to[2]}[{to[3]}] = K[{to[1]}].fresh({clear})"]

    def do_undefine(self):
        return self.do_clear(False)

    def do_error(self):
        return [f"fail({self.take()})"]

    def do_assert(self):
        test = self.value(self.expression())
        if self.words[self.next][0] == "text":
            self.take()
        return [f"if not {test}: fail('assertion')"]

    def do_put(self):
        if self.words[self.next][0] == "text":
            self.take()
        else:
            self.expression()
        return ["pass"]

    def do_return(self):
        if getattr(self, "result", None) is None:
            return ["return None"]
        return [f"return ck(K[{self.result}], {self.value(self.expression())})"]

    def do_multisetadd(self):
        self.need("(")
        item = self.expression()
        self.need(",")
        bag = self.place()
        self.need(")")
        kind = self.kinds[bag[1]].parts[0]
        if kind.form == "scalar":
            value = f"ckc(K[{self.kinds.index(kind)}], {self.copied(item)})"
        else:
            value = f"cp({item[2]}[{item[3]}])"
        return [f"add({bag[2]}[{bag[3]}], {value})"]

    def do_multisetremove(self):
        self.need("(")
        slot = self.value(self.expression())
        self.need(",")
        bag = self.place()
        self.need(")")
        at = f"{bag[2]}[{bag[3]}]"
        return [f"{at}[at_slot({at}, {slot})] = ABSENT"]

    def do_multisetremovepred(self):
        self.scopes.append({})
        target, bag = self.slot()
        self.need(",")
        test = self.value(self.expression())
        self.need(")")
        self.scopes.pop()
        return [f"for {target} in slots({bag}):", f"    if {test}: {bag}[{target}] = ABSENT"]

    # Rules: Python functions of state and parameters that return False if the guard does not hold.

    def rule(self, scope):
        domains, prelude = scope
        word = self.take()
        if word in ("ruleset", "choose", "alias"):
            self.scopes.append({})
            domains, prelude = list(domains), list(prelude)
            if word == "ruleset":
                while True:
                    name = self.name()
                    local = self.unique(name)
                    if self.skip(":="):
                        low = self.known()
                        self.need("to")
                        kind = self.kind(Kind("scalar", range(low, self.known() + 1)))
                        if self.skip("by"):
                            self.known()
                    else:
                        self.need(":")
                        kind = self.type_()
                    self.scopes[-1][name] = ("place", kind, "L", repr(local))
                    domains.append((local, self.kinds[kind].values))
                    if not self.skip(";", ",") or self.is_("do"):
                        self.need_do()
                        break
            elif word == "choose":
                self.next -= 1
                self.words[self.next] = ("sign", "(")
                target, bag = self.slot()
                self.need_do()
                local = eval(target[2:-1])
                size = self.kinds[self.bag_kind].size
                domains.append((local, range(size)))
                prelude.append(f"if {target} not in slots({bag}): return False")
            else:
                prelude += self.aliases()
            while not self.is_("end", "end" + word):
                if not self.skip(";"):
                    self.rule((domains, prelude))
            self.end(word)
            self.scopes.pop()
            return
        label = self.take() if self.words[self.next][0] == "text" else word
        name, lines = self.unique(word), list(prelude)
        self.scopes.append({})
        self.result = None
        if word == "invariant":
            lines.append(f"return bool({self.value(self.expression())})")
        else:
            if word == "rule" and not self.is_("begin", "var", "const", "type"):
                lines.append(f"if not {self.value(self.expression())}: return False")
                self.need("==>")
            self.declarations(lines)
            self.skip("begin")
            lines += self.statements()
            self.end(word)
        self.scopes.pop()
        starts = [f"L[{local!r}] = P[{number}]" for number, (local, _) in enumerate(domains)]
        self.define(name, ["S", "P"], starts + lines)
        self.rules[word].append((label, name, [values for _, values in domains]))

    def place(self):
        found = super().place()
        self.bag_kind = found[1]
        return found

    # The search.

    def freeze(self, state):
        return tuple(kind.freeze(part) for kind, part in zip(self.variables, state))

    def thaw(self, frozen):
        return [kind.thaw(part) for kind, part in zip(self.variables, frozen)]

    def fire(self, which, frozen):
        """Yields the states that instances of rules lead to."""
        for _, name, domains in self.rules[which]:
            run = self.env[name]
            for values in itertools.product(*domains):
                state = self.thaw(frozen) if frozen else [kind.fresh() for kind in self.variables]
                if run(state, values) is not False:
                    yield self.freeze(state)

    def search(self, most=None):
        """Returns states and rules fired, of all states or a few more than `most`. Raises ModelError
        at the first error."""
        known, queue, fired = set(), deque(), 0
        for state in self.fire("startstate", None):
            if state not in known:
                known.add(state)
                queue.append(state)
        while queue and (most is None or len(known) <= most):
            frozen = queue.popleft()
            for label, name, domains in self.rules["invariant"]:
                for values in itertools.product(*domains):
                    if not self.env[name](self.thaw(frozen), values):
                        raise ModelError(f"invariant {label}")
            for state in self.fire("rule", frozen):
                fired += 1
                if state not in known:
                    known.add(state)
                    queue.append(state)
        return len(known), fired


def main():
    constants = [word.split("=") for word in sys.argv[2:]]
    with open(sys.argv[1], encoding="utf-8") as file:
        model = Model(file.read(), [(name, int(value)) for name, value in constants])
    sys.setrecursionlimit(10_000)
    print(*model.search())


if __name__ == "__main__":
    try:
        main()
    except ModelError as error:
        print("error:", error)
        sys.exit(1)
