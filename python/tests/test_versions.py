"""The wheel in clean environments: of each Python that is here, and without a network."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

#: The wheel that this suite tests, as `cargo xtask ci` names it.
WHEEL = os.environ.get("CLUMP_TEST_WHEEL")
PROGRAMS = pathlib.Path(__file__).parent / "programs"
NIGHT = os.environ.get("CLUMP_TEST_TIER") == "night"

PROGRAM = """
import clump, sys
w = clump.world()
w.send({'from': w.rank}, (w.rank + 1) % w.size)
assert w.recv()['from'] == (w.rank - 1) % w.size
assert w.allreduce(1) == w.size
clump.handler(abs)
assert clump.call(abs, 0, -4) == 4
print('right')
"""


def interpreters():
    """Returns the interpreters of this machine, one of each version from 3.10 on."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += map(str, pathlib.Path.home().glob(".pyenv/versions/*/bin"))
    found = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("python3.*")):
            version = re.fullmatch(r"python3\.(\d+)(t?)", path.name)
            if version and int(version[1]) >= 10 and "shims" not in folder:
                found.setdefault(path.name, str(path))
    return found


FOUND = interpreters()
#: Stands for a build without the interpreter's lock, where there is none.
NAMES = sorted(FOUND) + ([] if any(name.endswith("t") for name in FOUND) else ["free-threaded"])


def installed(interpreter, folder, *options):
    """Returns the interpreter of a new environment with the wheel, and how its installation ended."""
    subprocess.run([interpreter, "-m", "venv", folder], check=True, timeout=120)
    own = folder / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *options, WHEEL]
    return own, subprocess.run([own, *words], capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(not WHEEL, reason="SKIPPED: CLUMP_TEST_WHEEL names no wheel (cargo xtask ci)")
@pytest.mark.skipif(not NIGHT, reason="at night: an environment for each Python")
@pytest.mark.parametrize("name", NAMES)
def test_the_wheel_in_a_clean_environment(tmp_path, name):
    if name not in FOUND:
        pytest.skip("SKIPPED: no build without the interpreter's lock here (uv python install 3.14t)")
    own, done = installed(FOUND[name], tmp_path / "a folder")
    if name.endswith("t"):
        # The stable interface that the wheel uses is not that of builds without the lock.
        assert done.returncode != 0 and "not a supported wheel" in done.stderr, done
        return
    assert done.returncode == 0, done
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [own, "-m", "clump", "run", "-n", "3", "--nodes", "2", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and ran.stdout.count("right") == 3, ran
    # Its own command, in a path without a search path.
    shown = subprocess.run([own.parent / "clump", "--version"], capture_output=True, env={})
    assert shown.returncode == 0, shown


def by_age(name):
    return int(re.search(r"\d+$", name)[0])


#: The oldest and the newest interpreter with a lock; `cargo xtask ci` has newer ones in roots of
#: their own.
ENDS = sorted((name for name in FOUND if not name.endswith("t")), key=by_age)
ENDS = sorted({*ENDS[:1], *ENDS[-1:]}, key=by_age)


@pytest.mark.skipif(not WHEEL, reason="SKIPPED: CLUMP_TEST_WHEEL names no wheel (cargo xtask ci)")
@pytest.mark.skipif(not NIGHT, reason="at night: an environment with NumPy for each Python")
@pytest.mark.parametrize("name", ENDS)
def test_programs_with_the_numpy_of_each_python(tmp_path, name):
    own, done = installed(FOUND[name], tmp_path / "environment")
    assert done.returncode == 0, done
    words = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "numpy"]
    if subprocess.run([own, *words], capture_output=True, timeout=300).returncode != 0:
        pytest.skip(f"SKIPPED: pip finds no NumPy for {name}: is there a network?")
    for program in ("arrays.py", "collectives.py", "messages.py"):
        command = [own, "-m", "clump", "run", "-n", "2", PROGRAMS / program]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0 and ran.stdout.count("ok") == 2, ran


@pytest.mark.skipif(not WHEEL, reason="SKIPPED: CLUMP_TEST_WHEEL names no wheel (cargo xtask ci)")
@pytest.mark.skipif(not NIGHT, reason="at night: an environment of its own")
@pytest.mark.parametrize("way", ["uv", "pipx"])
def test_other_installers(tmp_path, way):
    if shutil.which(way) is None:
        pytest.skip(f"SKIPPED: no {way} here (pip install {way})")
    if way == "uv":
        place = tmp_path / "uv"
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, place], check=True)
        words = ["uv", "pip", "install", "-q", "--offline", "--no-deps", "--python", place, WHEEL]
        subprocess.run(words, check=True)
        command = place / "bin" / "clump"
    else:
        homes = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
        words = ["pipx", "install", "--quiet", "--pip-args=--no-index --no-deps", WHEEL]
        subprocess.run(words, check=True, env={**os.environ, **homes})
        command = tmp_path / "bin" / "clump"
    shown = subprocess.run([command, "doctor", "--json"], capture_output=True, timeout=60)
    assert shown.returncode == 0, shown
