"""Build backend of the wheel: maturin, after the launcher was built and put into the package.

`CLUMP_PYTHON_PROFILE` names the cargo profile (`release` by default; `dev` builds faster).
"""

import os
import pathlib
import shutil
import subprocess

import maturin

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = HERE / "package" / "clump"

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel


def _profile():
    return os.environ.get("CLUMP_PYTHON_PROFILE", "release")


def _target():
    """Returns cargo's target folder: the workspace's, so that the launcher is built once."""
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _build_launcher():
    """Builds the launcher in the workspace, and puts it into the package."""
    profile = _profile()
    if not (ROOT / "crates" / "clump-cli").is_dir():
        raise SystemExit("clump: the launcher is built from the whole tree; this folder is not in it")
    subprocess.run(
        ["cargo", "build", "--profile", profile, "-p", "clump-cli", "--bin", "clump"],
        cwd=ROOT,
        check=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(_target())},
    )
    built = _target() / ("debug" if profile == "dev" else profile) / "clump"
    place = PACKAGE / "bin" / "clump"
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_suffix(".new")
    shutil.copyfile(built, fresh)
    # A wheel needs no line tables; without binutils it is only larger.
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", str(fresh)], check=False)
    fresh.chmod(0o755)
    fresh.replace(place)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel that holds the extension module and the launcher."""
    _build_launcher()
    settings = dict(config_settings or {})
    settings["build-args"] = f"{settings.get('build-args', '')} --profile {_profile()}".strip()
    os.environ["CARGO_TARGET_DIR"] = str(_target() / "python")
    return maturin.build_wheel(wheel_directory, settings, metadata_directory)
