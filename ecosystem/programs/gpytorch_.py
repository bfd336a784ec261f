import gpytorch
import torch
from one import trained


class GP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = (
            gpytorch.means.ConstantMean(),
            gpytorch.kernels.ScaleKernel(kernel),
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _with(kernel):
    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x) + 0.1 * torch.randn(20)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = GP(x, y, likelihood, kernel)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    found = trained(model, lambda: -mll(model(x), y), 5, optimizer)
    model.eval()
    with torch.no_grad():
        guess = likelihood(model(torch.linspace(0, 1, 7)))
        return [found, guess.mean, guess.variance]


def try_exact():
    return [_with(gpytorch.kernels.RBFKernel()), _with(gpytorch.kernels.MaternKernel(nu=1.5))]


def try_variational():
    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            distribution = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, points, distribution, learn_inducing_locations=True
                )
            )
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 20)
    y = (x > 0.5).float()
    model, likelihood = Model(x[::4]), gpytorch.likelihoods.BernoulliLikelihood()
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, 20)
    return trained(model, lambda: -elbo(model(x), y), 4, torch.optim.Adam(model.parameters(), lr=0.05))
