"""Programs as public GPU code is written: they run on a GPU where there is one, and on the CPU elsewhere."""

import argparse
import contextlib
import copy
import io
import math


def chosen(library):
    return library.device("cuda" if library.cuda.is_available() else "cpu")


def classes_in_clouds(torch, count=64, width=10):
    inputs = torch.randn(count, width)
    return inputs, (inputs[:, :4].argmax(1)).long()


def small_network(torch, width=10, dropout=0.0):
    nn = torch.nn
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 4))


def script_with_arguments(torch):
    """A script with argparse, a choice of device and a fallback."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args(["--device", "auto"])
    use_cuda = not args.no_cuda and torch.cuda.is_available() and args.device != "cpu"
    torch.manual_seed(args.seed)
    device = torch.device("cuda:0" if use_cuda else "cpu")
    kwargs = {"num_workers": 0, "pin_memory": True} if use_cuda else {}
    dataset = torch.utils.data.TensorDataset(*classes_in_clouds(torch))
    loader = torch.utils.data.DataLoader(dataset, batch_size=16, shuffle=True, **kwargs)
    model = small_network(torch).to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    printed = []
    for _ in range(3):
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.nll_loss(torch.log_softmax(model(data), dim=1), target)
            loss.backward()
            optimizer.step()
            printed.append(loss.item())
        scheduler.step()
    return printed


def mixed_precision_loop(torch):
    """A loop with autocast and GradScaler, both of which are off where there is no GPU."""
    device = chosen(torch)
    torch.manual_seed(0)
    model = small_network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    use_amp = device.type == "cuda"
    scaler = torch.amp.GradScaler(device.type, enabled=use_amp)
    inputs, labels = classes_in_clouds(torch)
    inputs, labels = inputs.to(device), labels.to(device)
    printed = []
    for _ in range(6):
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        printed.append(loss.item())
    return [*printed, float(scaler.is_enabled()), float(len(scaler.state_dict()) > 0)]


mixed_precision_loop.tolerance = 1e-2  # on a GPU, in float16


def prefetched_batches(torch):
    """Batches are sent ahead on a stream of their own."""
    device = chosen(torch)
    torch.manual_seed(1)

    class Prefetcher:
        def __init__(self, loader):
            self.loader = iter(loader)
            self.stream = torch.cuda.Stream() if device.type == "cuda" else None
            self.preload()

        def preload(self):
            self.next = next(self.loader, None)
            if self.next is not None and self.stream is not None:
                with torch.cuda.stream(self.stream):
                    self.next = [each.to(device, non_blocking=True) for each in self.next]

        def __iter__(self):
            while self.next is not None:
                if self.stream is not None:
                    torch.cuda.current_stream().wait_stream(self.stream)
                    for each in self.next:
                        each.record_stream(torch.cuda.current_stream())
                batch = self.next
                self.preload()
                yield batch

    dataset = torch.utils.data.TensorDataset(*classes_in_clouds(torch, 48))
    pinned = device.type == "cuda"
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, pin_memory=pinned)
    model = small_network(torch).to(device)
    return [torch.nn.functional.cross_entropy(model(x), y).item() for x, y in Prefetcher(loader)]


def work_beside_other_work(torch):
    """Two streams, an event between them, and timing."""
    device = chosen(torch)
    torch.manual_seed(2)
    a = torch.randn(64, 64).to(device)
    if device.type != "cuda":
        return [(a @ a).sum().item(), (a + 1).sum().item(), 1.0, 1.0]
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    first.wait_stream(torch.cuda.current_stream())
    second.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(first):
        product = a @ a
    done = first.record_event()
    with torch.cuda.stream(second):
        moved = a + 1
        second.wait_event(done)
        both = product.sum() + moved.sum() * 0
    torch.cuda.current_stream().wait_stream(second)
    end.record()
    torch.cuda.synchronize()
    return [both.item(), moved.sum().item(), float(begin.elapsed_time(end) > 0), float(first.query())]


def checkpoint_and_resume(torch):
    """Training stops, is saved, and goes on from the file, to where map_location says."""
    device = chosen(torch)
    torch.manual_seed(4)
    model = small_network(torch).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    printed = []

    def steps(model, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            printed.append(loss.item())

    steps(model, optimizer, 3)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, file)
    file.seek(0)
    checkpoint = torch.load(file, map_location=device)
    fresh = small_network(torch)
    fresh.load_state_dict(checkpoint["model"])
    fresh.to(device)
    other = torch.optim.AdamW(fresh.parameters(), lr=1e-2)
    other.load_state_dict(checkpoint["optimizer"])
    steps(fresh, other, 3)
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    same = all(value.device.type == "cpu" for value in on_cpu["model"].values())
    return [*printed, float(checkpoint["epoch"]), float(same)]


def figures_of_memory(torch):
    """What a program reports of a GPU's memory; zeros on the CPU."""
    device = chosen(torch)
    cuda = torch.cuda
    if device.type == "cuda":
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = torch.zeros(1 << 20, device=device)
    taken = cuda.memory_allocated() - before
    y = x * 2
    peak = cuda.max_memory_allocated() - before
    del y
    report = [taken, peak, float(cuda.memory_reserved() >= cuda.memory_allocated())]
    if device.type == "cuda":
        free, total = cuda.mem_get_info()
        report += [float(0 < free < total), float("allocated_bytes.all.peak" in cuda.memory_stats())]
        report += [float(total == cuda.get_device_properties(device).total_memory)]
        report += [float(len(cuda.memory_summary(device=device, abbreviated=True)) > 0)]
    cuda.empty_cache()
    return report


