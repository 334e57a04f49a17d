"""Build backend of the package: maturin, after the launcher and libclump were built and put into
the package. As a program it does the latter alone: `build.rs` calls it where maturin is run directly.

`CLUMP_PYTHON_PROFILE` names the cargo profile (`release` by default; `dev` builds faster),
`CLUMP_PYTHON_TARGET` another target (`aarch64-unknown-linux-gnu`, which needs its C compiler), and
`CLUMP_PYTHON_MANYLINUX`, or the setting `manylinux`, the oldest C library that the wheel is for
(`2_28`), for which zig links. A source distribution holds the crates, so that it builds wherever
cargo is.
"""

import contextlib
import fcntl
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = HERE / "package" / "clump"
#: What a source distribution holds of the tree.
SOURCES = ("Cargo.", "LICENSE", "README.md", "apps/", "clippy.toml", "crates/", "python/", "tests/", "xtask/")
#: Folders of the package that are there while a wheel is built.
MADE = ("bin", "include", "lib")
#: Found by pkg-config in the folder that `clump.prefix()` names. Wheels have no symbolic links.
PKG_CONFIG = """prefix=${pcfiledir}/../..
libdir=${prefix}/lib
includedir=${prefix}/include

Name: clump
Description: Active messages and one-sided operations for clusters
Version: VERSION
Libs: -L${libdir} -Xlinker -rpath=${libdir} -l:libclump.so.1
Cflags: -I${includedir}
"""

#: Packages of Python that link for an older C library.
LINKERS = ["ziglang>=0.13", "cargo-zigbuild>=0.20"]
#: Set for build.rs, which otherwise has the programs made.
MADE_ALREADY = "CLUMP_PYTHON_MADE"


def _maturin():
    """Returns maturin's own backend, which the program does not need."""
    import maturin

    return maturin


def get_requires_for_build_wheel(config_settings=None):
    """Returns what maturin needs, and what links for an older C library, if that is wanted."""
    needed = _maturin().get_requires_for_build_wheel(config_settings)
    return needed + (LINKERS if _manylinux(config_settings) else [])


def get_requires_for_build_sdist(config_settings=None):
    """Returns what maturin needs."""
    return _maturin().get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Writes the metadata, from the manifest beside this file."""
    os.chdir(HERE)
    return _maturin().prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def _version(manifest):
    """Returns the version that a manifest names (Python 3.10 has no parser for it)."""
    return re.search(r'^version = "(.*)"', manifest, re.M).group(1)


def _profile():
    return os.environ.get("CLUMP_PYTHON_PROFILE", "release")


def _manylinux(config_settings=None):
    """Returns the oldest version of the C library that the wheel is for, as in `2_28`, or none."""
    wanted = (config_settings or {}).get("manylinux") or os.environ.get("CLUMP_PYTHON_MANYLINUX")
    if wanted and not re.fullmatch(r"\d+_\d+", wanted):
        raise SystemExit(f"clump: manylinux={wanted}: a version as in 2_28 expected")
    return wanted or None


def _machine(manylinux=None):
    """Returns cargo's words for another target, if one is wanted, and the prefix of its tools."""
    target = os.environ.get("CLUMP_PYTHON_TARGET")
    if not target and manylinux:
        target = f"{platform.machine()}-unknown-linux-gnu"
    if not target:
        return [], ""
    if target.startswith(f"{platform.machine()}-"):
        return ["--target", target], ""
    tools = target.replace("-unknown", "") + "-"
    if not manylinux:
        name = target.upper().replace("-", "_")
        os.environ.setdefault(f"CARGO_TARGET_{name}_LINKER", f"{tools}gcc")
    return ["--target", target], tools


