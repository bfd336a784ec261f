"""`import torchvision` under the torch face: a script of the usual kind, as it stands."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("PIL.Image")
SCRIPT = """
    import importlib.metadata
    import torch
    import torch.nn.functional as F
    import torchvision
    import torchvision.datasets.utils
    import torchvision.transforms as T
    from torchvision import datasets, models
    from torchvision.models.resnet import BasicBlock
    from torchvision.ops import nms
    from torchvision.transforms import v2
    from torchvision.transforms.transforms import RandomCrop
    from torchvision.utils import make_grid, save_image

    assert torchvision.__version__ == importlib.metadata.version("torchvision") == "0.29.0+minitorch"
    assert RandomCrop is T.RandomCrop and not hasattr(torch, "vision")
    transform = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
    loader = torch.utils.data.DataLoader(datasets.FakeData(8, (3, 32, 32), 2, transform), batch_size=4)
    torch.manual_seed(0)
    model = models.shufflenet_v2_x0_5(num_classes=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in loader:
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    assert images.dtype is torch.float32 and images.shape == torch.Size([4, 3, 32, 32])
    assert T.ConvertImageDtype(torch.uint8)(torch.ones(3, 2, 2)).dtype == torch.uint8
    for change in (T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.RandomErasing(1.0), T.RandomRotation(9), v2.RandomResizedCrop(8), T.GaussianBlur(3)):
        assert change(torch.rand(3, 16, 16)).dtype == torch.float32
    assert make_grid(images).shape == (3, 36, 138)
    print("done")
"""


def test_a_script(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, "-m", "minitorch", "run", "script.py"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
