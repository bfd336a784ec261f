import tempfile

import torch
from safetensors.torch import load, load_file, load_model, save, save_file, save_model


def try_files():
    model, other = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    with tempfile.TemporaryDirectory() as folder:
        save_file(
            {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.int64)},
            f"{folder}/x.safetensors",
        )
        found = load_file(f"{folder}/x.safetensors")
        save_model(model, f"{folder}/m.safetensors")
        load_model(other, f"{folder}/m.safetensors")
    again = load(save({"c": torch.tensor([True, False])}))
    return [found["a"], found["b"], again["c"], other.weight]
