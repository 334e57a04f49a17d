"""Checks emulated L and G against a network that is slow by itself: a relay of IP packets.

    cargo build -p clump-process-tests --bins
    python3 oracles/check_delays.py target/debug/clump-under-test target/debug/timed

Two network namespaces have a TUN device each, and nothing else. This program reads what either
sends, and writes it into the other's device after a delay, and after the time that all bytes before
it take on a line of that rate: by its own clock, and knowing nothing of clump. A job has a node in
each namespace, and its ranks time their messages by the clock of Rust's standard library. Compared
are round trips and streams of bulk messages while the relay is slow with those of the same job
while the relay is not, and `--emu` is to make up for it. No time may be below what the delay
demands; both ways must agree within SLACK and what the relay adds by being a program, and a
comparison that does not is tried again, since this machine may be busy. The nodes claim to be on
different machines, as they are where relays are used.

Exits with 77 where there can be no namespaces.
"""

import collections
import ctypes
import fcntl
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

SLACK = 0.1  # Share of the added time by which both ways may differ,
LATE = 0.0005  # and seconds, each way: a relay that is woken late.
TRIES = 6
ADDRESSES = ["10.83.0.1", "10.83.0.2"]
MTU = 1500
HEADERS = 28  # Of IP and UDP: a line has none of them for free, but payload alone counts in G.

CLONE_NEWNET, TUNSETIFF = 0x40000000, 0x400454CA
IFF_TUN, IFF_NO_PI, IFF_UP, IFF_RUNNING = 0x1, 0x1000, 0x1, 0x40
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
SIOCSIFMTU, SIOCSIFTXQLEN = 0x8922, 0x8943

SHELL = """#!/bin/sh
# Stands for ssh: starts an agent in a namespace, with an identity of its boot of its own.
machine=$1; shift
case $machine in a) namespace={0} ;; *) namespace={1} ;; esac
echo "boot-of-$machine" >{folder}/boot-$machine
exec nsenter --net="$namespace" unshare --mount sh -c '
    mount --bind "$1" /proc/sys/kernel/random/boot_id
    exec env -i PATH=/usr/bin:/bin sh -c "$2"' sh {folder}/boot-$machine "$*"
"""


class Impossible(Exception):
    """There can be no namespaces here."""


def interface_call(request, name, value):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, request, struct.pack("16s24s", name.encode(), value))


