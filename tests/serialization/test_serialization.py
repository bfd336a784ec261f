"""save and load: round trips, PyTorch's checkpoints, hostile and truncated files, kill -9 while writing."""

import collections
import io
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch
from minitorch.nn import Parameter
from minitorch.serialization import atomically
from pytorch import torch

REFUSED = (RuntimeError, pickle.UnpicklingError)
DTYPES = [f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)]
DTYPES += ["bool", "float16", "float32", "float64", "complex64"]
SUFFIXES = [".npz", ".pt", ".pth", ".safetensors", ""]


def same(a, b):
    """Whether two nests are equal, down to types, dtypes and nan."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)  # .data hands out a subclass
    if type(a) is not type(b):
        return False
    if isinstance(a, minitorch.Tensor):
        return a.requires_grad == b.requires_grad and same(a.data, b.data)
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def nest():
    return {
        "model": {"0.weight": minitorch.randn(3, 4), "0.bias": minitorch.zeros(3)},
        "optimizer": {
            "state": {0: {"step": minitorch.tensor(3.0), "exp_avg": minitorch.randn(3, 4)}, 1: {}},
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "foreach": None, "params": [0, 1]}],
        },
        "parameter": Parameter(minitorch.randn(2)),
        "frozen": Parameter(minitorch.randn(2), requires_grad=False),
        "leaf": minitorch.randn(2, requires_grad=True),
        "array": np.arange(6).reshape(2, 3),
        "scalar": np.float64(0.1),
        "random": minitorch.get_rng_state(),
        "numbers": [1, -(2**70), 0.1, math.inf, -math.inf, math.nan, 1 + 2j, True, False, None],
        "text": "naïve – ∂",
        "empty": [{}, [], (), "", minitorch.zeros(0, 3)],
        (1, "a"): "a tuple as a key",
        "a.b": minitorch.ones(1),
        "a": {"b": minitorch.zeros(1)},
    }


# --- round trips ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_nest_comes_back_as_it_was(tmp_path, suffix):
    path = tmp_path / f"checkpoint{suffix}"
    before = nest()
    minitorch.save(before, path)
    assert same(minitorch.load(path), before)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "dtype",
    DTYPES,
)
def test_every_dtype_comes_back(tmp_path, suffix, dtype):
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3, 4)]:
        array = (np.random.default_rng(0).random(shape) * 3).astype(dtype)
        for value in (minitorch.Tensor(array), array, array.T, np.asfortranarray(array)):
            minitorch.save([value], tmp_path / f"x{suffix}")
            assert same(minitorch.load(tmp_path / f"x{suffix}"), [value])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
    ),
)


@given(values)
def test_any_nest_of_plain_values_comes_back(value):
    file = io.BytesIO()
    minitorch.save(value, file)
    file.seek(0)
    assert same(minitorch.load(file), value)


def test_a_state_dict_is_a_plain_npz(tmp_path):
    model = minitorch.nn.Linear(3, 2)
    minitorch.save(model.state_dict(), tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ["bias", "weight"]
        assert np.array_equal(arrays["weight"], model.weight.data)
    np.savez_compressed(tmp_path / "n.npz", weight=model.weight.data, bias=model.bias.data)
    other = minitorch.nn.Linear(3, 2)
    other.load_state_dict(minitorch.load(tmp_path / "n.npz"))
    assert same(dict(other.state_dict()), dict(model.state_dict()))


def test_safetensors_moves_both_ways(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {f"x{i}": np.ones((i, 2), t) for i, t in enumerate(["f4", "f8", "f2", "i8", "u1", "?"])}
    minitorch.save({k: minitorch.Tensor(v) for k, v in arrays.items()}, tmp_path / "ours.safetensors")
    theirs = package.load_file(tmp_path / "ours.safetensors")
    assert same({k: theirs[k] for k in arrays}, arrays)
    package.save_file(arrays, tmp_path / "theirs.safetensors", metadata={"made": "elsewhere"})
    ours = minitorch.load(tmp_path / "theirs.safetensors")
    assert same({k: ours[k].data for k in arrays}, arrays)
    minitorch.save(nest(), tmp_path / "nest.safetensors")  # others can read the arrays of a nest as well
    assert package.load_file(tmp_path / "nest.safetensors")["model.0.weight"].shape == (3, 4)


def test_bfloat16_goes_to_files_and_back(tmp_path):
    package = pytest.importorskip("safetensors.torch")
    there = {"b": torch.randn(3, 2, dtype=torch.bfloat16), "f": torch.randn(4)}
    package.save_file(there, tmp_path / "t.safetensors")
    torch.save(there, tmp_path / "t.pt")
    for path in (tmp_path / "t.safetensors", tmp_path / "t.pt"):
        here = minitorch.load(path)
        assert here["b"].dtype == minitorch.bfloat16
        assert same(
            {k: here[k].float().data for k in there}, {k: v.float().numpy() for k, v in there.items()}
        )
    for suffix in SUFFIXES:
        for nest in (here, {"inside": [here, here["b"].T], "n": 3}):
            minitorch.save(nest, tmp_path / f"ours{suffix}")
            back = minitorch.load(tmp_path / f"ours{suffix}")
            back, before = (back, here) if nest is here else (back["inside"][0], here)
            assert back["b"].dtype == minitorch.bfloat16
            assert same({k: v.float() for k, v in back.items()}, {k: v.float() for k, v in before.items()})
    minitorch.save(here, tmp_path / "ours.safetensors")
    theirs = package.load_file(tmp_path / "ours.safetensors")
    assert theirs["b"].dtype == torch.bfloat16
    assert torch.equal(theirs["b"], there["b"])
    with pytest.raises(ValueError, match="choose another"):
        minitorch.save({"x.bfloat16": minitorch.ones(2)}, tmp_path / "x.npz")


def test_the_same_nest_gives_the_same_bytes(tmp_path):
    before = nest()
    for suffix in SUFFIXES:
        minitorch.save(before, tmp_path / f"a{suffix}")
        first = (tmp_path / f"a{suffix}").read_bytes()
        minitorch.save(before, tmp_path / f"a{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == first


def test_a_file_object_that_cannot_seek(tmp_path):
    minitorch.save([1, minitorch.ones(2)], tmp_path / "x")

    class Stream(io.RawIOBase):
        def __init__(self, content):
            self.inner = io.BytesIO(content)

        def read(self, n=-1):
            return self.inner.read(n)

    assert same(minitorch.load(Stream((tmp_path / "x").read_bytes())), [1, minitorch.ones(2)])


def test_a_header_that_breaks_off_is_damage(tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros(3))
    content = bytearray(file.getvalue())
    content[content.index(b"}")] = ord("(")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", bytes(content))
    with pytest.raises(RuntimeError, match="damaged"):
        minitorch.load(tmp_path / "x.npz")


def test_what_cannot_be_saved_is_named(tmp_path):
    path = tmp_path / "x.npz"
    minitorch.save([1], path)
    with pytest.raises(TypeError, match=r"obj\['model'\]\[1\] is a Linear; save its state_dict\(\)"):
        minitorch.save({"model": [0, minitorch.nn.Linear(1, 1)]}, path)
    with pytest.raises(TypeError, match=r"obj\['f'\] is a function"):
        minitorch.save({"f": lambda: 0}, path)
    with pytest.raises(TypeError, match="only bools and numbers"):
        minitorch.save([np.array(["a"])], path)
    with pytest.raises(TypeError, match=r"complex128.*save as \.npz"):
        minitorch.save([np.array([1j])], tmp_path / "x.safetensors")
    around = []
    around.append(around)
    with pytest.raises(ValueError, match="contains itself"):
        minitorch.save(around, path)
    assert minitorch.load(path) == [1]  # nothing of all that touched the file
    assert os.listdir(tmp_path) == ["x.npz"]


def test_where_it_cannot_be_saved(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        minitorch.save([1], tmp_path / "no" / "x.npz")
    with pytest.raises(IsADirectoryError):
        minitorch.save([1], tmp_path)
    with pytest.raises(FileNotFoundError):
        minitorch.load(tmp_path / "none")


def test_weights_only_false_reads_the_same_and_runs_nothing(tmp_path):
    minitorch.save({"epoch": 3, "weight": minitorch.ones(2)}, tmp_path / "x")
    assert minitorch.load(tmp_path / "x", weights_only=False)["weight"].tolist() == [1, 1]
    torch.save({"epoch": 3, "weight": torch.ones(2)}, tmp_path / "y")
    assert minitorch.load(tmp_path / "y", weights_only=False)["epoch"] == 3
    torch.save(torch.nn.Linear(2, 2), tmp_path / "z")
    with pytest.raises(pickle.UnpicklingError):
        minitorch.load(tmp_path / "z", weights_only=False)


def test_map_location(tmp_path):
    minitorch.save([minitorch.ones(2)], tmp_path / "x")
    for place in (None, "cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert minitorch.load(tmp_path / "x", map_location=place)[0].device == "cpu"


# --- whole or untouched -----------------------------------------------------------------------------


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def half():
        with atomically(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_rights_and_links_are_kept(tmp_path):
    path = tmp_path / "x"
    minitorch.save([1], path)
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode  # the umask decides
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    minitorch.save([2], link)
    assert link.is_symlink()
    assert minitorch.load(path) == [2]
    assert path.stat().st_mode & 0o777 == 0o640


KILLED = """
import sys, numpy as np, minitorch
big = {"new": minitorch.zeros(40_000_000)}
print("ready", flush=True)
while True:
    minitorch.save(big, sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_kill_9_in_the_middle_of_writing_loses_nothing(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    minitorch.save({"old": minitorch.ones(3)}, path)
    writer = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        # Kill it when there is a part of the new file: in the middle of its first write.
        while not any(p.stat().st_size > 1 << 20 for p in tmp_path.glob("*.part") if p.exists()):
            assert time.monotonic() < deadline
        writer.send_signal(signal.SIGKILL)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    content = minitorch.load(path)
    # Either name may have won; what is there is whole.
    assert same(content, {"old": minitorch.ones(3)}) or content["new"].shape == (40_000_000,)


# --- PyTorch's own checkpoints ----------------------------------------------------------------------


def as_ours(value):
    if isinstance(value, torch.nn.Parameter):
        return Parameter(value.detach().numpy(), requires_grad=value.requires_grad)
    if isinstance(value, torch.Tensor):
        wide = value.float() if value.dtype == torch.bfloat16 else value
        return minitorch.Tensor(wide.detach().numpy(), requires_grad=value.requires_grad)
    if isinstance(value, dict):
        return {as_ours(k): as_ours(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_ours(v) for v in value)
    return value


def torch_nest():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.GRU(3, 2))
    head = torch.nn.Linear(4, 3)
    adam = torch.optim.Adam(head.parameters())
    head(torch.ones(2, 4)).sum().backward()
    adam.step()
    base = torch.arange(24.0)
    return {
        "model": model.state_dict(),
        "optimizer": adam.state_dict(),
        "epoch": 7,
        "best": 0.25,
        "big": 2**70,
        "negative": -5,
        "text": "naïve",
        "flags": [True, False, None],
        "nested": {"a": {"b": [1, (2, 3, 4, 5), {"c": ()}]}},
        "transposed": base.reshape(4, 6).T,
        "sliced": base.reshape(2, 3, 4)[1:, ::2, 1],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "zero-d": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.randn(2)),
        "frozen": torch.nn.Parameter(torch.randn(2), requires_grad=False),
        "leaf": torch.randn(2, requires_grad=True),
        "twice": [base, base],
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_checkpoint_of_torch(tmp_path, protocol):
    there = torch_nest()
    torch.save(there, tmp_path / "t.pt", pickle_protocol=protocol)
    assert same(minitorch.load(tmp_path / "t.pt"), as_ours(there))


@pytest.mark.parametrize(
    "dtype",
    [*DTYPES, "complex128"],
)
def test_every_dtype_of_torch(tmp_path, dtype):
    there = (torch.rand(3, 5, dtype=torch.float64) * 3).to(getattr(torch, dtype)).T
    torch.save({"x": there}, tmp_path / "t.pt")
    assert same(minitorch.load(tmp_path / "t.pt"), {"x": minitorch.Tensor(there.numpy())})


def test_bfloat16_becomes_float32_without_the_package_and_says_so(tmp_path, monkeypatch):
    there = torch.randn(5, 3, dtype=torch.bfloat16)
    torch.save([there, there.T], tmp_path / "t.pt")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.warns(UserWarning, match="1 bfloat16 arrays became float32, without loss"):
        here = minitorch.load(tmp_path / "t.pt")
    assert same(here, [as_ours(there), as_ours(there.T)])


def test_tensors_that_share_memory_share_it_again(tmp_path):
    base = torch.zeros(6)
    torch.save({"all": base, "part": base[2:4]}, tmp_path / "t.pt")
    here = minitorch.load(tmp_path / "t.pt")
    here["all"][2] = 5.0
    assert here["part"].tolist() == [5.0, 0.0]


def test_a_model_of_torch_moves_over(tmp_path):
    there = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    torch.save(there.state_dict(), tmp_path / "t.pth")
    nn = minitorch.nn
    here = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    here.load_state_dict(minitorch.load(tmp_path / "t.pth"))
    x = np.random.default_rng(0).random((3, 4), np.float32)
    expected = there(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(here(minitorch.Tensor(x)).data, expected, rtol=1e-5, atol=1e-6)
    # and back: a .npz or .safetensors of ours holds plain arrays
    minitorch.save(here.state_dict(), tmp_path / "back.npz")
    with np.load(tmp_path / "back.npz") as arrays:
        there.load_state_dict({k: torch.from_numpy(arrays[k]) for k in arrays.files})


def test_an_old_checkpoint_of_torch_is_explained(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "t.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match=r"before PyTorch 1\.6"):
        minitorch.load(tmp_path / "t.pt")


# --- hostile files ----------------------------------------------------------------------------------

RAN = []


def trap(*anything):
    RAN.append(anything)
    return {}


class Evil:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def zip_with_pickle(path, program, **storages):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", program)
        archive.writestr("a/byteorder", "little")
        for name, content in storages.items():
            archive.writestr(f"a/data/{name.removeprefix('s')}", content)


@pytest.fixture
def nothing_ran(tmp_path):
    RAN.clear()
    yield
    assert RAN == []
    assert not (tmp_path / "owned").exists()


@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("where", ["top", "value", "key", "list", "argument"])
def test_a_pickle_that_calls_something_is_refused_by_name(tmp_path, protocol, where):
    for function, arguments, name in [
        (os.system, (f"touch {tmp_path}/owned",), r"(posix|nt)\.system"),
        (eval, ("__import__('test_serialization').trap()",), r"(builtins|__builtin__)\.eval"),
        (trap, (), r"test_serialization\.trap"),
        (getattr, ("", "join"), r"(builtins|__builtin__)\.getattr"),
        (subprocess.Popen, (["touch", f"{tmp_path}/owned"],), r"(subprocess|commands)\.Popen"),
    ]:
        evil = Evil(function, *arguments)
        value = {
            "top": evil,
            "value": {"a": evil},
            "key": {evil: 1},
            "list": [1, [2, evil]],
            "argument": collections.OrderedDict(a=evil),
        }[where]
        zip_with_pickle(tmp_path / "e.pt", pickle.dumps(value, protocol))
        with pytest.raises(pickle.UnpicklingError, match=name):
            minitorch.load(tmp_path / "e.pt")


@pytest.mark.usefixtures("nothing_ran")
def test_whole_objects_are_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.linear\.Linear"):
        minitorch.load(tmp_path / "m.pt")
    torch.save({"a": torch.float32, "b": collections.Counter("aab")}, tmp_path / "m.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.float32|collections\.Counter"):
        minitorch.load(tmp_path / "m.pt")


@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize(
    "program",
    {
        "attributes of an allowed function": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb.",
        "a name as the result": b"\x80\x02ccollections\nOrderedDict\n.",
        "a name inside": b"\x80\x02]ccollections\nOrderedDict\na.",
        "a dotted name": b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.",
        "a call of a string": b"\x80\x02X\x01\x00\x00\x00a)R.",
        "a call of a dict": b"\x80\x02})R.",
        "a call of a storage class": b"\x80\x02ctorch\nFloatStorage\nK\x05\x85R.",
        "a class without a call": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "an instance": b"\x80\x00(icollections\nOrderedDict\n.",
        "an extension code": b"\x80\x02\x82\x01.",
        "bytes": b"\x80\x03C\x01a.",
        "a text persistent id": b"\x80\x00Pos.system\n.",
        "an unknown storage": b"\x80\x02X\x01\x00\x00\x00aQ.",
        "no end": b"\x80\x02}",
        "nothing": b"",
        "an empty stack": b"\x80\x02.",
        "two values": b"\x80\x02}}.",
        "a missing memo": b"\x80\x02h\x05.",
        "a group not opened": b"\x80\x02t.",
        "a key that is a list": b"\x80\x02}]K\x01s.",
        "an odd dict": b"\x80\x02}(K\x01u.",
        "a string that claims 4 GB": b"\x80\x02X\xff\xff\xff\xffabc.",
        "a string that claims 2**63": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        "not ours at all": b"hello",
        "rebuild without arguments": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
        "a dict of what is no pair": b"\x80\x02ccollections\nOrderedDict\n]K\x01a\x85R.",
    }.items(),
    ids=lambda item: item[0],
)
def test_crooked_pickles_are_refused(tmp_path, program):
    zip_with_pickle(tmp_path / "e.pt", program[1])
    with pytest.raises(REFUSED):
        minitorch.load(tmp_path / "e.pt")


def test_a_huge_memo_index_costs_nothing(tmp_path):
    zip_with_pickle(
        tmp_path / "e.pt", b"\x80\x02}r\xff\xff\xff\x7f."
    )  # CPython's own machine would take 16 GB
    assert minitorch.load(tmp_path / "e.pt") == {}


def rebuilt(size, stride, offset=0, count=4):
    """A checkpoint's pickle with one tensor, as torch would write it, with any numbers."""

    class Tensor:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Storage(), offset, size, stride, False, {})

    class Storage:
        pass

    file = io.BytesIO()
    pickler = pickle.Pickler(file, 2)
    pickler.persistent_id = lambda o: (
        ("storage", torch.FloatStorage, "0", "cpu", count) if isinstance(o, Storage) else None
    )
    pickler.dump(Tensor())
    return file.getvalue()


@pytest.mark.parametrize(
    ("size", "stride", "offset", "count"),
    [
        ((5,), (1,), 0, 4),
        ((4,), (1,), 1, 4),
        ((2, 2), (3, 1), 0, 4),
        ((2**40,), (0,), 0, 4),
        ((2**40, 2**40), (0, 0), 0, 4),
        ((-1,), (1,), 0, 4),
        ((2,), (-1,), 1, 4),
        ((2,), (1,), -1, 4),
        ((2,), (1, 1), 0, 4),
        ((2.0,), (1,), 0, 4),
        ((4,), (1,), 0, 10**12),
        ((2**62,), (2**62,), 0, 4),
    ],
)
def test_tensors_never_look_past_their_storage(tmp_path, size, stride, offset, count):
    zip_with_pickle(tmp_path / "e.pt", rebuilt((2, 2), (2, 1)), s0=bytes(16))
    assert minitorch.load(tmp_path / "e.pt").shape == (2, 2)  # the helper writes good ones too
    zip_with_pickle(tmp_path / "e.pt", rebuilt(size, stride, offset, count), s0=bytes(16))
    with pytest.raises(REFUSED):
        minitorch.load(tmp_path / "e.pt")


@pytest.mark.slow
def test_zip_bombs_are_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**31,)})
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w", force_zip64=True) as entry,
    ):
        entry.write(header.getvalue())
        for _ in range(128):
            entry.write(bytes(1 << 24))
    with pytest.raises(RuntimeError, match="zip bomb"):
        minitorch.load(path)


