"""Policies with distributions: REINFORCE, actor-critic, PPO with Normal, a squashed policy, a small Q-learner."""

from collections import deque


class Walk:
    """A cart on a line: the state is (position, velocity); it is to stay near 0."""

    def __init__(self):
        self.state = [0.1, 0.0]
        self.count = 0

    def reset(self):
        self.state, self.count = [0.1, 0.0], 0
        return list(self.state)

    def step(self, push):
        x, v = self.state
        v += 0.1 * push
        x += 0.1 * v
        self.state, self.count = [x, v], self.count + 1
        return list(self.state), 1.0 - abs(x), abs(x) > 0.5 or self.count >= 12


def reinforce(torch):
    """REINFORCE with Categorical, returns normalised, dropout in the policy."""
    nn, F = torch.nn, torch.nn.functional
    Categorical = torch.distributions.Categorical
    torch.manual_seed(543)

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1 = nn.Linear(2, 16)
            self.dropout = nn.Dropout(p=0.2)
            self.affine2 = nn.Linear(16, 2)
            self.saved_log_probs = []
            self.rewards = []

        def forward(self, x):
            x = F.relu(self.dropout(self.affine1(x)))
            return F.softmax(self.affine2(x), dim=1)

    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    eps = torch.finfo(torch.float32).eps
    env, printed = Walk(), []
    for _ in range(20):
        state, done = env.reset(), False
        while not done:
            probs = policy(torch.tensor(state).float().unsqueeze(0))
            m = Categorical(probs)
            action = m.sample()
            policy.saved_log_probs.append(m.log_prob(action))
            state, reward, done = env.step(2 * action.item() - 1)
            policy.rewards.append(reward)
        R, returns, policy_loss = 0, deque(), []
        for r in policy.rewards[::-1]:
            R = r + 0.99 * R
            returns.appendleft(R)
        returns = torch.tensor(returns) if not isinstance(returns, deque) else torch.tensor(list(returns))
        returns = (returns - returns.mean()) / (returns.std() + eps)
        for log_prob, R in zip(policy.saved_log_probs, returns):
            policy_loss.append(-log_prob * R)
        optimizer.zero_grad()
        policy_loss = torch.cat(policy_loss).sum()
        policy_loss.backward()
        optimizer.step()
        printed += [policy_loss.item(), float(len(policy.rewards)), m.entropy().item()]
        del policy.rewards[:]
        del policy.saved_log_probs[:]
    return printed


