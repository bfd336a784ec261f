"""The generators of GPUs' random numbers. Enters: seeds and states. Leaves: the generators, started anew."""

from __future__ import annotations

from typing import Any

from minitorch.cuda.devices import current_device, device_count, is_available, number_of
from minitorch.tensor.convert import as_tensor
from minitorch.tensor.devices import device as Device
from minitorch.tensor.generator import generator_of, seed_devices


def manual_seed(seed: int) -> None:
    """Seed the generator of the GPU in use; where there is none yet, those of all that are used later."""
    if is_available():
        generator_of(Device("cuda", current_device())).manual_seed(seed)
    else:
        seed_devices(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    seed_devices(int(seed))


def seed() -> None:
    """Seed the generator of the GPU in use from the system's randomness."""
    if is_available():
        generator_of(Device("cuda", current_device())).seed()


def seed_all() -> None:
    """Seed the generators of all GPUs from the system's randomness, all alike."""
    if is_available():
        seed_devices(generator_of(Device("cuda", 0)).seed())


def initial_seed() -> int:
    """Return the seed of the generator of the GPU in use."""
    return generator_of(Device("cuda", current_device())).initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of a GPU's generator: the 16 bytes of its seed and its offset, as in PyTorch."""
    return as_tensor(generator_of(Device("cuda", number_of(device))).get_state())


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continue a GPU's generator from a state that get_rng_state returned."""
    generator_of(Device("cuda", number_of(device))).set_state(new_state.cpu().numpy())


def get_rng_state_all() -> list[Any]:
    """Return the states of all GPUs' generators."""
    return [get_rng_state(number) for number in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Continue all GPUs' generators from states that get_rng_state_all returned."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)
