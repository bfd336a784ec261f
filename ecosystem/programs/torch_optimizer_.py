import torch
import torch_optimizer

NAMES = [
    "A2GradExp",
    "A2GradInc",
    "A2GradUni",
    "AccSGD",
    "AdaBelief",
    "AdaBound",
    "Adafactor",
    "AdaMod",
    "AdamP",
    "AggMo",
    "Apollo",
    "DiffGrad",
    "Lamb",
    "LARS",
    "Lookahead",
    "MADGRAD",
    "NovoGrad",
    "PID",
    "QHAdam",
    "QHM",
    "RAdam",
    "Ranger",
    "RangerQH",
    "RangerVA",
    "SGDP",
    "SGDW",
    "Shampoo",
    "SWATS",
    "Yogi",
    "Adahessian",
]


def _make(name):
    def program():
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
        x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        if name == "Lookahead":
            optimizer = torch_optimizer.Lookahead(torch_optimizer.Yogi(model.parameters(), lr=0.01), k=2)
        else:
            options = {"lr": 0.01} if not name.startswith("A2Grad") else {}
            optimizer = getattr(torch_optimizer, name)(model.parameters(), **options)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward(create_graph=name == "Adahessian")
            optimizer.step()
            losses.append(loss.item())
        return [losses, model[0].weight]

    return program


for _name in NAMES:
    globals()[f"try_{_name}"] = _make(_name)
