"""Runs a script as a rank: `python -m clump run script.py` starts it.

What it adds to the interpreter: at a normal end, ranks wait for each other before they leave, so
that none reads the memory of one that has gone. A rank that fails, or exits with a code other than
0, waits for nobody, and so the job ends.
"""

import runpy
import sys


def main():
    """Executes `script.py args`, `-m module args` or `-c code args`."""
    from . import _world

    words = sys.argv[1:]
    if not words:
        sys.exit("clump: a script, -m module or -c code expected")
    _world._together = True
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path[0] = ""
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            sys.path[0] = ""
            _execute(compile(words[1], "<string>", "exec"), None)
        else:
            import os.path

            sys.argv = words
            sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
            _execute(compile(_read(words[0]), words[0], "exec"), words[0])
    except SystemExit as end:
        if end.code not in (None, 0):
            _world._failed = True
        raise


def _read(path):
    """Returns the text of a script; without one the rank ends in words, as Python does."""
    try:
        with open(path, "rb") as script:
            return script.read()
    except OSError as error:
        print(f"clump: the script {path!r} cannot be read: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def _execute(code, path):
    """Executes code as the module `__main__`, so that its functions can be pickled."""
    import __main__

    names = __main__.__dict__
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names.update(__name__="__main__", __file__=path, __spec__=None, __package__=None)
    exec(code, names)


if __name__ == "__main__":
    main()
