"""clump: arrays over all ranks, messages, tasks and shared memory, for clusters and laptops.

    import clump, numpy as np
    w = clump.world()
    t = clump.zeros(1 << 20, 'i8')
    keys = np.random.default_rng(w.rank).integers(0, t.size, 10**6)
    t.add(keys, 1); w.barrier(); print(w.rank, t.local.sum())

Start it by `python -m clump run -n 4 hist.py`. Importing does nothing but load: the first call of
`clump.world()`, or `clump.init()`, joins the job. `clump.pickle = cloudpickle`, or any module with
such a `dumps`, has it encode objects.
"""

import os as _os


def _refuse_clashes():
    """Refuses to load among the files of another package that imports as `clump`."""
    site = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
    try:
        names = _os.listdir(site)
    except OSError:
        return
    for name in names:
        if name.startswith("clump-") and name.endswith((".dist-info", ".egg-info")):
            raise ImportError(
                f"the distribution 'clump' ({name} in {site}) is another package that imports as "
                "'clump', and has put its files among those of clump-runtime. Only one of them can "
                "be in an environment: pip uninstall clump clump-runtime; pip install clump-runtime"
            )


_refuse_clashes()

try:
    from . import _native
except ImportError as error:
    raise ImportError(
        f"clump: the extension module cannot be loaded ({error}). It is part of the wheel of "
        "clump-runtime; in a checkout of the sources, pip install ./python first"
    ) from error

__version__ = "0.1.0"
if _native.VERSION != __version__:
    raise ImportError(
        f"clump: the package is version {__version__}, and its extension module {_native.VERSION}: "
        "files of two installations are mixed. pip install --force-reinstall clump-runtime"
    )

from ._errors import (  # noqa: E402
    ClumpError,
    ClumpTimeout,
    DisagreementError,
    ForkedError,
    HandlerError,
    NodeLost,
    OutOfMemory,
    RankDied,
    RankLeft,
    Refused,
    RemoteError,
    StartError,
    ThreadError,
)
from ._remote import call, handler, notify, start  # noqa: E402
from ._world import Phase, Team, World, world  # noqa: E402

init = world

# Loaded when they are used: `import clump` needs neither NumPy nor the modules of tasks.
_LATER = {
    "zeros": "_array",
    "empty": "_array",
    "GlobalArray": "_array",
    "Lock": "_lock",
    "Dict": "_dict",
    "Endpoint": "_endpoint",
    "Token": "_endpoint",
    "Executor": "_tasks",
    "Cluster": "_cluster",
    "CellError": "_cluster",
}
_MODULES = ("svm",)


def __getattr__(name):
    import importlib

    if name in _LATER:
        value = getattr(importlib.import_module("." + _LATER[name], __name__), name)
    elif name in _MODULES:
        value = importlib.import_module("." + name, __name__)
    else:
        raise AttributeError(f"module 'clump' has no attribute {name!r}")
    globals()[name] = value
    return value


def launcher():
    """Returns the path of the launcher that is part of the package."""
    path = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "bin", "clump")
    if not _os.path.exists(path):
        raise ClumpError(f"the launcher is missing from the package: there is no {path}")
    return path


def prefix():
    """Returns the folder of libclump (`lib`), its headers (`include`), and what pkg-config reads."""
    return _os.path.dirname(_os.path.abspath(__file__))


__all__ = [
    "CellError",
    "ClumpError",
    "ClumpTimeout",
    "Cluster",
    "Dict",
    "DisagreementError",
    "Endpoint",
    "Executor",
    "ForkedError",
    "GlobalArray",
    "HandlerError",
    "Lock",
    "NodeLost",
    "OutOfMemory",
    "Phase",
    "RankDied",
    "RankLeft",
    "Refused",
    "RemoteError",
    "StartError",
    "Team",
    "ThreadError",
    "Token",
    "World",
    "call",
    "empty",
    "handler",
    "init",
    "launcher",
    "prefix",
    "notify",
    "start",
    "svm",
    "world",
    "zeros",
]
