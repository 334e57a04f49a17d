"""Executor and Cluster: clients whose ranks are processes of their own."""

import concurrent.futures
import glob
import os
import signal
import subprocess
import sys
import threading

import clump
import pytest

# Functions of this file are imported by workers from where pytest found it.
SCRIPT = """
import clump
def f(x): return x * x
with clump.Executor(4) as e:
    print(sum(e.map(f, range(100))))
"""


class Odd(Exception):
    """An exception that can be pickled, and not read."""

    def __init__(self, one, two):
        super().__init__(one)


def odd():
    raise Odd(1, 2)


def test_the_second_example_of_the_manual_needs_no_guard(tmp_path):
    script = tmp_path / "tasks.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "328350\n" and not done.stderr, done


@pytest.fixture(scope="module")
def executor():
    with clump.Executor(3) as made:
        yield made


def test_map_keeps_the_order_of_its_items(executor):
    assert list(executor.map(pow, range(200), [2] * 200, chunksize=7)) == [i * i for i in range(200)]
    assert list(executor.map(abs, [])) == []


def test_futures_are_those_of_the_standard_library(executor):
    futures = [executor.submit(divmod, 17, d) for d in (1, 2, 3)]
    done = {future.result() for future in concurrent.futures.as_completed(futures)}
    assert done == {(17, 0), (8, 1), (5, 2)}


def test_an_exception_has_the_traceback_of_its_worker(executor):
    with pytest.raises(ZeroDivisionError) as raised:
        executor.submit(divmod, 1, 0).result(20)
    cause = raised.value.__cause__
    assert isinstance(cause, clump.RemoteError) and "Traceback" in cause.remote_traceback


def until(path):
    """Returns arguments of a call that ends when there is a file."""
    return subprocess.call, ["sh", "-c", f"until [ -e {path} ]; do sleep 0.01; done"]


def test_calls_that_wait_can_be_cancelled(executor, tmp_path):
    busy = [executor.submit(*until(tmp_path / "go")) for _ in range(6)]
    late = executor.submit(abs, -1)
    assert late.cancel() and late.cancelled()
    (tmp_path / "go").touch()
    assert [future.result(20) for future in busy] == [0] * 6


def test_results_that_cannot_be_pickled_fail_and_others_go_on(executor):
    with pytest.raises(Exception, match="(?s)pickle|lock"):
        executor.submit(threading.Lock).result(20)
    assert executor.submit(abs, -2).result(20) == 2


def test_arguments_that_cannot_be_pickled_are_refused_at_once(executor):
    with pytest.raises(Exception, match="pickle"):
        executor.submit(abs, threading.Lock())


def test_coroutines_await_calls(executor):
    import asyncio

    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, abs, -i) for i in range(20)))

    assert asyncio.run(main()) == list(range(20))


def test_large_arguments_and_results_hold_nobody_up(executor):
    # Larger than any buffer of a socket, in both directions at once, several ahead.
    sizes = [3_000_000 + at for at in range(8)]
    for got, size in zip(executor.map(bytes, sizes, chunksize=1), sizes):
        assert len(got) == size
    blocks = [bytes(size) for size in sizes]
    assert list(executor.map(bytes.upper, blocks, chunksize=1)) == blocks


def test_an_exception_that_cannot_be_read_has_its_traceback(executor):
    with pytest.raises(clump.RemoteError, match="(?s)in odd.*Odd: 1"):
        executor.submit(odd).result(20)
    assert executor.submit(abs, -3).result(20) == 3


def test_only_calls_that_had_begun_count_against_a_worker_that_dies(tmp_path):
    # One call kills each worker that executes it; those that wait behind it are executed, once.
    with clump.Executor(3) as executor:
        fatal = executor.submit(os._exit, 9)
        behind = [executor.submit(abs, -at) for at in range(20)]
        assert [future.result(30) for future in behind] == list(range(20))
        with pytest.raises(concurrent.futures.BrokenExecutor, match="two workers"):
            fatal.result(30)