def exchange_with_other_libraries(torch):
    """DLPack both ways, and NumPy."""
    device = chosen(torch)
    x = torch.arange(6, dtype=torch.float32, device=device).reshape(2, 3)
    back = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    back += 1
    again = torch.from_dlpack(x)
    shares = float(back.data_ptr() == x.data_ptr() == again.data_ptr())
    host = x.cpu().numpy()
    return [*x.flatten().tolist(), shares, float(host.sum()), float(torch.from_numpy(host).to(device).sum())]


def seeds_and_generators(torch):
    """Generators on the device, their states, and a fork that is undone."""
    device = chosen(torch)
    torch.manual_seed(7)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(7)
    generator = torch.Generator(device=device).manual_seed(11)
    drawn = [torch.rand(4, generator=generator, device=device), torch.randn(3, device=device)]
    state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    drawn.append(torch.rand(2, device=device))
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
    drawn.append(torch.rand(2, device=device))
    with torch.random.fork_rng(devices=[0] if device.type == "cuda" else []):
        torch.manual_seed(0)
        drawn.append(torch.randint(0, 100, (3,), device=device).float())
    drawn.append(torch.empty(3, device=device).uniform_(-1, 1))
    return [value for each in drawn for value in each.cpu().tolist()]


def several_gpus_or_one(torch):
    """DataParallel where there are several GPUs, and a state_dict with or without `module.`."""
    device = chosen(torch)
    torch.manual_seed(5)
    model = small_network(torch).to(device)
    if torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    core = model.module if hasattr(model, "module") else model
    wrapped = torch.nn.DataParallel(copy.deepcopy(core))
    names = [name.removeprefix("module.") for name in wrapped.state_dict()]
    core.load_state_dict(dict(zip(names, wrapped.state_dict().values(), strict=True)))
    return [loss.item(), float(core(inputs).sum()), float(len(names))]


def accumulated_gradients(torch):
    """Gradients of several small batches, with a context like DDP's no_sync around all but the last."""
    device = chosen(torch)
    torch.manual_seed(6)
    model = small_network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    printed = []
    for _ in range(3):
        for micro, (x, y) in enumerate(zip(inputs.chunk(4), labels.chunk(4), strict=True)):
            no_sync = getattr(model, "no_sync", contextlib.nullcontext)
            with no_sync() if micro < 3 else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(model(x), y) / 4
                loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        printed += [loss.item(), norm.item()]
    return printed


def default_devices(torch):
    """Modules and tensors are made on the device by a context."""
    device = chosen(torch)
    torch.manual_seed(8)
    weights = small_network(torch).state_dict()
    with torch.device(device):
        model = small_network(torch)
        inputs = torch.linspace(-1, 1, 40).reshape(4, 10)
        causal = torch.ones(3, 3, dtype=torch.bool).tril()
    model.load_state_dict(weights)
    same = {each.device.type for each in (*model.parameters(), inputs, causal)} == {device.type}
    return [*model(inputs).flatten().tolist(), float(same), float(causal.sum())]


def model_without_memory(torch):
    """A model is made on 'meta', counted, and filled from a state_dict on the device."""
    device = chosen(torch)
    torch.manual_seed(9)
    weights = small_network(torch).state_dict()
    with torch.device("meta"):
        model = small_network(torch)
    count = sum(p.numel() for p in model.parameters())
    shapes = model(torch.empty(5, 10, device="meta")).shape
    model = model.to_empty(device=device)
    model.load_state_dict(weights)
    with torch.device("meta"):
        assigned = small_network(torch)
    assigned.load_state_dict(weights, assign=True)
    inputs = torch.linspace(-1, 1, 20).reshape(2, 10)
    both = model(inputs.to(device)).sum().item(), assigned(inputs).sum().item()
    return [float(count), *map(float, shapes), *both]