def test_compressed_checkpoints_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "e.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", rebuilt((2, 2), (2, 1)))
        archive.writestr("a/data/0", bytes(16))
    with pytest.raises(RuntimeError, match=r"torch\.save never"):
        minitorch.load(tmp_path / "e.pt")


def npz_with(path, header, content, name="a.npy"):
    with zipfile.ZipFile(path, "w") as archive:
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, header)
        archive.writestr(name, file.getvalue() + content)


@pytest.mark.parametrize("shape", [(2**50,), (3,), (2**40, 2**40), (-1,), (-2, -1), ()])
def test_npz_shapes_that_do_not_fit_are_refused(tmp_path, shape):
    npz_with(tmp_path / "x.npz", {"descr": "<f4", "fortran_order": False, "shape": (2,)}, bytes(8))
    assert minitorch.load(tmp_path / "x.npz")["a"].shape == (2,)
    npz_with(tmp_path / "x.npz", {"descr": "<f4", "fortran_order": False, "shape": shape}, bytes(8))
    with pytest.raises(RuntimeError, match="claims shape"):
        minitorch.load(tmp_path / "x.npz")


def test_npz_of_objects_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.array([Evil(trap)], dtype=object), allow_pickle=True)
    RAN.clear()
    with pytest.raises(RuntimeError, match="would need pickle"):
        minitorch.load(tmp_path / "x.npz")
    assert RAN == []
    np.savez(tmp_path / "x.npz", a=np.array(["text"]))
    with pytest.raises(RuntimeError, match="not numbers"):
        minitorch.load(tmp_path / "x.npz")