def actor_critic(torch):
    """Actor-critic with Normal actions, an entropy bonus, clipped gradients."""
    nn, F, D = torch.nn, torch.nn.functional, torch.distributions
    torch.manual_seed(7)

    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 16)
            self.mu = nn.Linear(16, 1)
            self.log_std = nn.Parameter(torch.zeros(1))
            self.value = nn.Linear(16, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return D.Normal(self.mu(h), self.log_std.exp().expand_as(self.mu(h))), self.value(h)

    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    env, printed = Walk(), []
    for _ in range(20):
        state, done = env.reset(), False
        log_probs, values, rewards, entropies = [], [], [], []
        while not done:
            dist, value = model(torch.FloatTensor(state).unsqueeze(0))
            action = dist.sample()
            state, reward, done = env.step(action.clamp(-2, 2).item())
            log_probs.append(dist.log_prob(action).sum(-1))
            entropies.append(dist.entropy().mean())
            values.append(value.squeeze(-1))
            rewards.append(reward)
        R, saved = torch.zeros(1), []
        for reward in reversed(rewards):
            R = reward + 0.95 * R
            saved.insert(0, R)
        returns, values = torch.cat(saved), torch.cat(values)
        advantage = returns - values
        actor_loss = -(torch.cat(log_probs) * advantage.detach()).mean()
        critic_loss = F.smooth_l1_loss(values, returns)
        loss = actor_loss + 0.5 * critic_loss - 0.001 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        printed += [loss.item(), sum(rewards)]
    return printed


def ppo(torch):
    """PPO: clipped ratios and values, minibatches, orthogonal init."""
    nn, D = torch.nn, torch.distributions
    torch.manual_seed(11)

    def layer_init(layer, std=2**0.5, bias_const=0.0):
        torch.nn.init.orthogonal_(layer.weight, std)
        torch.nn.init.constant_(layer.bias, bias_const)
        return layer

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Sequential(
                layer_init(nn.Linear(3, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0)
            )
            self.actor = nn.Sequential(
                layer_init(nn.Linear(3, 16)), nn.Tanh(), layer_init(nn.Linear(16, 4), std=0.01)
            )

        def get_action_and_value(self, x, action=None):
            probs = D.Categorical(logits=self.actor(x))
            if action is None:
                action = probs.sample()
            return action, probs.log_prob(action), probs.entropy(), self.critic(x)

    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    printed = []
    for update in range(4):
        obs = torch.randn(32, 3)
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(obs)
        reward = (action == obs[:, :2].argmax(1)).float()
        advantages = reward - value.flatten()
        returns = advantages + value.flatten()
        for epoch in range(2):
            order = torch.randperm(32)
            for start in range(0, 32, 8):
                mb = order[start : start + 8]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs[mb], action.long()[mb])
                logratio = newlogprob - logprob[mb]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                    clipfrac = ((ratio - 1.0).abs() > 0.2).float().mean().item()
                a = advantages[mb]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg_loss = torch.max(-a * ratio, -a * torch.clamp(ratio, 0.8, 1.2)).mean()
                v_clipped = value.flatten()[mb] + torch.clamp(
                    newvalue.view(-1) - value.flatten()[mb], -0.2, 0.2
                )
                v_loss = (
                    0.5
                    * torch.max((newvalue.view(-1) - returns[mb]) ** 2, (v_clipped - returns[mb]) ** 2).mean()
                )
                loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                printed += [loss.item(), approx_kl.item(), clipfrac]
    return printed


def squashed_policy(torch):
    """A soft actor-critic step: tanh-squashed Normal, rsample, target network by .data."""
    nn, F, D = torch.nn, torch.nn.functional, torch.distributions
    torch.manual_seed(13)
    body = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
    critic = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    target = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    target.load_state_dict(critic.state_dict())
    log_alpha = torch.zeros(1, requires_grad=True)
    opt_pi = torch.optim.Adam(body.parameters(), lr=3e-3)
    opt_q = torch.optim.Adam(critic.parameters(), lr=3e-3)
    opt_alpha = torch.optim.Adam([log_alpha], lr=3e-3)
    printed = []

    def pi(obs):
        mu, log_std = body(obs).chunk(2, dim=-1)
        std = torch.clamp(log_std, -5, 2).exp()
        dist = D.TransformedDistribution(D.Independent(D.Normal(mu, std), 1), [D.TanhTransform(cache_size=1)])
        action = dist.rsample()
        return action, dist.log_prob(action)

    for _ in range(20):
        obs, following = torch.randn(8, 3), torch.randn(8, 3)
        with torch.no_grad():
            a2, logp2 = pi(following)
            backup = obs.sum(1) + 0.9 * (target(torch.cat([following, a2], -1)).squeeze(-1) - 0.2 * logp2)
        a, _ = pi(obs)
        q_loss = F.mse_loss(critic(torch.cat([obs, a.detach()], -1)).squeeze(-1), backup)
        opt_q.zero_grad()
        q_loss.backward()
        opt_q.step()
        a, logp = pi(obs)
        pi_loss = (log_alpha.exp().detach() * logp - critic(torch.cat([obs, a], -1)).squeeze(-1)).mean()
        opt_pi.zero_grad()
        pi_loss.backward()
        opt_pi.step()
        alpha_loss = -(log_alpha * (logp - 2.0).detach()).mean()
        opt_alpha.zero_grad()
        alpha_loss.backward()
        opt_alpha.step()
        with torch.no_grad():
            for p, p_targ in zip(critic.parameters(), target.parameters()):
                p_targ.data.mul_(0.95)
                p_targ.data.add_(0.05 * p.data)
        printed += [q_loss.item(), pi_loss.item(), alpha_loss.item()]
    return [*printed, sum(p.data.norm().item() for p in target.parameters())]


def q_learning(torch):
    """Deep Q-learning: replay, masks, a soft target update through state dicts."""
    import random

    nn = torch.nn
    torch.manual_seed(17)
    random.seed(17)
    policy_net, target_net = (nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(2))
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
    memory, env, printed = deque([], maxlen=200), Walk(), []
    state = torch.tensor(env.reset(), dtype=torch.float32).unsqueeze(0)
    for step in range(60):
        if random.random() > 0.3:
            with torch.no_grad():
                action = policy_net(state).max(1).indices.view(1, 1)
        else:
            action = torch.tensor([[random.randrange(2)]], dtype=torch.long)
        following, reward, done = env.step(2 * action.item() - 1)
        reward = torch.tensor([reward])
        next_state = None if done else torch.tensor(following, dtype=torch.float32).unsqueeze(0)
        memory.append((state, action, next_state, reward))
        state = next_state if next_state is not None else torch.tensor(env.reset()).unsqueeze(0)
        if len(memory) < 16:
            continue
        states, actions, next_states, rewards = zip(*random.sample(memory, 16))
        mask = torch.tensor(tuple(map(lambda s: s is not None, next_states)), dtype=torch.bool)
        non_final = torch.cat([s for s in next_states if s is not None])
        values = policy_net(torch.cat(states)).gather(1, torch.cat(actions))
        next_values = torch.zeros(16)
        with torch.no_grad():
            next_values[mask] = target_net(non_final).max(1).values
        expected = (next_values * 0.99) + torch.cat(rewards)
        loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        for param in policy_net.parameters():
            param.grad.data.clamp_(-1, 1)
        optimizer.step()
        tau, target_state, policy_state = 0.05, target_net.state_dict(), policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * tau + target_state[key] * (1 - tau)
        target_net.load_state_dict(target_state)
        printed.append(loss.item())
    return printed
