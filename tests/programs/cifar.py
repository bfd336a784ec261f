"""CIFAR-style networks on random images, a few steps each: every building block that repositories of them use."""


def train(torch, make, steps=20, size=8, batch=4, classes=10, lr=0.05):
    nn = torch.nn
    torch.manual_seed(0)
    net = make(torch)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = net.to(device)
    if device == "cuda":
        net = torch.nn.DataParallel(net)
        torch.backends.cudnn.benchmark = True
    images = torch.randn(steps * batch, 3, size, size)
    labels = torch.randint(0, classes, (steps * batch,))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=batch, shuffle=True, num_workers=0
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[10, 15], gamma=0.1)
    printed = [float(sum(p.numel() for p in net.parameters() if p.requires_grad))]
    net.train()
    train_loss = correct = total = 0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        train_loss += loss.item()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum().item()
        printed.append(loss.item())
    net.eval()
    with torch.no_grad():
        out = net(images[:2])
    return [*printed, train_loss, 100.0 * correct / total, *out.flatten().tolist()]


def residual(torch):
    """Residual network of basic and bottleneck blocks: `out += self.shortcut(x)`, Kaiming init."""
    nn, F = torch.nn, torch.nn.functional

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, in_planes, planes, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.shortcut = nn.Sequential()
            if stride != 1 or in_planes != self.expansion * planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                    nn.BatchNorm2d(self.expansion * planes),
                )

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += self.shortcut(x)
            out = F.relu(out)
            return out

    class Bottleneck(nn.Module):
        expansion = 2

        def __init__(self, in_planes, planes, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(in_planes, planes, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv3 = nn.Conv2d(planes, planes * 2, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(planes * 2)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or in_planes != planes * 2:
                self.downsample = nn.Sequential(
                    nn.Conv2d(in_planes, planes * 2, 1, stride, bias=False), nn.BatchNorm2d(planes * 2)
                )

        def forward(self, x):
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.relu(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.in_planes = 8
            self.conv1 = nn.Conv2d(3, 8, kernel_size=3, stride=1, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            self.layer1 = self._make_layer(BasicBlock, 8, 1, stride=1)
            self.layer2 = self._make_layer(Bottleneck, 8, 2, stride=2)
            self.linear = nn.Linear(16, 10)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                    nn.init.constant_(m.weight, 1)
                    nn.init.constant_(m.bias, 0)

        def _make_layer(self, block, planes, num_blocks, stride):
            layers = []
            for stride in [stride] + [1] * (num_blocks - 1):
                layers.append(block(self.in_planes, planes, stride))
                self.in_planes = planes * block.expansion
            return nn.Sequential(*layers)

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.layer2(self.layer1(out))
            out = F.avg_pool2d(out, 4)
            out = out.view(out.size(0), -1)
            return self.linear(out)

    return train(torch, lambda t: ResNet())


def pre_activation_with_squeeze(torch):
    """Pre-activation blocks with squeeze and excitation."""
    nn, F = torch.nn, torch.nn.functional

    class PreActBlock(nn.Module):
        def __init__(self, in_planes, planes, stride=1):
            super().__init__()
            self.bn1 = nn.BatchNorm2d(in_planes)
            self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
            if stride != 1 or in_planes != planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False)
                )
            self.fc1 = nn.Conv2d(planes, planes // 4, kernel_size=1)
            self.fc2 = nn.Conv2d(planes // 4, planes, kernel_size=1)

        def forward(self, x):
            out = F.relu(self.bn1(x))
            shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
            out = self.conv1(out)
            out = self.conv2(F.relu(self.bn2(out)))
            w = F.avg_pool2d(out, out.size(2))
            w = F.relu(self.fc1(w))
            w = F.sigmoid(self.fc2(w))
            out = out * w
            out += shortcut
            return out

    return train(
        torch,
        lambda t: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            PreActBlock(8, 8),
            PreActBlock(8, 16, 2),
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Flatten(),
            nn.Linear(16, 10),
        ),
    )


def dense(torch):
    """Densely connected layers with transitions."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, in_planes, growth):
            super().__init__()
            self.bn1 = nn.BatchNorm2d(in_planes)
            self.conv1 = nn.Conv2d(in_planes, 4 * growth, kernel_size=1, bias=False)
            self.bn2 = nn.BatchNorm2d(4 * growth)
            self.conv2 = nn.Conv2d(4 * growth, growth, kernel_size=3, padding=1, bias=False)

        def forward(self, x):
            out = self.conv1(F.relu(self.bn1(x)))
            out = self.conv2(F.relu(self.bn2(out)))
            return torch.cat([out, x], 1)

    class Transition(nn.Module):
        def __init__(self, in_planes, out_planes):
            super().__init__()
            self.bn = nn.BatchNorm2d(in_planes)
            self.conv = nn.Conv2d(in_planes, out_planes, kernel_size=1, bias=False)

        def forward(self, x):
            return F.avg_pool2d(self.conv(F.relu(self.bn(x))), 2)

    return train(
        torch,
        lambda t: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            Layer(8, 4),
            Layer(12, 4),
            Transition(16, 8),
            Layer(8, 4),
            nn.BatchNorm2d(12),
            nn.ReLU(True),
            nn.AvgPool2d(4),
            nn.Flatten(1),
            nn.Linear(12, 10),
        ),  # fmt: skip
    )


def inception_with_plain_stem(torch):
    """A plain stem from a configuration list, then an inception block."""
    nn = torch.nn

    class Inception(nn.Module):
        def __init__(self, in_planes, n1, n3red, n3, n5red, n5, pool):
            super().__init__()
            self.b1 = nn.Sequential(
                nn.Conv2d(in_planes, n1, kernel_size=1), nn.BatchNorm2d(n1), nn.ReLU(True)
            )
            self.b2 = nn.Sequential(
                nn.Conv2d(in_planes, n3red, kernel_size=1), nn.BatchNorm2d(n3red), nn.ReLU(True),
                nn.Conv2d(n3red, n3, kernel_size=3, padding=1), nn.BatchNorm2d(n3), nn.ReLU(True),
            )  # fmt: skip
            self.b3 = nn.Sequential(
                nn.Conv2d(in_planes, n5red, kernel_size=1), nn.BatchNorm2d(n5red), nn.ReLU(True),
                nn.Conv2d(n5red, n5, kernel_size=(3, 1), padding=(1, 0)), nn.ReLU(True),
                nn.Conv2d(n5, n5, kernel_size=(1, 3), padding=(0, 1)), nn.ReLU6(True),
            )  # fmt: skip
            self.b4 = nn.Sequential(
                nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(in_planes, pool, kernel_size=1), nn.ReLU(True)
            )

        def forward(self, x):
            return torch.cat([self.b1(x), self.b2(x), self.b3(x), self.b4(x)], 1)

    cfg = [8, "M", 8]

    def features(t):
        layers, channels = [], 3
        for v in cfg:
            if v == "M":
                layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            else:
                layers += [
                    nn.Conv2d(channels, v, kernel_size=3, padding=1),
                    nn.BatchNorm2d(v),
                    nn.ReLU(inplace=True),
                ]
                channels = v
        return nn.Sequential(*layers, Inception(8, 4, 4, 6, 2, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(16, 10))  # fmt: skip

    return train(torch, features)


def depthwise_grouped_and_shuffled(torch):
    """Depthwise and grouped convolutions, channel split and shuffle, inverted residuals."""
    nn, F = torch.nn, torch.nn.functional

    class ShuffleBlock(nn.Module):
        def __init__(self, groups):
            super().__init__()
            self.groups = groups

        def forward(self, x):
            N, C, H, W = x.size()
            g = self.groups
            return x.view(N, g, C // g, H, W).permute(0, 2, 1, 3, 4).reshape(N, C, H, W)

    class Mobile(nn.Module):
        def __init__(self, in_planes, out_planes, expansion, stride):
            super().__init__()
            self.stride = stride
            planes = expansion * in_planes
            self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=1, stride=1, padding=0, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(
                planes, planes, kernel_size=3, stride=stride, padding=1, groups=planes, bias=False
            )
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv3 = nn.Conv2d(planes, out_planes, kernel_size=1, stride=1, padding=0, bias=False)
            self.bn3 = nn.BatchNorm2d(out_planes)
            self.shortcut = nn.Sequential()
            if stride == 1 and in_planes != out_planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(in_planes, out_planes, kernel_size=1, bias=False), nn.BatchNorm2d(out_planes)
                )

        def forward(self, x):
            out = F.relu6(self.bn1(self.conv1(x)))
            out = F.hardswish(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            return out + self.shortcut(x) if self.stride == 1 else out

    class SplitUnit(nn.Module):
        def __init__(self, channels):
            super().__init__()
            half = channels // 2
            self.conv1 = nn.Conv2d(half, half, 1, bias=False)
            self.conv2 = nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False)
            self.bn = nn.GroupNorm(2, half)
            self.shuffle = ShuffleBlock(2)

        def forward(self, x):
            x1, x2 = x.chunk(2, dim=1)
            out = F.silu(self.bn(self.conv2(F.relu(self.conv1(x2)))))
            return self.shuffle(torch.cat([x1, out], 1))

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(12, 12, 3, stride=2, padding=1, groups=3)
            self.pool = nn.AvgPool2d(3, stride=2, padding=1)
            self.norm = nn.InstanceNorm2d(24, affine=True)

        def forward(self, x):
            return F.relu(self.norm(torch.cat([self.conv(x), self.pool(x)], 1)))

    return train(
        torch,
        lambda t: nn.Sequential(
            Mobile(3, 12, 2, 1),
            SplitUnit(12),
            nn.ChannelShuffle(3),
            Grouped(),
            nn.Conv2d(24, 10, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),  # fmt: skip
    )


def tutorial(torch):
    """The classifier of a first tutorial, with saving and loading in between, class accuracies, and hooks."""
    import io

    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 6, 5)
            self.pool = nn.MaxPool2d(2, 2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x):
            x = self.pool(F.relu(self.conv1(x)))
            x = self.pool(F.relu(self.conv2(x)))
            x = x.view(-1, self.num_flat_features(x))
            x = F.relu(self.fc1(x))
            x = F.dropout(x, training=self.training)
            return F.log_softmax(self.fc2(x), dim=1)

        def num_flat_features(self, x):
            size = x.size()[1:]
            num = 1
            for s in size:
                num *= s
            return num

    net = Net()
    seen = {}

    def keep(name):
        def hook(module, input, output):
            seen[name] = output.detach().clone()

        return hook

    handle = net.conv2.register_forward_hook(keep("conv2"))
    data = torch.rand(40, 3, 32, 32)
    target = torch.randint(0, 10, (40,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    printed = []
    for i in range(20):
        batch, labels = data[2 * i : 2 * i + 2], target[2 * i : 2 * i + 2]
        batch = (batch - 0.5) / 0.5
        optimizer.zero_grad()
        loss = F.nll_loss(net(batch), labels)
        loss.backward()
        optimizer.step()
        printed += [loss.item(), seen["conv2"].mean().item(), net.conv1.bias.grad[0].item()]
    handle.remove()
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    buffer.seek(0)
    other = Net()
    other.load_state_dict(torch.load(buffer))
    other.eval()
    class_correct = list(0.0 for i in range(10))
    with torch.no_grad():
        outputs = other(data[:8])
        _, predicted = torch.max(outputs, 1)
        c = (predicted == target[:8]).squeeze()
        for i in range(8):
            class_correct[target[i]] += c[i].item()
        pred = outputs.data.max(1, keepdim=True)[1]
        correct = pred.eq(torch.as_tensor(target[:8]).data.view_as(pred)).sum().item()
    return [*printed, *map(float, class_correct), float(correct), *outputs[0].tolist()]
