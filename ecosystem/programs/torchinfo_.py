import torch
from torchinfo import summary


def try_summary():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5)
    )
    found = summary(model, input_size=(2, 3, 8, 8), verbose=0)
    return [found.total_params, found.total_mult_adds, str(found)]
