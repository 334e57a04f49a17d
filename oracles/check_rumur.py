"""Compares counts of Murphi models with those of rumur, a model checker of others: the built-in
models and random ones, without unions and multisets, which it does not read.

Usage: check_rumur.py COUNT SEED; ends with 77 if there is no rumur or no C compiler.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from murphi import Model
from random_models import case

MODELS = pathlib.Path(__file__).parent.parent / "apps/global/models"
MISSING = 77


def by_rumur(text):
    """Returns states and rules fired, as rumur counts them."""
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        (at / "model.m").write_text(text, encoding="utf-8")
        options = ["--symmetry-reduction", "off", "--deadlock-detection", "off", "--threads", "1"]
        subprocess.run(["rumur", *options, "-o", at / "model.c", at / "model.m"], check=True,
                       stderr=subprocess.DEVNULL)
        # Counters of 16 bytes are swapped in one instruction.
        wide = ["-mcx16"] if platform.machine() == "x86_64" else []
        subprocess.run(["cc", "-O1", "-w", *wide, "-o", at / "model", at / "model.c", "-lpthread"],
                       check=True)
        told = subprocess.run([at / "model"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"(\d+) states, (\d+) rules fired", told)
        return (int(found[1]), int(found[2])) if found else told


def main(count, seed):
    for program in ("rumur", "cc"):
        if shutil.which(program) is None:
            print(f"there is no {program} (Debian: apt-get install rumur gcc)")
            sys.exit(MISSING)
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(MODELS.glob("*.m"))}
    plain = {name: text for name, text in texts.items() if not re.search("union|multiset", text)}
    if len(plain) < 7:
        sys.exit(f"too few models: {list(plain)}")
    models = [(name, Model(text).search(), text) for name, text in plain.items()]
    models += [(f"seed {seed}, model {number}", *case(seed, number, plain=True))
               for number in range(count)]
    for name, counts, text in models:
        found = by_rumur(text)
        if found != counts:
            sys.exit(f"{name}: {counts}, and rumur counts {found}\n{text}")
    print(f"{len(models)} models have the counts of rumur")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