def _target():
    """Returns cargo's target folder: the workspace's, so that the launcher is built once."""
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _install(built, place, tools):
    """Puts a program or library into the package, without line tables and names of functions that
    others do not call, where there are binutils."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_suffix(".new")
    shutil.copyfile(built, fresh)
    if shutil.which(f"{tools}strip"):
        subprocess.run([f"{tools}strip", "--strip-unneeded", str(fresh)], check=False)
    fresh.chmod(0o755)
    fresh.replace(place)


def _cargo(profile, manylinux):
    """Returns the command that builds the programs, and variables for it."""
    words, _ = _machine(manylinux)
    # Of the call to build.rs: they are for the extension module alone.
    foreign = ("CARGO_ENCODED_RUSTFLAGS", "CARGO_MAKEFLAGS", "CARGO_UNSTABLE_SPARSE_REGISTRY")
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    variables["CARGO_TARGET_DIR"] = str(_target())
    command = ["cargo", "build"]
    if manylinux:
        command = ["cargo-zigbuild", "zigbuild"]
        words = [*words[:-1], f"{words[-1]}.{manylinux.replace('_', '.')}"]
        # Binutils of the other machine may be missing: the linker strips.
        name = profile.upper()
        variables |= {f"CARGO_PROFILE_{name}_STRIP": "symbols", f"CARGO_PROFILE_{name}_DEBUG": "false"}
    return [*command, "--profile", profile, "-p", "clump-cli", "-p", "clump-capi", *words], variables


def _build_programs(manylinux=None):
    """Builds launcher and libclump in the workspace, and puts them into the package."""
    profile = _profile()
    if not (ROOT / "crates" / "clump-cli").is_dir():
        raise SystemExit("clump: the package is built from the whole tree; this folder is not in it")
    command, variables = _cargo(profile, manylinux)
    subprocess.run(command, cwd=ROOT, check=True, env=variables)
    words, tools = _machine(manylinux)
    folder = _target().joinpath(*words[1:]) / ("debug" if profile == "dev" else profile)
    for built, place in (("clump", "bin/clump"), ("libclump_capi.so", "lib/libclump.so.1")):
        _install(folder / built, PACKAGE / place, tools)
        if manylinux:
            _check_library(PACKAGE / place, manylinux)
    headers = PACKAGE / "include"
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(ROOT / "crates" / "clump-capi" / "include", headers)
    version = _version((HERE / "pyproject.toml").read_text())
    place = PACKAGE / "lib" / "pkgconfig" / "clump.pc"
    place.parent.mkdir(exist_ok=True)
    place.write_text(PKG_CONFIG.replace("VERSION", version))


def _check_library(place, manylinux):
    """Refuses a program that needs a newer C library than the wheel's name promises; maturin looks
    at the extension module only."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", place.read_bytes())
    newest = max((tuple(map(int, version)) for version in versions), default=(0, 0))
    if newest > tuple(map(int, manylinux.split("_"))):
        raise SystemExit(f"clump: {place} needs glibc {newest[0]}.{newest[1]}, not {manylinux}")


@contextlib.contextmanager
def _alone():
    """Has one build at a time put its programs into this tree's package."""
    with open(HERE / "pyproject.toml") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel that holds the extension module, the launcher and libclump."""
    directory = os.path.abspath(wheel_directory)
    os.chdir(HERE)
    settings = dict(config_settings or {})
    manylinux = _manylinux(settings)
    settings.pop("manylinux", None)
    words = [settings.get("build-args", ""), "--profile", _profile(), *_machine(manylinux)[0]]
    if _profile() != "dev":
        words += ["--compression-level", "9"]
    if manylinux:
        words += ["--zig", "--compatibility", f"manylinux_{manylinux}"]
    settings["build-args"] = " ".join(words).strip()
    with _alone():
        _build_programs(manylinux)
        os.environ.update({MADE_ALREADY: "1", "CARGO_TARGET_DIR": str(_target() / "python")})
        try:
            return _maturin().build_wheel(directory, settings, metadata_directory)
        finally:
            for name in MADE:
                shutil.rmtree(PACKAGE / name, ignore_errors=True)


def _files():
    """Returns the files of a source distribution, as paths from the tree's root."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    made = tuple(f"python/package/clump/{name}/" for name in MADE)
    kept = (name for name in names if name.startswith(SOURCES) and not name.startswith(made))
    return sorted(name for name in kept if (ROOT / name).is_file())


def build_sdist(sdist_directory, config_settings=None):
    """Builds a source distribution: the crates, and this package, which is built from its root."""
    directory = pathlib.Path(sdist_directory).resolve()
    text = (HERE / "pyproject.toml").read_text()
    version = _version(text)
    name = f"clump_runtime-{version}"
    with tempfile.TemporaryDirectory() as folder:
        info = prepare_metadata_for_build_wheel(folder)
        metadata = (pathlib.Path(folder) / info / "METADATA").read_bytes()
    with tarfile.open(directory / f"{name}.tar.gz", "w:gz", compresslevel=6) as archive:
        own = {
            "PKG-INFO": metadata,
            "pyproject.toml": text.replace('backend-path = ["."]', 'backend-path = ["python"]')
            .replace('readme = "README.md"', 'readme = "python/README.md"')
            .encode(),
        }
        for path, content in own.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for path in _files():
            archive.add(ROOT / path, f"{name}/{path}", recursive=False)
    return f"{name}.tar.gz"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: build_backend.py (puts launcher, libclump and headers into the package)")
    with _alone():
        _build_programs(_manylinux())
