"""torch.hub: models by name. Enters: a folder, or an address. Leaves: a model, or an error.

Nothing is downloaded. What lies where PyTorch keeps its downloads is loaded.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from minitorch.face.checkpoints import load as load_checkpoint

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # of a file's name: what its checksum begins with
_chosen: list[str] = []


def get_dir() -> str:
    """Return the folder of downloads: TORCH_HOME's hub, or that of the user's cache."""
    if _chosen:
        return _chosen[-1]
    home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "torch"
    )
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: Any) -> None:
    """Choose the folder of downloads."""
    _chosen[:] = [os.path.expanduser(d)]


def _refusal(what: str, url: str, place: Any) -> RuntimeError:
    return RuntimeError(
        f"{what}: nothing is downloaded here. Fetch {url} yourself and put it at {place}; it will be loaded from there"
    )


def load_state_dict_from_url(
    url: str, model_dir: Any = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: Any = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """Load the file of an address from the folder of downloads; an error that says where it should be, if it is not."""
    folder = Path(model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints"))
    place = folder / (file_name or os.path.basename(urlparse(url).path))
    if not place.is_file():
        raise _refusal("load_state_dict_from_url", url, place)
    return load_checkpoint(place, map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: Any, hash_prefix: Any = None, progress: bool = True) -> None:
    """Refuse: nothing is downloaded."""
    raise _refusal("download_url_to_file", url, dst)


def _hubconf(repo_or_dir: str, source: str, what: str) -> Any:
    if source != "local":
        raise _refusal(
            what, f"https://github.com/{repo_or_dir}", f"a folder, and pass that with source='local' ({what})"
        )
    path = Path(repo_or_dir) / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise RuntimeError(f"{what}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(repo_or_dir))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(repo_or_dir))
    return module


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Make a model by a folder's hubconf.py (source='local')."""
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(name, None)
    return getattr(_hubconf(repo_or_dir, source, "hub.load"), model)(*args, **kwargs)


def list(github: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Return the names of the models in a folder's hubconf.py (source='local')."""
    found = vars(_hubconf(github, source, "hub.list"))
    return [name for name, value in found.items() if callable(value) and not name.startswith("_")]