def attention_by_a_kernel(torch):
    """Attention, with PyTorch's words for its kernels."""
    device = chosen(torch)
    torch.manual_seed(10)
    q, k, v = (torch.randn(2, 4, 16, 8).to(device).requires_grad_() for _ in range(3))
    printed = []
    torch.backends.cuda.enable_flash_sdp(False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        printed.append(float(torch.backends.cuda.math_sdp_enabled()))
    out.square().sum().backward()
    torch.backends.cuda.enable_flash_sdp(True)
    grads = [torch.as_tensor(x.grad).abs().sum().item() for x in (q, k, v)]
    return [*printed, out.sum().item(), *grads, float(torch.backends.cuda.flash_sdp_enabled())]


def convolutions_with_flags(torch):
    """A small convolutional network, channels last, with cuDNN's flags."""
    device = chosen(torch)
    torch.manual_seed(12)
    nn = torch.nn
    flags = {"enabled": True, "benchmark": device.type == "cuda", "deterministic": False, "allow_tf32": False}
    with torch.backends.cudnn.flags(**flags):
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )
        model = model.to(device, memory_format=torch.channels_last)
        x = torch.randn(4, 3, 12, 12).to(device, memory_format=torch.channels_last, non_blocking=True)
        out = model(x).flatten(1)
        out.square().mean().backward()
    return [*out.flatten().tolist(), torch.as_tensor(model[0].weight.grad).abs().sum().item()]


def captured_training_step(torch):
    """A whole step as a CUDA graph, as PyTorch's notes write it; the same steps one by one on the CPU."""
    device = chosen(torch)
    torch.manual_seed(13)
    model = small_network(torch).to(device)
    loss_fn = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    data = [classes_in_clouds(torch) for _ in range(8)]
    static_input, static_target = (each.clone().to(device) for each in data[0])

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(static_input), static_target)
        loss.backward()
        optimizer.step()
        return loss

    replay = None
    if device.type == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            static_loss = step()
        replay = graph.replay
    else:
        for _ in range(3):
            step()
    printed = []
    for x, y in data:
        static_input.copy_(x)
        static_target.copy_(y)
        if replay is not None:
            replay()
        else:
            static_loss = step()
        printed.append(static_loss.item())
    return printed


def graphed_functions(torch):
    """A part of a model as CUDA graphs, with its backward."""
    device = chosen(torch)
    torch.manual_seed(14)
    trunk, head = small_network(torch).to(device), torch.nn.Linear(4, 4).to(device)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    if device.type == "cuda":
        trunk = torch.cuda.make_graphed_callables(trunk, (torch.randn_like(inputs),))
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.2)
    printed = []
    for _ in range(4):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(head(trunk(inputs)), labels)
        loss.backward()
        optimizer.step()
        printed.append(loss.item())
    return printed


def ranges_for_a_profiler(torch):
    """Names for a profiler, and what a forward pass takes by events."""
    device = chosen(torch)
    torch.manual_seed(15)
    model = small_network(torch).to(device)
    x = torch.randn(8, 10).to(device)
    if device.type == "cuda":
        torch.cuda.nvtx.range_push("forward")
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
    out = model(x)
    positive = True
    if device.type == "cuda":
        end.record()
        end.synchronize()
        positive = begin.elapsed_time(end) > 0
        torch.cuda.nvtx.range_pop()
    return [out.sum().item(), float(positive)]


def recomputed_blocks(torch):
    """Checkpointed blocks with dropout: the second run draws the first one's numbers."""
    device = chosen(torch)
    torch.manual_seed(16)
    blocks = [small_network(torch, dropout=0.3).to(device) for _ in range(2)]
    x = torch.randn(8, 10).to(device).requires_grad_()
    head = torch.nn.Linear(4, 10).to(device)
    torch.manual_seed(17)
    out = torch.utils.checkpoint.checkpoint(blocks[0], x, use_reentrant=False)
    out = torch.utils.checkpoint.checkpoint(blocks[1], head(out), use_reentrant=False)
    out.square().sum().backward()
    return [out.sum().item(), torch.as_tensor(x.grad).sum().item(), torch.rand(1, device=device).item()]


