"""Random programs of global arrays and dictionaries against NumPy and a dictionary.

A program is drawn here, and executed by all ranks of one job; each rank executes its own lines, with
a barrier between two, and rank 0 compares with the model.
"""

import json
import os

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CASES = {"night": 100}.get(os.environ.get("CLUMP_TEST_TIER"), 10)
N = 37
RUNNER = """
import clump, json, sys
import numpy as np
w = clump.world()
steps = json.load(open(sys.argv[1]))
spread, dtype = steps[0]
reads = []
g, d = clump.zeros(37, dtype, spread), clump.Dict()
for rank, op, where, values in steps[1:]:
    if rank % w.size == w.rank:
        if op == 'set':
            g[where] = np.array(values, dtype)
        elif op == 'slice':
            g[where[0]:where[0] + len(values)] = np.array(values, dtype)
        elif op == 'local':
            view = g.local
            view[:] = view + 1
            del view
        elif op == 'one':
            g[where[0]] = values[0]
        elif op == 'dset':
            d[where[0]] = values[0]
        elif op == 'ddel':
            d.pop(where[0], None)
        elif op == 'dadd':
            d.add(where[0], values[0])
        elif op == 'dmany':
            d.update(zip(where, values))
        elif op == 'ddefault':
            d.setdefault(where[0], values[0])
        elif op == 'dclear':
            d.clear()
        elif op == 'dread':
            reads.append([d.get_many(where, -1), len(d), where[0] in d, sorted(d.items())])
        else:
            g.update(where, np.array(values, dtype), op)
    w.barrier()
whole = g[:].tolist()
reads = w.gather(reads)
if w.rank == 0:
    print(json.dumps([whole, sorted(d.items()), [len(each) for each in reads], sum(reads, [])]))
w.barrier()
g.free()
"""

indexes = st.lists(st.integers(-N, N - 1), min_size=1, max_size=12)


@st.composite
def steps(draw):
    dtype = draw(st.sampled_from(["i8", "i4", "u4", "i2", "u1", "f8", "f4"]))
    spread = draw(st.sampled_from(["block", "cyclic", 2, 5]))
    ops = ["set", "slice", "local", "one", "add", "min", "max"]
    ops += ["dset", "ddel", "dadd", "dmany", "ddefault", "dclear", "dread", "dread"]
    ops += [] if dtype[0] == "f" else ["and", "or", "xor"]
    program = [[spread, dtype]]
    for _ in range(draw(st.integers(3, 14))):
        op = draw(st.sampled_from(ops))
        where = draw(indexes)
        if op in ("set", "slice"):
            where = sorted({at % N for at in where})
        values = [draw(st.integers(0, 9)) for _ in where]
        if op == "slice":
            where = [min(where[0], N - len(values))]
        program.append([draw(st.integers(0, 5)), op, where, values])
    return program


def expected(program):
    (_, dtype), model, pairs = program[0], np.zeros(N, program[0][1]), {}
    reads = [[] for _ in range(4)]
    functions = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    for rank, op, where, values in program[1:]:
        given_values = np.array(values, dtype)
        if op == "set":
            model[where] = given_values
        elif op == "slice":
            model[where[0] : where[0] + len(values)] = given_values
        elif op == "one":
            model[where[0]] = values[0]
        elif op == "dset":
            pairs[where[0]] = values[0]
        elif op == "ddel":
            pairs.pop(where[0], None)
        elif op == "dadd":
            pairs[where[0]] = pairs.get(where[0], 0) + values[0]
        elif op == "dmany":
            pairs.update(zip(where, values))
        elif op == "ddefault":
            pairs.setdefault(where[0], values[0])
        elif op == "dclear":
            pairs.clear()
        elif op == "dread":
            found = [pairs.get(key, -1) for key in where]
            items = sorted([k, v] for k, v in pairs.items())
            reads[rank % 4].append([found, len(pairs), where[0] in pairs, items])
        elif op == "local":
            model[places(program[0][0], rank)] += np.array(1, dtype)
        else:
            functions[op].at(model, where, given_values)
    counts = [len(each) for each in reads]
    return [model.tolist(), sorted([k, v] for k, v in pairs.items()), counts, sum(reads, [])]


def places(spread, rank, ranks=4):
    block = {"block": -(-N // ranks), "cyclic": 1}.get(spread, spread)
    return [at for at in range(N) if at // block % ranks == rank % ranks]


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=steps(), nodes=st.sampled_from([1, 2]))
def test_random_programs_agree_with_their_models(run, tmp_path, program, nodes):
    given_file = tmp_path / "steps.json"
    given_file.write_text(json.dumps(program))
    job = run(RUNNER, given_file, n=4, nodes=nodes)
    assert json.loads(job.out) == expected(program), (program, job)
