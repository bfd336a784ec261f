"""A whole training script: init, shuffled DataLoader, dropout, AdamW, sampling, 50 steps."""


def main(torch):
    nn = torch.nn
    from_utils = torch.utils.data
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs = torch.randn(200, 12)
    labels = (inputs[:, :3].sum(dim=1) > 0).long() + (inputs[:, 3] > 1).long()
    dataset = from_utils.TensorDataset(inputs, labels)
    train, held = from_utils.random_split(dataset, [160, 40])
    loader = from_utils.DataLoader(train, batch_size=16, shuffle=True, drop_last=True)
    model = nn.Sequential(
        nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(32, 3)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    printed = []
    for _ in range(5):
        model.train()
        for xb, yb in loader:
            xb, yb = xb.to(device, non_blocking=True), yb.to(device)
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            printed.append(loss.item())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            correct = total = 0
            for xb, yb in from_utils.DataLoader(held, batch_size=8):
                outputs = model(xb)
                _, predicted = torch.max(outputs.data, 1)
                total += yb.size(0)
                correct += (predicted == yb).sum().item()
        printed += [correct / total, optimizer.param_groups[0]["lr"]]
    probs = torch.softmax(model(inputs[:5]), dim=-1)
    drawn = torch.multinomial(probs, 4, replacement=True)
    return printed + [float(v) for v in drawn.flatten().tolist()] + [torch.rand(1).item()]
