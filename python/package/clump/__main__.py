"""`python -m clump run|doctor|lab|...`: the launcher of the package, with this interpreter."""

import os
import sys

from . import launcher as _path

_USAGE = """usage: python -m clump run [OPTIONS] script.py [ARGUMENTS]
       python -m clump run [OPTIONS] -m module [ARGUMENTS]
       python -m clump doctor|lab|stats|top ... (commands of the launcher: --help)"""


def command(arguments):
    """Returns the command that executes these arguments.

    A Python script, `-m module` or `-c code` behind `run` is executed by this interpreter, so that
    a failure of one rank ends the job and ranks wait for each other at the end.
    """
    arguments = list(arguments)
    if arguments[:1] == ["run"]:
        for at, argument in enumerate(arguments):
            if argument in ("-m", "-c") or argument.endswith(".py"):
                return [_path(), *arguments[:at], sys.executable, "-m", "clump._rank", *arguments[at:]]
    return [_path(), *arguments]


def main():
    """Replaces this process by the launcher."""
    if len(sys.argv) < 2:
        sys.exit(_USAGE)
    _exec(command(sys.argv[1:]))


def launcher():
    """The command `clump`: the launcher, as `python -m clump` starts it."""
    _exec(command(sys.argv[1:]))


def _exec(words):
    try:
        os.execv(words[0], words)
    except OSError as error:
        sys.exit(f"clump: the launcher {words[0]} cannot be executed: {error}")


if __name__ == "__main__":
    main()