def test_calls_that_were_submitted_are_executed_before_the_process_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import clump, pathlib, sys\n"
        "e = clump.Executor(2)\n"
        "for at in range(6): e.submit(pathlib.Path(sys.argv[1], str(at)).touch)\n"
    )
    folder = tmp_path / "touched"
    folder.mkdir()
    before = set(glob.glob("/tmp/clump-*"))
    done = subprocess.run([sys.executable, str(script), str(folder)], timeout=60)
    assert done.returncode == 0 and len(list(folder.iterdir())) == 6
    assert set(glob.glob("/tmp/clump-*")) <= before


def test_a_process_that_is_killed_leaves_no_folder(tmp_path):
    script = "import clump, os, signal\ne = clump.Executor(1)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == -signal.SIGKILL and not list(tmp_path.iterdir())


def test_a_worker_that_dies_is_survived():
    with clump.Executor(3) as executor:
        good = [executor.submit(abs, -i) for i in range(20)]
        fatal = executor.submit(os._exit, 7)
        with pytest.raises(concurrent.futures.BrokenExecutor):
            fatal.result(30)
        assert [future.result(30) for future in good] == list(range(20))
        assert executor.submit(abs, -5).result(30) == 5


def test_initializers_run_in_every_worker():
    with clump.Executor(2, initializer=os.chdir, initargs=("/",)) as executor:
        assert {executor.submit(os.getcwd).result(20) for _ in range(8)} == {"/"}




def test_shutdown_can_cancel(tmp_path):
    executor = clump.Executor(1)
    futures = [executor.submit(*until(tmp_path / "go")) for _ in range(10)]
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "go").touch()
    executor.shutdown()
    assert any(future.cancelled() for future in futures)
    with pytest.raises(RuntimeError):
        executor.submit(abs, 1)


def test_a_cluster_keeps_variables_and_survives_errors(capsys):
    with clump.Cluster(4, nodes=2) as c:
        c.run("import clump; w = clump.world(); x = w.rank; print('rank', x)")
        assert capsys.readouterr().out == "".join(f"[{r}] rank {r}\n" for r in range(4))
        assert c.values("w.allreduce(x)") == [6, 6, 6, 6]
        with pytest.raises(clump.CellError, match="ZeroDivisionError") as raised:
            c.run("1 / (x - 2)", show=False)
        assert raised.value.rank == 2 and isinstance(raised.value.__cause__, ZeroDivisionError)
        assert c.values("x", ranks=[1, 3]) == [1, 3]


def test_an_interrupt_reaches_all_ranks_of_a_cluster(tmp_path):
    def interrupt(number):
        while len(list(tmp_path.glob(f"{number}-*"))) < 3:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with clump.Cluster(3) as c:
        c.run("import clump, signal; w = clump.world()", show=False)
        for number, wait in enumerate(("signal.pause()", "w.recv()")):
            thread = threading.Thread(target=interrupt, args=(number,))
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                c.run(f"open(f'{tmp_path}/{number}-{{w.rank}}', 'w').close(); {wait}")
            thread.join()
            assert c.values("w.allreduce(1)") == [3, 3, 3]


def test_a_dead_rank_of_a_cluster_is_reported_and_it_can_restart():
    with clump.Cluster(2) as c:
        c.run("import os")
        with pytest.raises(clump.ClumpError, match="restart"):
            c.run("os._exit(1)")
        c.restart()
        assert c.values("1 + 1") == [2, 2]


def test_the_magic_runs_cells_at_the_ranks_of_its_line(capsys, monkeypatch):
    import types

    registered = {}

    class Shell:
        def register_magic_function(self, function, kind, name):
            registered[kind, name] = function

    # The one function of IPython that is used, without its shell.
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=Shell))
    with clump.Cluster(2) as c:
        c.magic()
        cell = registered["cell", "clump"]
        cell("", "import os\nx = os.getpid()\nprint('here')")
        assert capsys.readouterr().out == "[0] here\n[1] here\n"
        cell("1", "1 + 1")
        assert capsys.readouterr().out == "[1] 2\n"
        assert len(set(c.values("x"))) == 2