def namespace_with_tun(address):
    """Moves this process into a namespace of its own. Returns the descriptors of it and its TUN."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise Impossible(f"no network namespace: {os.strerror(ctypes.get_errno())} (run as root)")
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR)
    except OSError as error:
        raise Impossible(f"no TUN device: {error}") from error
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"relay", IFF_TUN | IFF_NO_PI))
    of = lambda ip: struct.pack("HH4s16x", socket.AF_INET, 0, socket.inet_aton(ip))
    interface_call(SIOCSIFADDR, "relay", of(address))
    interface_call(SIOCSIFNETMASK, "relay", of("255.255.255.0"))
    interface_call(SIOCSIFMTU, "relay", struct.pack("i20x", MTU))
    interface_call(SIOCSIFTXQLEN, "relay", struct.pack("i20x", 10000))
    for name in ["lo", "relay"]:
        interface_call(SIOCSIFFLAGS, name, struct.pack("H22x", IFF_UP | IFF_RUNNING))
    return namespace, tun


class Relay(threading.Thread):
    """Carries packets between two TUN devices, in their order, later than they come."""

    def __init__(self, tuns):
        super().__init__(daemon=True)
        self.tuns, self.delay, self.per_byte, self.carried = tuns, 0.0, 0.0, 0
        self.waiting = [collections.deque(), collections.deque()]  # (time, packet), by direction
        self.free = [0.0, 0.0]  # Times at which the lines are.

    def set(self, delay, per_byte):
        self.delay, self.per_byte = delay, per_byte

    def run(self):
        while True:
            heads = [queue[0][0] for queue in self.waiting if queue]
            wait = max(0.0, min(heads) - time.monotonic()) if heads else 1.0
            for tun in select.select(self.tuns, [], [], wait)[0]:
                self.take(self.tuns.index(tun))
            for way, queue in enumerate(self.waiting):
                while queue and queue[0][0] <= time.monotonic():
                    os.write(self.tuns[1 - way], queue.popleft()[1])
                    self.carried += 1

    def take(self, way):
        packet, now = os.read(self.tuns[way], 65536), time.monotonic()
        if packet[0] >> 4 != 4:
            return  # The kernel looks for routers by IPv6.
        began = max(now, self.free[way])
        self.free[way] = began + max(0, len(packet) - HEADERS) * self.per_byte
        self.waiting[way].append((self.free[way] + self.delay, packet))


class Bench:
    """A job over the relay, by programs of this tree."""

    def __init__(self, clump, timed, shell, relay):
        self.clump, self.timed, self.shell, self.relay = clump, timed, shell, relay

    def times(self, words, delay=0.0, per_byte=0.0, knobs=None):
        """Returns what `timed` prints, in seconds, sorted."""
        self.relay.set(delay, per_byte)
        before = self.relay.carried
        command = [self.clump, "run", "--hosts", "a:1,b:1", "--ssh", self.shell]
        command += ["--interface", "relay", "--driver", "udp"]
        command += ["--emu", f"{knobs},scope=net"] if knobs else []
        ended = subprocess.run(command + [self.timed] + words, capture_output=True, text=True)
        if ended.returncode != 0:
            raise SystemExit(f"{command}: {ended.returncode}\n{ended.stderr}")
        times = sorted(int(line) * 1e-9 for line in ended.stdout.split())
        assert self.relay.carried > before + len(times), "the relay has carried the messages"
        return times


def compare(what, base, slow, emulated, added):
    """Returns true if two ways to add time agree, or the only one that there is with what was to be
    added. A time below what was added ends the check."""
    for way, times in [("the relay", slow or emulated), ("--emu", emulated)]:
        if times[0] < added - 1e-6:
            raise SystemExit(f"{what}: {times[0] * 1e3:.3f} ms by {way}, {added * 1e3:.3f} added")
    # A quartile: what a busy machine adds to some is in neither.
    quartile = lambda times: statistics.quantiles(times)[0]
    beside = f"{quartile(slow) * 1e3:.2f} by the relay, " if slow else ""
    base, slow, emulated = (quartile(times) for times in (base, slow or emulated, emulated))
    limit = SLACK * added + 2 * LATE
    # What the relay needs anyway may pass while it waits.
    good = abs(slow - emulated) <= limit and max(slow, emulated) <= base + added + limit
    print(
        f"{what}: {base * 1e3:.2f} ms; {added * 1e3:.2f} ms more: {beside}"
        f"{emulated * 1e3:.2f} by --emu{'' if good else f': not within {limit * 1e3:.2f}'}"
    )
    return good


def check(bench):
    cases = []
    for ms in [2, 5]:
        delay = ms * 1e-3
        slow = {"delay": delay}
        cases.append((f"round trip, L=+{ms}ms", ["ping", "60"], slow, 2 * delay, True))
        cases.append((f"get of 4096 B, L=+{ms}ms", ["get", "4096", "60"], slow, 2 * delay, True))
    # More at a time than that is sent again on a line of that rate: it comes later than expected.
    for messages, size, ns in [(1, 16384, 300), (1, 16384, 1000), (8, 4096, 300)]:
        cases.append((*bytes_case("stream", messages, size, ns), True))
    for ns in [300, 1000]:
        cases.append((*bytes_case("get", 1, 16384, ns), True))
        cases.append((*bytes_case("long", 1, 16384, ns), True))
    # So these have no line beside them, only the clock: what leaves in fragments, and what is held
    # for longer than a second.
    for what, messages, size, ns in [
        ("get", 1, 1 << 20, 100), ("long", 20, 1 << 20, 20), ("stream", 128, 16384, 100),
        ("long", 1, 2 << 20, 1000),
    ]:
        cases.append((*bytes_case(what, messages, size, ns), False))
    for what, words, slow, added, by_relay in cases:
        for _ in range(TRIES):
            knobs = what.split(", ")[1]
            base = bench.times(words)
            emulated = bench.times(words, knobs=knobs)
            if compare(what, base, bench.times(words, **slow) if by_relay else None, emulated, added):
                break
        else:
            raise SystemExit(f"{what}: the two ways differ, {TRIES} times")


def bytes_case(what, messages, size, ns):
    """A case of so many messages of that size, or of one get, at that G."""
    count = [] if what == "get" else [messages]
    rounds = 20 if messages * size * ns < 1e8 else 3
    words = [what, *map(str, [*count, size, rounds])]
    added = messages * size * ns * 1e-9
    return f"{what} {messages} * {size} B, G=+{ns}ns/B", words, {"per_byte": ns * 1e-9}, added


def main(clump, timed):
    clump, timed = os.path.realpath(clump), os.path.realpath(timed)
    try:
        ends = [namespace_with_tun(address) for address in ADDRESSES]
    except (Impossible, PermissionError) as why:
        print(f"skipped: {why}")
        raise SystemExit(77) from why
    relay = Relay([tun for _, tun in ends])
    relay.start()
    with tempfile.TemporaryDirectory() as folder:
        shell = os.path.join(folder, "shell")
        names = [f"/proc/{os.getpid()}/fd/{namespace}" for namespace, _ in ends]
        with open(shell, "w", encoding="ascii") as script:
            script.write(SHELL.format(*names, folder=folder))
        os.chmod(shell, 0o700)
        check(Bench(clump, timed, shell, relay))


if __name__ == "__main__":
    main(*sys.argv[1:])
