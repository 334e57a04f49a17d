"""Checks runs that `replay` of clump-loggp plays on slower networks (M5) by linear programs.

    cargo run -p clump-loggp --example replay_cases -- 1 40 > cases.json
    python3 oracles/check_replay.py cases.json

Every moment of a run is a variable, every dependency of it a constraint `later >= earlier + time`,
and the end of the run the least value that the constraints allow (PyPI: scipy, HiGHS). Compared
are the end at each setting of o, g, L and G; the number of each on the longest path, which must lie
between the slopes of the end to the left and to the right; and the largest latency within a bound,
which is the solution of another program. Times of phases are those between moments of the program
whose solution has the least sum of all moments, each of which is then as early as it can be. Prints what was compared; exits with 1 and the case
otherwise.
"""

import json
import sys

import numpy
from scipy.optimize import linprog
from scipy.sparse import coo_array

SLACK = 1e-3  # ns


class Program:
    """Constraints `later >= earlier + constant + factor * latency`, of a run at one setting."""

    def __init__(self):
        self.rows, self.count = [], 0
        # Beginnings and ends of phases: rank, name, the moment before, and the time since.
        self.marks = []

    def moment(self):
        self.count += 1
        return self.count - 1

    def after(self, later, earlier, constant, latencies=0):
        self.rows.append((later, earlier, constant, latencies))

    def phases(self):
        """Returns the time of each phase: of all its turns, of the rank that takes longest."""
        moments, begun, sums = self.solved(None), {}, {}
        for rank, name, is_end, before, since in self.marks:
            at = moments[before] + since
            if is_end:
                sums[name, rank] = sums.get((name, rank), 0.0) + at - begun.pop((name, rank))
            else:
                begun[name, rank] = at
        longest = {}
        for (name, _), time in sums.items():
            longest[name] = max(time, longest.get(name, 0.0))
        return longest

    def solved(self, end, limit=None):
        """Returns the least end; with a limit the largest latency that the end allows; of no end,
        the earliest time of each moment."""
        row, column, value, bound = [], [], [], []
        for at, (later, earlier, constant, latencies) in enumerate(self.rows):
            # earlier - later + latencies * L <= -constant
            entries = [(later, -1.0)]
            if earlier is not None:
                entries.append((earlier, 1.0))
            if limit is not None and latencies:
                entries.append((self.count, float(latencies)))
            for variable, factor in entries:
                row.append(at), column.append(variable), value.append(factor)
            bound.append(-float(constant))
        variables = self.count + (limit is not None)
        limits = [(0, None)] * variables
        cost = numpy.zeros(variables)
        if end is None:
            cost[:] = 1.0
        elif limit is None:
            cost[end] = 1.0
        else:
            limits[end] = (0, limit)
            cost[self.count] = -1.0
        matrix = coo_array((value, (row, column)), shape=(len(self.rows), variables)).tocsr()
        result = linprog(cost, A_ub=matrix, b_ub=bound, bounds=limits, method="highs")
        if result.status == 3 and limit is not None:
            return float("inf")
        if result.status != 0:
            raise ValueError(f"the solver says: {result.message}")
        if end is None:
            return result.x
        return result.fun if limit is None else -result.fun


