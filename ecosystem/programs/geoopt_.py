import geoopt
import torch


def try_manifolds():
    found = []
    for manifold in (
        geoopt.Sphere(),
        geoopt.PoincareBall(c=1.0),
        geoopt.Stiefel(),
        geoopt.Euclidean(),
    ):
        torch.manual_seed(0)
        x = manifold.random(5, 3) if not isinstance(manifold, geoopt.Stiefel) else manifold.random_naive(5, 3)
        p = geoopt.ManifoldParameter(x.clone(), manifold=manifold)
        target = torch.randn(5, 3)
        for kind in (geoopt.optim.RiemannianAdam, geoopt.optim.RiemannianSGD):
            optimizer = kind([p], lr=0.05)
            for _ in range(3):
                optimizer.zero_grad()
                loss = (p - target).square().sum()
                loss.backward()
                optimizer.step()
            found.append([loss, p])
    return found


def try_distances():
    ball = geoopt.PoincareBall()
    x, y = torch.rand(4, 3) * 0.4, torch.rand(4, 3) * 0.4
    return [ball.dist(x, y), ball.expmap0(x), ball.logmap(x, y), ball.mobius_add(x, y)]