def test_npz_of_other_machines(tmp_path):
    np.savez(
        tmp_path / "x.npz",
        big=np.arange(3, dtype=">i4"),
        columns=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    )
    here = minitorch.load(tmp_path / "x.npz")
    assert here["big"].tolist() == [0, 1, 2]
    assert here["big"].dtype == np.int32
    assert here["columns"].tolist() == [[0, 1, 2], [3, 4, 5]]


def safetensors_with(path, header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


GOOD = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2**61, 4], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}},
        {"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2]}},
        {"a": 5},
        {**GOOD, "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        {"__metadata__": {"minitorch": "{}"}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"call": "os.system"}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"tensor": "b"}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"dict": [[{"list": []}, 1]]}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"dict": [[1, 2, 3]]}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"list": 5}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {"float": "one"}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": {}}'}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 2, "nest": 1}'}, **GOOD},
        {"__metadata__": {"minitorch": json.dumps({"version": 1}) * 2}, **GOOD},
        {"__metadata__": {"minitorch": '{"version": 1, "nest": ' + '{"list": [' * 100_000}, **GOOD},
        b'{"a": 1, "a": 2}',
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"{\xff}",
        b"{]",
    ],
    ids=str,
)
def test_crooked_safetensors_are_refused(tmp_path, header):
    path = tmp_path / "x.safetensors"
    safetensors_with(path, GOOD, bytes(8))
    assert minitorch.load(path)["a"].tolist() == [0, 0]
    safetensors_with(path, header, bytes(8))
    with pytest.raises(RuntimeError, match="cannot read"):
        minitorch.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"hello, this is no checkpoint",
        b"PK",
        b"PK\x03\x04",
        b"\x80\x02}.",
        b"\xff" * 100,
        bytes(100),
    ],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(RuntimeError, match="cannot read"):
        minitorch.load(tmp_path / "x")


