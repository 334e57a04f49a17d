#!/usr/bin/env python3
"""Checks virtual time: runs random programs in it, and computes their times a second way.

    virtual_time.py CLUMP PROGRAM [COUNT] [SEED]

CLUMP is the `clump` of this build, PROGRAM the test program `virtual-time`. Each random program
(compute, send, wait, barrier, one-sided operations; see the test program) runs on a random machine;
the time at which each rank ends, and the values that it has read, must be those of `simulate`, to
the nanosecond. `simulate` shares nothing with clump: it is a heap of events, where clump hands a
token from process to process.
"""

import heapq
import random
import subprocess
import sys
import tempfile

COLLECTIVES, PROGRAM, ONE_SIDED = 0, 1, 2
ENDPOINTS = (PROGRAM, ONE_SIDED)
SEND, POLL = 0, 1


class Path:
    """LogGP's parameters of one kind of path, in ns, and G in ps a byte."""

    def __init__(self, o_send, o_receive, g, g_receive, latency, byte_ps):
        self.o_send, self.o_receive, self.g, self.g_receive = o_send, o_receive, g, g_receive
        self.latency, self.byte_ps = latency, byte_ps

    def bytes(self, count):
        return (count - 1) * self.byte_ps // 1000

    def text(self):
        us = [value / 1000 for value in (self.o_send, self.o_receive, self.g, self.g_receive)]
        return (
            f"o_send_us = {us[0]}\no_receive_us = {us[1]}\ng_us = {us[2]}\ng_receive_us = {us[3]}\n"
            f"L_us = {self.latency / 1000}\nmb_per_s = {1e6 / self.byte_ps!r}\n"
        )


class Machine:
    def __init__(self, node, network, nics, execute):
        self.node, self.network, self.nics, self.execute = node, network, nics, execute

    def text(self):
        head = f"nics = {self.nics}\nexecute_us = {self.execute / 1000}\n"
        return f"{head}[node]\n{self.node.text()}[network]\n{self.network.text()}"


def nodes_of(ranks, nodes):
    """The node of each rank: as evenly as possible, the first nodes have one more."""
    each, more = divmod(ranks, nodes)
    return [node for node in range(nodes) for _ in range(each + (node < more))]


class Rank:
    def __init__(self, number, program):
        self.number, self.program = number, list(program)
        self.clock, self.sent, self.pending = 0, 0, 0
        self.inbox = {COLLECTIVES: [], PROGRAM: [], ONE_SIDED: []}
        self.handled, self.awaited = {"w": 0, "a": 0}, {"w": 0, "a": 0}
        self.parts, self.barriers = set(), 0
        self.sleeping, self.ends, self.turn = None, None, 0
        self.run = None
        # One-sided operations: answers by request, values read, and requests by node with those
        # that are known to be executed.
        self.answers, self.requests, self.values = {}, 0, []
        self.begun, self.known = {}, {}


