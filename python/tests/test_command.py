"""The words of `python -m clump`: which program a command starts, and by what."""

import re
import subprocess
import sys

import clump
import pytest
from clump import __main__ as command

PYTHON = [sys.executable, "-m", "clump._rank"]


@pytest.mark.parametrize(
    "words, by_python",
    [
        ("run -n 2 @ a.py", True),
        ("run -n 2 @ a.py -c b.py", True),
        ("run -n2 --nodes=2 --label @ a.py", True),
        ("run -n 2 --nodes 2 --stats --security crc --env A=b.py @ a.py x", True),
        ("run -n 2 --output out.py @ a.py", True),
        ("run -n 2 @ -m mod -n 3", True),
        ("run -n 2 @ -c pass", True),
        ("run -n 2 -- @ a.py", True),
        ("run -n 2 @ ./prog -c conf", False),
        ("run -n 2 @ ./prog -m a.py", False),
        ("run -n 2 @ python a.py", False),
        ("run -n 2 -- @ ./prog a.py", False),
        ("run --help @", False),
        ("app sort -m a.py @", False),
    ],
)
def test_scripts_are_executed_by_this_interpreter_and_programs_are_not(words, by_python):
    before, after = (part.split() for part in words.split("@"))
    wanted = [*before, *(PYTHON if by_python else []), *after]
    assert command.command(before + after) == [clump.launcher(), *wanted]


def test_flags_are_those_of_the_launcher():
    done = subprocess.run([clump.launcher(), "run", "--help"], capture_output=True, text=True)
    options = re.findall(r"^ {2,6}(?:(-\w), )?(?: {4})?(--[\w-]+)( \S+)?", done.stdout, re.M)
    assert len(options) > 25
    flags = {name for short, long, value in options if not value for name in (short, long) if name}
    assert flags == command.FLAGS