def samples(tmp_path):
    small = {"w": minitorch.ones(3), "n": [1, 2.5, None]}
    for suffix in (".npz", ".safetensors"):
        minitorch.save(small, tmp_path / f"a{suffix}")
        yield (tmp_path / f"a{suffix}").read_bytes()
    np.savez_compressed(tmp_path / "b.npz", a=np.ones(5), b=np.zeros((2, 2)))
    yield (tmp_path / "b.npz").read_bytes()
    torch.save({"w": torch.ones(3), "n": [1, 2.5]}, tmp_path / "a.pt")
    yield (tmp_path / "a.pt").read_bytes()


def test_a_file_truncated_anywhere_is_refused(tmp_path):
    for content in samples(tmp_path):
        minitorch.load(io.BytesIO(content))
        for length in range(len(content)):
            with pytest.raises(RuntimeError, match="cannot read"):
                minitorch.load(io.BytesIO(content[:length]))


@pytest.mark.filterwarnings("ignore")  # a changed byte may well say bfloat16
def test_a_file_with_any_byte_changed_loads_or_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    refused = 0
    for content in samples(tmp_path):
        for place in rng.integers(0, len(content), 400):
            changed = bytearray(content)
            changed[place] ^= int(rng.integers(1, 256))
            try:
                minitorch.load(io.BytesIO(bytes(changed)))
            except REFUSED:
                refused += 1
    assert refused > 400
