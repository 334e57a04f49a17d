"""`python -m clump run|doctor|lab|cc|...`: the launcher of the package, with this interpreter, and
the C compiler with what programs need that use its libclump."""

import os
import sys

from . import launcher as _path
from . import prefix as _prefix

_USAGE = """usage: python -m clump run [OPTIONS] script.py [ARGUMENTS]
       python -m clump run [OPTIONS] -m module [ARGUMENTS]
       python -m clump doctor|lab|stats|top ... (commands of the launcher: --help)
       python -m clump cc|c++ prog.c -o prog (the compiler, or $CLUMP_CC, $CLUMP_CXX)"""

#: Options of `clump run` that take no value; those of one letter have a long form, too.
FLAGS = {
    "-h", "--help", "-V", "--version", "-v", "--verbose",
    "--dry-run", "--json", "--label", "--netns", "--stage", "--stats",
}
#: Compilers: the variable that names another, the one by default, and words of ours.
_COMPILERS = {"cc": ("CLUMP_CC", "cc", []), "c++": ("CLUMP_CXX", "c++", ["-std=gnu++20"])}


def command(arguments):
    """Returns the command that executes these arguments.

    A Python script, `-m module` or `-c code` behind `run` is executed by this interpreter, so that
    a failure of one rank ends the job and ranks wait for each other at the end.
    """
    arguments = list(arguments)
    if arguments and arguments[0] in _COMPILERS:
        return compiler(arguments[0], arguments[1:])
    if arguments[:1] == ["run"]:
        at = _program(arguments)
        if at < len(arguments) and (arguments[at] in ("-m", "-c") or arguments[at].endswith(".py")):
            return [_path(), *arguments[:at], sys.executable, "-m", "clump._rank", *arguments[at:]]
    return [_path(), *arguments]


def _program(arguments):
    """Returns where the program stands behind `run` and its options."""
    at = 1
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return at + 1
        if not word.startswith("-") or word in ("-m", "-c"):
            return at
        # `-n4` and `--nodes=4` have their values with them.
        alone = word in FLAGS or "=" in word or (word[1] != "-" and len(word) > 2)
        at += 1 if alone else 2
    return at


def compiler(name, arguments):
    """Returns the command that compiles a program, or links it with the package's libclump."""
    variable, program, words = _COMPILERS[name]
    folder = _prefix()
    command = [os.environ.get(variable) or program, *words, f"-I{folder}/include", *arguments]
    if not {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"}.intersection(arguments):
        library = os.path.join(folder, "lib")
        command += [f"-L{library}", "-Xlinker", "-rpath", "-Xlinker", library, "-l:libclump.so.1"]
    return command


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
        os.execvp(words[0], words)
    except OSError as error:
        sys.exit(f"clump: {words[0]} cannot be executed: {error}")


if __name__ == "__main__":
    main()