def simulate(machine, ranks, nodes, programs):
    """Returns the time at which each rank ends, and the values that it has read."""
    node_of = nodes_of(ranks, nodes)
    # Behind the ranks, an executor of one-sided operations for each of several nodes.
    node_of += list(range(nodes)) if nodes > 1 else []
    first = {node: node_of.index(node) for node in node_of}
    events, out, into, serial = [], {}, {}, [0]
    all_ranks = [Rank(number, program) for number, program in enumerate(programs)]
    all_ranks += [Rank(number, []) for number in range(ranks, len(node_of))]
    words = [0] * ranks

    def path(a, b):
        return machine.node if node_of[a] == node_of[b] else machine.network

    def nic(rank, other):
        if node_of[rank] == node_of[other]:
            return ("rank", rank)
        place = rank - first[node_of[rank]] if rank < ranks else 0
        return ("node", node_of[rank], place % machine.nics)

    def push(time, kind, *rest):
        serial[0] += 1
        heapq.heappush(events, (time, kind, *rest[:2], serial[0], rest[2:]))

    def send(rank, to, endpoint, what, size=1):
        rank.clock += path(rank.number, to).o_send
        push(rank.clock, SEND, rank.number, rank.sent, to, endpoint, what, max(size, 1))
        rank.sent += 1

    def deliver(time, source, number, to, endpoint, what, size):
        costs, key = path(source, to), (source, to)
        start = max(time, out.get(nic(*key), 0))
        out[nic(*key)] = start + max(costs.g, costs.bytes(size))
        back = nic(to, source)
        head = max(start + costs.latency, into.get(back, 0))
        into[back] = head + max(costs.g_receive, costs.bytes(size))
        due = head + costs.bytes(size)
        target = all_ranks[to]
        heapq.heappush(target.inbox[endpoint], (max(due, 1), source, number, what))
        if target.sleeping is not None and endpoint in target.sleeping:
            wake(target)

    def wake(rank):
        dues = [rank.inbox[endpoint][0][0] for endpoint in rank.sleeping if rank.inbox[endpoint]]
        if dues:
            push(max(rank.clock, min(dues)), POLL, rank.number, 0, rank.turn)

    def handle(rank, endpoint):
        """Handles what is due; returns how many."""
        now, count, inbox = rank.clock, 0, rank.inbox[endpoint]
        while inbox and inbox[0][0] <= now:
            _, source, _, what = heapq.heappop(inbox)
            rank.clock += path(source, rank.number).o_receive
            count += 1
            if what == "message":
                rank.handled["w"] += 1
            elif what == "ask":
                rank.handled["w"] += 1
                send(rank, source, PROGRAM, "answer")
            elif what == "answer":
                rank.handled["a"] += 1
            elif what[0] == "operation":
                rank.clock += machine.execute
                perform(rank, source, *what[1:])
            elif what[0] == "performed":
                rank.answers[what[1]] = what[2]
            else:
                rank.parts.add(what)
        return count

    def perform(rank, source, number, kind, home, size):
        """Executes an operation on another node, and answers it."""
        value = words[home]
        words[home] += kind in "uf"
        if kind in "flgQ":
            send(rank, source, ONE_SIDED, ("performed", number, value), size if kind == "g" else 1)

    def request(rank, kind, home, node, size):
        """Sends an operation to the executor of a node; returns its number."""
        charge(rank)
        rank.requests += 1
        number = rank.requests
        rank.begun[node] = rank.begun.get(node, 0) + (kind != "Q")
        what = ("operation", number, kind, home, size)
        send(rank, ranks + node, ONE_SIDED, what, size if kind == "x" else 1)
        yield from poll(rank, ONE_SIDED)
        return number

    def operate(rank, kind, home, size):
        if node_of[home] == node_of[rank.number]:
            if kind in "ufl":
                charge(rank)
                rank.clock += 10
                yield rank.clock
                rank.values += [words[home]] if kind in "fl" else []
                words[home] += kind in "uf"
            return
        number = yield from request(rank, kind, home, node_of[home], size)
        if kind in "flg":
            yield from wait(rank, ENDPOINTS, lambda: number in rank.answers)
            rank.values += [rank.answers[number]] if kind in "fl" else []

    def quiet(rank):
        asked = []
        for node in range(nodes):
            begun = rank.begun.get(node, 0)
            if begun > rank.known.get(node, 0):
                number = yield from request(rank, "Q", 0, node, 1)
                asked.append((node, begun, number))
        for node, begun, number in asked:
            yield from wait(rank, ENDPOINTS, lambda number=number: number in rank.answers)
            rank.known[node] = begun

    def serve(rank):
        while True:
            if (yield from poll(rank, ONE_SIDED)) == 0:
                rank.sleeping = (ONE_SIDED,)
                yield None
                rank.sleeping = None

    def charge(rank):
        rank.clock, rank.pending = rank.clock + rank.pending, 0

    def poll(rank, endpoint):
        """A turn at this rank's time, when all that is due by then is known."""
        yield rank.clock
        return handle(rank, endpoint)

    def wait(rank, endpoints, done):
        if done():
            return
        charge(rank)
        while True:
            count = 0
            for endpoint in endpoints:
                count += yield from poll(rank, endpoint)
            if done():
                return
            if count == 0:
                rank.sleeping = endpoints
                yield None
                rank.sleeping = None

    def barrier(rank):
        rank.barriers += 1
        distance, step = 1, 0
        while distance < ranks:
            charge(rank)
            to, source = (rank.number + distance) % ranks, (rank.number - distance) % ranks
            send(rank, to, COLLECTIVES, (rank.barriers, step, rank.number))
            yield from poll(rank, COLLECTIVES)
            part = (rank.barriers, step, source)
            yield from wait(rank, (COLLECTIVES, *ENDPOINTS), lambda: part in rank.parts)
            distance, step = 2 * distance, step + 1

    def execute(rank):
        for word in rank.program:
            what, (number, _, size) = word[0], word[1:].partition(":")
            number = int(number or 0)
            if what == "c":
                rank.pending += number
            elif what in "sq":
                charge(rank)
                kind = "ask" if what == "q" else "message"
                send(rank, number, PROGRAM, kind, int(size or 1))
                yield from poll(rank, PROGRAM)
            elif what in "wa":
                rank.awaited[what] += number
                enough = rank.awaited[what]
                done = lambda what=what, enough=enough: rank.handled[what] >= enough
                yield from wait(rank, ENDPOINTS, done)
            elif what in "uflgx":
                yield from operate(rank, what, number, int(size or 1))
            elif what == "Q":
                yield from quiet(rank)
            elif what == "p":
                charge(rank)
                count = yield from poll(rank, PROGRAM)
                rank.clock += 0 if count else 10
            elif what == "b":
                yield from barrier(rank)
        charge(rank)
        rank.ends = rank.clock

    def resume(rank, time):
        rank.clock, rank.turn = max(rank.clock, time), rank.turn + 1
        at = next(rank.run, "ended")
        if at is None:
            wake(rank)
        elif at != "ended":
            push(at, POLL, rank.number, 0, rank.turn)

    for rank in all_ranks:
        rank.run = execute(rank) if rank.number < ranks else serve(rank)
        resume(rank, 0)
    while events:
        time, kind, number, sequence, _, rest = heapq.heappop(events)
        if kind == SEND:
            deliver(time, number, sequence, *rest)
        else:
            # A rank may be woken by several messages; the first counts.
            rank, [turn] = all_ranks[number], rest
            if rank.turn == turn:
                resume(rank, time)
    del all_ranks[ranks:]
    assert all(rank.ends is not None for rank in all_ranks), "a program that does not end"
    return [(rank.ends, rank.values) for rank in all_ranks]