def function_under_autocast(torch):
    """A Function of one's own, decorated for autocast."""
    device = chosen(torch)
    kind = device.type

    class Scaled(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=kind, cast_inputs=torch.float32)
        def forward(ctx, x, factor):
            ctx.save_for_backward(factor)
            return x * factor

        @staticmethod
        @torch.amp.custom_bwd(device_type=kind)
        def backward(ctx, grad):
            (factor,) = ctx.saved_tensors
            return grad * factor, None

    x = torch.linspace(0, 1, 5).to(device).requires_grad_()
    with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
        out = Scaled.apply(x, torch.tensor(3.0, device=device))
    out.sum().backward()
    return [*out.tolist(), *torch.as_tensor(x.grad).tolist(), float(out.dtype == torch.float32)]


def states_of_all_generators(torch):
    """A checkpoint with the states of all generators, as trainers save it."""
    device = chosen(torch)
    torch.manual_seed(18)
    states = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
    first = [torch.rand(2).tolist(), torch.rand(2, device=device).tolist()]
    torch.set_rng_state(states["cpu"])
    torch.cuda.set_rng_state_all(states["cuda"])
    second = [torch.rand(2).tolist(), torch.rand(2, device=device).tolist()]
    return [*first[0], *first[1], *second[0], *second[1]]


def memory_that_runs_out(torch):
    """A batch that is too large is halved until it fits."""
    device = chosen(torch)
    size, tries = 1 << 50, 0
    while True:
        try:
            if device.type == "cpu" and size > 1 << 20:
                raise torch.cuda.OutOfMemoryError("pretend")
            torch.empty(size, device=device, dtype=torch.uint8)
            break
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            size //= 1 << 10
            tries += 1
    return [float(size), float(tries)]


def whichever_accelerator(torch):
    """Questions that name no kind of device."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = accelerator or torch.device("cpu")
    module = torch.get_device_module(device)
    count = torch.accelerator.device_count() if accelerator is not None else 0
    if accelerator is not None:
        torch.accelerator.synchronize()
    x = torch.ones(3, device=device) * 2
    return [float(module.is_available()), float(count == torch.cuda.device_count()), x.sum().item()]


def confusion_on_the_device(torch):
    """A metric without leaving the device: counts by scatter and bincount."""
    device = chosen(torch)
    torch.manual_seed(19)
    predicted, wanted = (torch.randint(0, 4, (200,)).to(device) for _ in range(2))
    confusion = torch.bincount(wanted * 4 + predicted, minlength=16).reshape(4, 4)
    totals = torch.zeros(4, device=device).scatter_add_(0, wanted, torch.ones(200, device=device))
    recall = confusion.diag().float() / totals
    top = (torch.rand(5, 7).to(device)).topk(3, dim=1)
    return [*recall.tolist(), *top.values.flatten().tolist(), float(confusion.sum())]


def activations_on_the_host(torch):
    """What a graph keeps is moved to the host, or counted, by hooks."""
    device = chosen(torch)
    torch.manual_seed(20)
    model = small_network(torch).to(device)
    x = torch.randn(6, 10).to(device)
    with torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda"):
        loss = model(x).square().mean()
    loss.backward()
    return [loss.item(), torch.as_tensor(model[0].weight.grad).abs().sum().item()]


def averaged_weights(torch):
    """An exponential average of the weights, on the device, in place."""
    device = chosen(torch)
    torch.manual_seed(21)
    model = small_network(torch).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    for _ in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        with torch.no_grad():
            for mean, new in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(new, 0.1)
    return [p.abs().sum().item() for p in (*model.parameters(), *average.parameters())]


def compiled_step(torch):
    """A step through torch.compile on the device."""
    device = chosen(torch)
    torch.manual_seed(22)
    model = small_network(torch).to(device)
    inputs, labels = (each.to(device) for each in classes_in_clouds(torch))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    options = (
        {"backend": "eager"} if torch.__name__ == "torch" and "minitorch" not in torch.__version__ else {}
    )
    forward = torch.compile(lambda x, y: torch.nn.functional.cross_entropy(model(x), y), **options)
    printed = []
    for _ in range(4):
        loss = forward(inputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        printed.append(loss.item())
    return printed


def characters_of_a_sequence(torch):
    """A recurrent model with clipped gradients and a state that is carried on."""
    device = chosen(torch)
    torch.manual_seed(23)
    nn = torch.nn
    embed, cell, head = nn.Embedding(12, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 12)
    model = nn.ModuleList([embed, cell, head]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    text = torch.randint(0, 12, (4, 25)).to(device)
    state, printed = None, []
    for start in range(0, 20, 5):
        x, y = text[:, start : start + 5], text[:, start + 1 : start + 6]
        out, state = cell(embed(x), state)
        state = tuple(each.detach() for each in state)
        loss = nn.functional.cross_entropy(head(out).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        printed.append(loss.item())
    return [*printed, math.exp(printed[-1])]
