"""Build backend of the package: maturin, after the launcher and libclump were built and put into
the package.

`CLUMP_PYTHON_PROFILE` names the cargo profile (`release` by default; `dev` builds faster), and
`CLUMP_PYTHON_TARGET` another target (`aarch64-unknown-linux-gnu`, which needs its C compiler).
A source distribution holds the crates, so that it builds wherever cargo is.
"""

import io
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import maturin

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

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel


def get_requires_for_build_sdist(config_settings=None):
    """Returns what maturin needs."""
    return maturin.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Writes the metadata, from the manifest beside this file."""
    os.chdir(HERE)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def _version(manifest):
    """Returns the version that a manifest names (Python 3.10 has no parser for it)."""
    return re.search(r'^version = "(.*)"', manifest, re.M).group(1)


def _profile():
    return os.environ.get("CLUMP_PYTHON_PROFILE", "release")


def _machine():
    """Returns cargo's words for another target, if one is wanted, and the prefix of its tools."""
    target = os.environ.get("CLUMP_PYTHON_TARGET")
    if not target:
        return [], ""
    tools = target.replace("-unknown", "") + "-"
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


def _build_programs():
    """Builds launcher and libclump in the workspace, and puts them into the package."""
    profile = _profile()
    if not (ROOT / "crates" / "clump-cli").is_dir():
        raise SystemExit("clump: the package is built from the whole tree; this folder is not in it")
    words, tools = _machine()
    subprocess.run(
        ["cargo", "build", "--profile", profile, "-p", "clump-cli", "-p", "clump-capi", *words],
        cwd=ROOT,
        check=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(_target())},
    )
    folder = _target().joinpath(*words[1:]) / ("debug" if profile == "dev" else profile)
    _install(folder / "clump", PACKAGE / "bin" / "clump", tools)
    _install(folder / "libclump_capi.so", PACKAGE / "lib" / "libclump.so.1", tools)
    headers = PACKAGE / "include"
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(ROOT / "crates" / "clump-capi" / "include", headers)
    version = _version((HERE / "pyproject.toml").read_text())
    place = PACKAGE / "lib" / "pkgconfig" / "clump.pc"
    place.parent.mkdir(exist_ok=True)
    place.write_text(PKG_CONFIG.replace("VERSION", version))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel that holds the extension module, the launcher and libclump."""
    directory = os.path.abspath(wheel_directory)
    os.chdir(HERE)
    _build_programs()
    settings = dict(config_settings or {})
    words = [settings.get("build-args", ""), "--profile", _profile(), *_machine()[0]]
    settings["build-args"] = " ".join(words).strip()
    os.environ["CARGO_TARGET_DIR"] = str(_target() / "python")
    try:
        return maturin.build_wheel(directory, settings, metadata_directory)
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