def program(ranks, short, bulk):
    """Returns the constraints of a run, and the moment of its end."""
    made = Program()
    left, meetings = {}, {}

    def name(table, key):
        if key not in table:
            table[key] = made.moment()
        return table[key]

    end = made.moment()
    for me, steps in enumerate(ranks):
        now, free = made.moment(), made.moment()
        passed = 0  # since `now`
        for kind, *words in steps:
            if kind == "compute":
                passed += words[0]
            elif kind == "send":
                to, key, size, is_bulk, own = words
                knob, size = (bulk, size) if is_bulk else (short, 0)
                passed += knob["send"]
                injected, gone = made.moment(), name(left, (me, to, key))
                made.after(injected, now, passed)
                made.after(injected, free, 0)
                made.after(gone, injected, size * knob["byte_ps"] // 1000)
                free = made.moment()
                added = size * knob["stream_ps"] // 1000
                busy = knob["gap"] + added if own is None else max(knob["gap"], own + added)
                made.after(free, injected, busy)
            elif kind == "receive":
                sender, key, transit = words
                arrived = made.moment()
                made.after(arrived, now, passed)
                # Latency and overheads of both classes are one setting.
                made.after(arrived, name(left, (sender, me, key)), transit + short["latency"], 1)
                now, passed = arrived, short["receive"]
            elif kind == "meet":
                made.after(name(meetings, words[0]), now, passed)
            elif kind == "part":
                gone = made.moment()
                made.after(gone, now, passed)
                made.after(gone, name(meetings, words[0]), words[1])
                now, passed = gone, 0
            elif kind in ("phase", "phase end"):
                made.marks.append((me, words[0], kind == "phase end", now, passed))
            elif kind not in ("wait", "wait end", "handled"):
                raise ValueError(f"an unknown step, {kind}")
        made.after(end, now, passed)
    return made, end


# The parts of a setting that a parameter is, and their values of 1 ns (per byte).
PARAMETERS = {
    "overheads": {"send": 1, "receive": 1},
    "latencies": {"latency": 1},
    "gaps": {"gap": 1},
    "bytes": {"byte_ps": 1000, "stream_ps": 1000},
}


def moved(knob, name, by):
    """Returns a setting with one parameter changed by some ns."""
    return knob | {key: knob[key] + by * unit for key, unit in PARAMETERS[name].items()}


def check(case):
    compared = 0
    for played in case["played"]:
        short, bulk = played["short"], played["bulk"]
        if played["unmatched"]:
            raise ValueError("a message that nobody sent")
        expected = solve(case, short, bulk)
        if abs(expected - played["end"]) > SLACK:
            raise ValueError(f"{played['text'] or 'no setting'}: {played['end']} ns, not {expected}")
        phases = program(case["ranks"], short, bulk)[0].phases()
        for name, time in played["phases"]:
            # A phase without an end has no time.
            if abs(phases.get(name, 0.0) - time) > SLACK:
                raise ValueError(f"{played['text']}: phase {name} takes {time} ns, not {phases}")
            compared += 1
        if missing := phases.keys() - {name for name, _ in played["phases"]}:
            raise ValueError(f"{played['text']}: no time of the phases {missing}")
        for name, parts in PARAMETERS.items():
            slopes = [0, solve(case, moved(short, name, 1), moved(bulk, name, 1)) - expected]
            if all(bulk[key] >= unit for key, unit in parts.items()):
                slopes[0] = expected - solve(case, moved(short, name, -1), moved(bulk, name, -1))
            if not slopes[0] - SLACK <= played[name] <= slopes[1] + SLACK:
                raise ValueError(f"{played['text']}: {played[name]} {name}, not {slopes}")
            compared += 1
        compared += 1
    first = case["played"][0]
    made, end = program(case["ranks"], first["short"], first["bulk"])
    for tolerated in case["tolerated"]:
        limit = int(first["end"] * tolerated["slowdown"])
        most, has = made.solved(end, limit), tolerated["latency"]
        if has is None:
            right = most >= case["most"] - SLACK
        else:
            right = has - SLACK <= most < has + 1
        if not right:
            raise ValueError(f"tolerates {has} ns at {tolerated['slowdown']}, not {most}")
        compared += 1
    return compared


def solve(case, short, bulk):
    made, end = program(case["ranks"], short, bulk)
    return made.solved(end)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    compared = 0
    for number, case in enumerate(cases):
        try:
            compared += check(case)
        except ValueError as error:
            sys.exit(f"case {number}: {error}")
    if not compared:
        sys.exit("there are no cases")
    print(f"{len(cases)} runs, {compared} figures compared")