def random_machine(dice):
    def path():
        o_send, o_receive, g = dice.randint(1, 9000), dice.randint(0, 9000), dice.randint(0, 20000)
        g_receive = dice.choice([0, 0, dice.randint(0, 20000)])
        latency = dice.choice([0, dice.randint(0, 30000)])
        # Divisors of 10^6, so that the file's MB/s are exact.
        return Path(o_send, o_receive, g, g_receive, latency, dice.choice([1000, 8000, 31250]))

    execute = dice.choice([0, dice.randint(0, 5000)])
    return Machine(path(), path(), dice.randint(1, 3), execute)


def random_programs(dice, ranks):
    """Programs that end: each waits for messages that others send without waiting for it."""
    programs = [[] for _ in range(ranks)]
    waiting, answers = [0] * ranks, [0] * ranks
    for _ in range(dice.randint(1, 14 * ranks)):
        rank = dice.randrange(ranks)
        program, what = programs[rank], dice.random()
        if what < 0.35:
            program.append(f"c{dice.choice([0, 1, 700, dice.randint(0, 60000)])}")
        elif what < 0.7:
            to = dice.randrange(ranks)
            kind = dice.choice(["s", "s", "s:", "q"])
            waiting[to] += 1
            answers[rank] += kind == "q"
            word = f"{kind[0]}{to}"
            program.append(f"{word}:{dice.randint(1, 4000)}" if kind == "s:" else word)
        elif what < 0.85 and waiting[rank]:
            count = dice.randint(1, waiting[rank])
            waiting[rank] -= count
            program.append(f"w{count}")
        elif what < 0.88:
            program.append("p")
        elif what < 0.91:
            program.append("Q")
        elif what < 0.97:
            kind, to = dice.choice("uuflgx"), dice.randrange(ranks)
            size = f":{dice.randint(16, 4000)}" if kind in "gx" else ""
            program.append(f"{kind}{to}{size}")
        elif what < 0.985:
            for every in programs:
                every.append("b")
    for rank in range(ranks):
        if waiting[rank]:
            programs[rank].append(f"w{waiting[rank]}")
        if answers[rank]:
            programs[rank].append(f"a{answers[rank]}")
    return programs


def run(clump, program, machine, ranks, nodes, programs):
    """Runs the programs in virtual time; returns when each rank ends, the values that it has read,
    and the summary."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(machine.text())
        file.flush()
        command = [clump, "run", "-n", str(ranks), "--nodes", str(nodes), "--virtual", file.name]
        command += ["--cpu", "fixed:0", "--time-limit", "60", program]
        done = subprocess.run(
            command + [" ".join(words) for words in programs],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
    ends = [(0, [])] * ranks
    for line in done.stdout.splitlines():
        words = line.split()
        ends[int(words[1])] = (int(words[4]), [int(value) for value in words[6:]])
    return ends, done.stderr


def main():
    clump, program, *rest = sys.argv[1:]
    count = int(rest[0]) if rest else 50
    seed = int(rest[1]) if len(rest) > 1 else 1
    for number in range(count):
        dice = random.Random(seed * 1_000_003 + number)
        ranks = dice.randint(1, 8)
        nodes, machine = dice.randint(1, ranks), random_machine(dice)
        programs = random_programs(dice, ranks)
        expected = simulate(machine, ranks, nodes, programs)
        found, said = run(clump, program, machine, ranks, nodes, programs)
        if found != expected:
            lines = "\n".join(f"  {' '.join(words)}" for words in programs)
            raise SystemExit(
                f"program {number} of seed {seed}, {ranks} ranks on {nodes} nodes:\n{lines}\n"
                f"{machine.text()}clump: {found}\nhere:  {expected}\n{said}"
            )
    print(f"{count} programs of seed {seed} end at the same times")


if __name__ == "__main__":
    main()
