import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal


def model(x, y=None):
    w = pyro.sample("w", dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1))
    s = pyro.sample("s", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(x @ w, s), obs=y)


def try_svi():
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    x = torch.randn(20, 3)
    y = x @ torch.tensor([1.0, -1.0, 0.5]) + 0.1 * torch.randn(20)
    guide = AutoDiagonalNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    return [svi.step(x, y) for _ in range(5)]


def try_own_guide():
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    data = torch.tensor([1.0] * 6 + [0.0] * 4)

    def coin():
        f = pyro.sample("fairness", dist.Beta(10.0, 10.0))
        with pyro.plate("data", 10):
            pyro.sample("obs", dist.Bernoulli(f), obs=data)

    def guide():
        a = pyro.param("a", torch.tensor(15.0), constraint=dist.constraints.positive)
        b = pyro.param("b", torch.tensor(15.0), constraint=dist.constraints.positive)
        pyro.sample("fairness", dist.Beta(a, b))

    svi = SVI(coin, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    losses = [svi.step() for _ in range(4)]
    return [losses, pyro.param("a"), pyro.param("b")]


def try_mcmc():
    from pyro.infer import HMC, MCMC

    pyro.set_rng_seed(0)
    x = torch.randn(8, 3)
    y = x.sum(-1)
    kernel = HMC(model, step_size=0.05, num_steps=3, adapt_step_size=False, adapt_mass_matrix=False)
    mcmc = MCMC(kernel, num_samples=3, warmup_steps=1, disable_progbar=True)
    mcmc.run(x, y)
    return mcmc.get_samples()
