"""Files of datasets. Enters: where they are on the network and shall be here. Leaves: the files, checked, unpacked."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from typing import Any


def check_integrity(fpath: Any, md5: str | None = None) -> bool:
    """Tell whether a file is there, with this checksum."""
    if not os.path.isfile(fpath):
        return False
    if md5 is None:
        return True
    with open(fpath, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5


def download_url(
    url: str, root: Any, filename: str | None = None, md5: str | None = None, **options: Any
) -> None:
    """Fetch a file into a folder, unless it is there; say what to do where that cannot be."""
    root = os.path.expanduser(root)
    path = os.path.join(root, filename or os.path.basename(url))
    if check_integrity(path, md5):
        return
    os.makedirs(root, exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=30) as source, open(f"{path}.part", "wb") as target:
            shutil.copyfileobj(source, target)
    except (urllib.error.URLError, OSError) as error:
        raise RuntimeError(
            f"{url} could not be loaded ({error}); bring the file here yourself, as {path}, and write download=False"
        ) from error
    os.replace(f"{path}.part", path)
    if not check_integrity(path, md5):
        raise RuntimeError(f"File not found or corrupted: {path} does not have the checksum {md5}")


def extract_archive(from_path: Any, to_path: Any = None, remove_finished: bool = False) -> str:
    """Unpack a .zip, .tar, .tar.gz or .gz file into a folder."""
    source = os.fspath(from_path)
    folder = os.path.dirname(source) if to_path is None else os.fspath(to_path)
    if source.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
    elif source.endswith(".zip"):
        with zipfile.ZipFile(source) as archive:
            archive.extractall(folder)
    elif source.endswith(".gz"):
        folder = os.path.join(folder, os.path.basename(source).removesuffix(".gz"))
        with gzip.open(source, "rb") as packed, open(folder, "wb") as target:
            shutil.copyfileobj(packed, target)
    else:
        raise RuntimeError(f"extract_archive: {source} is no .zip, .tar, .tar.gz or .gz file")
    if remove_finished:
        os.remove(source)
    return folder


def download_and_extract_archive(
    url: str,
    download_root: Any,
    extract_root: Any = None,
    filename: str | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Fetch an archive and unpack it."""
    download_root = os.path.expanduser(download_root)
    name = filename or os.path.basename(url)
    download_url(url, download_root, name, md5)
    extract_archive(os.path.join(download_root, name), extract_root or download_root, remove_finished)


def verify_str_arg(value: Any, arg: str, valid_values: Any) -> Any:
    """Return a value if it is one of some, or refuse it."""
    if value not in valid_values:
        raise ValueError(f"Unknown value '{value}' for argument {arg}. Valid values are {valid_values}.")
    return value
