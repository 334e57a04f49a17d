"""The package: what it imports, what it refuses, what it holds."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import clump
import pytest


def python(*words, **how):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, **how)
    return done


def test_import_does_nothing_but_load():
    code = (
        "import sys, os; fds = os.listdir('/proc/self/fd'); threads = len(os.listdir('/proc/self/task'))\n"
        "import clump\n"
        "assert 'numpy' not in sys.modules and 'asyncio' not in sys.modules\n"
        "assert os.listdir('/proc/self/fd') == fds\n"
        "assert len(os.listdir('/proc/self/task')) == threads\n"
        "from clump import _native; assert not _native.is_joined()\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done


def test_levels_without_arrays_need_no_numpy(tmp_path):
    hide = tmp_path / "numpy.py"
    hide.write_text("raise ImportError('hidden')\n")
    code = (
        "import clump; w = clump.world(); w.send([1], 0); assert w.recv() == [1]\n"
        "assert w.allreduce(5) == 5 and w.bcast(b'x' * 100000) == b'x' * 100000\n"
        "clump.handler(abs); assert clump.call(abs, 0, -4) == 4\n"
        "try: clump.zeros(3)\n"
        "except ImportError as e: print('no numpy:', e)\n"
    )
    done = python("-c", code, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0 and "no numpy" in done.stdout, done


def test_the_other_distribution_of_the_name_is_refused(tmp_path):
    package = pathlib.Path(clump.__file__).parent
    shutil.copytree(package, tmp_path / "clump", ignore=shutil.ignore_patterns("bin"))
    (tmp_path / "clump-0.2.0.dist-info").mkdir()
    done = python("-c", "import clump", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and "pip uninstall clump" in done.stderr, done


def test_mixed_versions_are_refused(tmp_path):
    package = pathlib.Path(clump.__file__).parent
    shutil.copytree(package, tmp_path / "clump", ignore=shutil.ignore_patterns("bin"))
    first = tmp_path / "clump" / "__init__.py"
    first.write_text(first.read_text().replace('__version__ = "0.1.0"', '__version__ = "9.9.9"'))
    done = python("-c", "import clump", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and "force-reinstall" in done.stderr, done


def test_a_missing_extension_is_named(tmp_path):
    package = pathlib.Path(clump.__file__).parent
    shutil.copytree(package, tmp_path / "clump", ignore=shutil.ignore_patterns("bin", "*.so"))
    done = python("-c", "import clump", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and "cannot be loaded" in done.stderr, done


SECOND = '''
try: import _interpreters as others
except ImportError: import _xxsubinterpreters as others
import clump
script = """
try: import clump
except ImportError as error: print(f"refused: {error}", flush=True)
else: print("loaded", flush=True)
"""
others.run_string(others.create(), script)
'''


def test_a_second_interpreter_in_one_process_is_refused():
    done = python("-c", SECOND)
    assert done.returncode == 0, done
    assert "refused: " in done.stdout and "interpreter" in done.stdout, done


def test_the_launcher_is_in_the_package():
    path = clump.launcher()
    assert os.access(path, os.X_OK)
    assert pathlib.Path(path).is_relative_to(pathlib.Path(clump.__file__).parent)
    shown = python("-m", "clump", "--version")
    assert shown.returncode == 0 and "clump" in shown.stdout
    script = shutil.which("clump", path=os.path.dirname(sys.executable))
    assert script is not None
    assert subprocess.run([script, "--version"], capture_output=True).returncode == 0


C_PROGRAM = """
#include <clump.h>
#include <stdio.h>
int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    uint64_t all[8];
    if (cl == NULL || clump_all_gather_u64(cl, (uint64_t)clump_rank(cl), all) < 0) return 1;
    printf("%d sees %d\\n", clump_rank(cl), (int)all[clump_nranks(cl) - 1]);
    return clump_finalize(cl);
}
"""


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"SKIPPED: no {program} here")


def runs(program):
    """A program of C runs on two nodes by the package's launcher."""
    done = python("-m", "clump", "run", "-n", "3", "--nodes", "2", program)
    assert done.returncode == 0, done
    assert sorted(done.stdout.splitlines()) == ["0 sees 2", "1 sees 2", "2 sees 2"], done


@pytest.mark.parametrize("name, end", [("cc", "c"), ("c++", "cpp")])
def test_programs_in_c_are_compiled_for_the_packages_library(tmp_path, name, end):
    needs(name)
    source = tmp_path / f"prog.{end}"
    source.write_text(C_PROGRAM)
    done = python("-m", "clump", name, "-Wall", "-Werror", source, "-o", tmp_path / "prog")
    assert done.returncode == 0, done
    runs(tmp_path / "prog")


def test_pkg_config_finds_the_packages_library(tmp_path):
    needs("cc", "pkg-config")
    (tmp_path / "prog.c").write_text(C_PROGRAM)
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "clump"],
        capture_output=True,
        text=True,
        env={**os.environ, "PKG_CONFIG_PATH": f"{clump.prefix()}/lib/pkgconfig"},
    )
    assert words.returncode == 0, words
    command = ["cc", "prog.c", *words.stdout.split(), "-o", "prog"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0, command
    runs(tmp_path / "prog")


@pytest.mark.parametrize("words", [["doctor"], ["lab", "--help"], ["stats", "--help"]])
def test_commands_of_the_launcher(words):
    done = python("-m", "clump", *words)
    assert done.returncode == 0 and done.stdout, done


TRACED = """
import clump
w = clump.world()
w.send([1], (w.rank + 1) % w.size)
assert w.recv() == [1]
with w.phase('count'):
    clump.Dict().add('a')
w.barrier()
"""


def test_the_lab_shows_the_trace_of_a_job(tmp_path):
    (tmp_path / "program.py").write_text(TRACED)
    words = ["run", "-n", "2", "--trace", "trace", "program.py"]
    done = python("-m", "clump", *words, cwd=tmp_path)
    assert done.returncode == 0, done
    done = python("-m", "clump", "lab", "trace", "trace", "--json", cwd=tmp_path)
    assert done.returncode == 0, done
    tables = {table["title"]: table["rows"] for table in json.loads(done.stdout)["tables"]}
    assert [row["name"] for row in tables["rank"]] == ["0", "1"], tables
    sent = sum(row["figures"][0]["value"] for row in tables["messages"])
    assert sent >= 2, tables["messages"]


def test_exceptions_can_be_pickled():
    import pickle

    error = clump.RankDied("rank 2 died", rank=2, op="recv")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is clump.RankDied and again.rank == 2 and str(again) == "rank 2 died"


@pytest.mark.parametrize("name", [name for name in clump.__all__ if name != "svm"])
def test_public_names_exist_and_say_what_they_are(name):
    assert getattr(clump, name).__doc__


def test_modules_and_code_run_as_ranks(tmp_path):
    (tmp_path / "mod.py").write_text("import clump, sys\nprint(clump.world().size, sys.argv[1:])\n")
    for words in (["-m", "mod", "a"], ["-c", "import mod", "a"], ["mod.py", "a"]):
        done = python("-m", "clump", "run", "-n", "2", *words, cwd=tmp_path)
        assert done.stdout.splitlines() == ["2 ['a']"] * 2, done


def test_a_script_that_is_not_there_is_named(tmp_path):
    done = python("-m", "clump", "run", "-n", "2", "nosuch.py", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    assert "the script 'nosuch.py' cannot be read: No such file" in done.stderr, done
