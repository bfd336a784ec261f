"""Autoencoder, VAE, GAN with transposed convolutions, super-resolution, style transfer, on random images."""


def autoencoder(torch):
    """A denoising autoencoder with transposed convolutions and upsampling."""
    nn = torch.nn
    torch.manual_seed(0)

    class AutoEncoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(True), nn.Conv2d(8, 4, 3, stride=2, padding=1), nn.LeakyReLU(0.2)
            )  # fmt: skip
            self.decoder = nn.Sequential(
                nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1), nn.ELU(),
                nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x):
            return self.decoder(self.encoder(x))

    model = AutoEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)
    images = torch.rand(16, 1, 8, 8)
    printed = []
    for epoch in range(24):
        noisy = torch.clamp(images + 0.1 * torch.randn_like(images), 0.0, 1.0)
        loss = nn.MSELoss()(model(noisy), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        printed.append(loss.data.item() if hasattr(loss.data, "item") else float(loss.data))
    return printed


def vae(torch):
    """A VAE: reparametrisation, KL by formula and by distributions."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(1)

    class VAE(nn.Module):
        def __init__(self):
            super(VAE, self).__init__()
            self.fc1 = nn.Linear(64, 32)
            self.fc21 = nn.Linear(32, 4)
            self.fc22 = nn.Linear(32, 4)
            self.fc3 = nn.Linear(4, 32)
            self.fc4 = nn.Linear(32, 64)

        def encode(self, x):
            h1 = F.relu(self.fc1(x))
            return self.fc21(h1), self.fc22(h1)

        def reparameterize(self, mu, logvar):
            std = torch.exp(0.5 * logvar)
            eps = torch.randn_like(std)
            return mu + eps * std

        def decode(self, z):
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x):
            mu, logvar = self.encode(x.view(-1, 64))
            z = self.reparameterize(mu, logvar)
            return self.decode(z), mu, logvar

    def loss_function(recon_x, x, mu, logvar):
        BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
        KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return BCE + KLD

    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.rand(80, 1, 8, 8)
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    printed = []
    for epoch in range(3):
        model.train()
        train_loss = 0
        for batch in loader:
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(batch)
            loss = loss_function(recon_batch, batch, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        printed.append(train_loss / len(loader.dataset))
    # The same KL by the distributions.
    D = torch.distributions
    q = D.Normal(mu, (0.5 * logvar).exp())
    p = D.Normal(torch.zeros_like(mu), torch.ones_like(mu))
    printed.append(D.kl_divergence(q, p).sum().item())
    with torch.no_grad():
        sample = model.decode(torch.randn(2, 4))
    return printed + sample.flatten().tolist()


def gan(torch):
    """A DCGAN with spectral norm, weights_init by class name, two optimisers."""
    nn = torch.nn
    torch.manual_seed(999)
    nz, ngf, ndf, nc = 8, 8, 8, 3

    def weights_init(m):
        classname = m.__class__.__name__
        if classname.find("Conv") != -1:
            nn.init.normal_(m.weight.data, 0.0, 0.02)
        elif classname.find("BatchNorm") != -1:
            nn.init.normal_(m.weight.data, 1.0, 0.02)
            nn.init.constant_(m.bias.data, 0)

    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Sequential(
                nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
                nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
                nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False), nn.Tanh(),
            )  # fmt: skip

        def forward(self, input):
            return self.main(input)

    class Discriminator(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
                nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, inplace=True),
                nn.utils.spectral_norm(nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False)), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, input):
            return self.main(input).view(-1)

    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(2, nz, 1, 1)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    real_images = torch.rand(24 * 4, nc, 16, 16) * 2 - 1
    printed = []
    for i in range(24):
        netD.zero_grad()
        real = real_images[4 * i : 4 * i + 4]
        label = torch.full((4,), 1.0, dtype=torch.float)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        noise = torch.randn(4, nz, 1, 1)
        fake = netG(noise)
        label.fill_(0.0)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        printed += [errD.item(), errG.item(), D_x]
    with torch.no_grad():
        made = netG(fixed_noise).detach().cpu()
    return printed + [made.mean().item(), made.std().item()]


def wgan_with_gradient_penalty(torch):
    """A critic whose gradient norm is penalised: second derivatives."""
    nn, autograd = torch.nn, torch.autograd
    torch.manual_seed(3)
    critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    generator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    opt_g = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    printed = []
    for i in range(20):
        real = torch.randn(8, 2) * 0.5 + torch.tensor([1.0, -1.0])
        fake = generator(torch.randn(8, 2)).detach()
        alpha = torch.rand(8, 1).expand_as(real)
        between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        scores = critic(between)
        (gradients,) = autograd.grad(
            outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
        )  # fmt: skip
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        for p in critic.parameters():
            p.requires_grad_(False)
        loss_g = -critic(generator(torch.randn(8, 2))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        for p in critic.parameters():
            p.requires_grad_(True)
        printed += [loss_c.item(), penalty.item(), loss_g.item()]
    return printed


def super_resolution(torch):
    """Sub-pixel super-resolution with PixelShuffle and orthogonal init."""
    nn, init = torch.nn, torch.nn.init
    torch.manual_seed(123)

    class Net(nn.Module):
        def __init__(self, upscale_factor):
            super(Net, self).__init__()
            self.relu = nn.ReLU()
            self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
            self.conv2 = nn.Conv2d(16, 8, (3, 3), (1, 1), (1, 1))
            self.conv3 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
            self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
            self._initialize_weights()

        def forward(self, x):
            x = self.relu(self.conv1(x))
            x = self.relu(self.conv2(x))
            return self.pixel_shuffle(self.conv3(x))

        def _initialize_weights(self):
            init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
            init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
            init.orthogonal_(self.conv3.weight)

    from math import log10

    model = Net(2)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    printed = []
    for i in range(20):
        target = torch.rand(2, 1, 8, 8)
        input = torch.nn.functional.interpolate(
            target, scale_factor=0.5, mode="bilinear", align_corners=False
        )
        optimizer.zero_grad()
        loss = criterion(model(input), target)
        loss.backward()
        optimizer.step()
        printed += [loss.item(), 10 * log10(1 / loss.item())]
    up = torch.nn.functional.interpolate(input, scale_factor=2, mode="bicubic", align_corners=False)
    return [*printed, up.mean().item()]


def style_transfer(torch):
    """Features by forward hooks, Gram matrices, an image as the parameter, LBFGS with a closure."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(5)
    cnn = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=False), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(inplace=False),
        nn.AvgPool2d(2), nn.Conv2d(8, 8, 3, padding=1),
    ).eval()  # fmt: skip
    for p in cnn.parameters():
        p.requires_grad_(False)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    found = {}
    for name, layer in cnn.named_children():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(
                lambda module, args, output, name=name: found.__setitem__(name, output)
            )

    def gram_matrix(input):
        a, b, c, d = input.size()
        features = input.view(a * b, c * d)
        G = torch.mm(features, features.t())
        return G.div(a * b * c * d)

    def features_of(image):
        cnn((image - mean) / std)
        return dict(found)

    content_img, style_img = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
    with torch.no_grad():
        content_target = features_of(content_img)["2"].detach()
        style_targets = {k: gram_matrix(v).detach() for k, v in features_of(style_img).items()}
    input_img = content_img.clone()
    input_img.requires_grad_(True)
    optimizer = torch.optim.LBFGS([input_img], lr=0.5)
    printed, run = [], [0]
    while run[0] <= 25:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            features = features_of(input_img)
            style_score = sum(F.mse_loss(gram_matrix(features[k]), t) for k, t in style_targets.items())
            content_score = F.mse_loss(features["2"], content_target)
            loss = 1000 * style_score + content_score
            loss.backward()
            run[0] += 1
            printed.append(loss.item())
            return style_score + content_score

        optimizer.step(closure)
    with torch.no_grad():
        input_img.clamp_(0, 1)
    return [*printed[:25], float(len(printed))]
