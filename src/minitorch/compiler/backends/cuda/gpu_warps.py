"""What warps do together, for a GPU. Enters: `Together` or `GroupProducts`. Leaves: the lines of its instructions."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch.compiler.backends.cuda.instructions import PRODUCTS
from minitorch.compiler.backends.cuda.words import GroupProducts, Together

_FOUR = "{ float, float, float, float }"


def gpu_together(item: Together) -> list[str]:
    """Write what a warp does together."""
    name, kind = item.number, item.kind

    def loaded(slots: Sequence[int], kind: str) -> tuple[list[str], list[str]]:
        names = [f"%w{name}.of{slot}" for slot in slots]
        return names, [f"  {n} = load {kind}, ptr %slot{slot}" for n, slot in zip(names, slots, strict=True)]

    def stored(slots: Sequence[int], kind: str) -> list[str]:
        lines = []
        for k, slot in enumerate(slots):
            lines += [
                f"  %w{name}.to{k} = extractvalue {{ {', '.join([kind] * 4)} }} %w{name}, {k}",
                f"  store {kind} %w{name}.to{k}, ptr %slot{slot}",
            ]
        return lines

    if kind == "exchange":
        (source,), lines = loaded(item.slots[:1], "float")
        asked = f"shfl.sync.bfly.b32 $0, $1, {item.distance}, 31, -1;"
        return [
            *lines,
            f'  %w{name} = call float asm sideeffect "{asked}", "=f,f"(float {source}) convergent',
            f"  store float %w{name}, ptr %slot{item.slots[1]}",
        ]
    if kind.startswith("matrices"):
        (where,), lines = loaded(item.slots[4:], "i32")
        how = ".trans" if kind == "matrices_transposed" else ""
        asked = f"ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {{$0, $1, $2, $3}}, [$4+{item.distance}];"
        return [
            *lines,
            f"  %w{name}.near = addrspacecast ptr %shared to ptr addrspace(3)",
            f"  %w{name}.base = ptrtoint ptr addrspace(3) %w{name}.near to i32",
            f"  %w{name}.at = add i32 %w{name}.base, {where}",
            f'  %w{name} = call {{ i32, i32, i32, i32 }} asm sideeffect "{asked}", "=r,=r,=r,=r,r,~{{memory}}"'
            f"(i32 %w{name}.at) convergent",
            *stored(item.slots[:4], "i32"),
        ]
    sums, lines = loaded(item.slots[:4], "float")
    if kind == "multiply":
        factors, more = loaded(item.slots[4:], "float")
        lines += [*more, *(f"  {each}.bits = bitcast float {each} to i32" for each in factors)]
        factors = [f"{each}.bits" for each in factors]
    else:
        factors, more = loaded(item.slots[4:], "i32")
        lines += more
    asked = f"{PRODUCTS[kind]} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
    given = [*(f"i32 {each}" for each in factors), *(f"float {each}" for each in sums)]
    return [
        *lines,
        f'  %w{name} = call {_FOUR} asm "{asked}", "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3"({", ".join(given)}) convergent',
        *stored(item.slots[:4], "float"),
    ]


_SUMMED_AT_ONCE, _PANEL = 16, 64  # elements
_SHORT = {"bfloat16": "bf16", "float16": "f16"}
# How wgmma is told where a matrix lies: its address and steps in 16 bytes; eight rows begin 1,024 bytes further on.
_MATRIX = 1 << 62 | (1024 >> 4) << 32


def gpu_group_products(item: GroupProducts) -> list[str]:
    """Write products as one instruction after the other, and wait for them."""
    name = f"%w{item.number}"
    lines = [
        f"  {name}.near = addrspacecast ptr %shared to ptr addrspace(3)",
        f"  {name}.base = ptrtoint ptr addrspace(3) {name}.near to i32",
    ]
    made = [slot for product in item.products for slot in product.c]
    given: list[str] = []  # after what is made: the sums so far, fragments and places
    kinds: list[str] = []

    def operand(text: str, kind: str) -> str:
        given.append(text)
        kinds.append(kind)
        return f"${len(made) + len(given) - 1}"

    def loaded(slot: int, kind: str) -> str:
        lines.append(f"  {name}.of{len(lines)} = load {kind}, ptr %slot{slot}")
        return f"{name}.of{len(lines) - 1}"

    def place(slot: int, panel: int) -> str:
        """Return how a matrix is told that begins where a slot says."""
        where, at = loaded(slot, "i32"), f"{name}.at{len(lines)}"
        lines.extend(
            [
                f"  {at}.bytes = add i32 {name}.base, {where}",
                f"  {at}.short = lshr i32 {at}.bytes, 4",
                f"  {at}.low = and i32 {at}.short, 16383",
                f"  {at}.wide = zext i32 {at}.low to i64",
                f"  {at} = or i64 {at}.wide, {_MATRIX | (max(panel, 16) >> 4) << 16}",
            ]
        )
        return at

    def further(at: str, distance: int) -> str:
        lines.append(f"  {name}.on{len(lines)} = add i64 {at}, {distance >> 4}")
        return operand(f"i64 {name}.on{len(lines) - 1}", "l")

    asked, first = ["wgmma.fence.sync.aligned;"], 0
    for p in item.products:
        columns = 2 * len(p.c)
        sums = ", ".join(f"${first + k}" for k in range(len(p.c)))
        if p.across:
            for k, slot in enumerate(p.c):
                operand(f"float {loaded(slot, 'float')}", str(first + k))
        first += len(p.c)
        b = place(p.b, p.panels[1])
        a = place(p.a[0], p.panels[0]) if len(p.a) == 1 else ""
        for step in range(p.summed // _SUMMED_AT_ONCE):
            panel, inside = divmod(_SUMMED_AT_ONCE * step, _PANEL)
            if a:
                left = further(a, panel * p.panels[0] + 2 * inside)
            else:
                four = [operand(f"i32 {loaded(slot, 'i32')}", "r") for slot in p.a[4 * step : 4 * step + 4]]
                left = f"{{{', '.join(four)}}}"
            apart = _SUMMED_AT_ONCE * step * 2 * _PANEL if p.across else panel * p.panels[1] + 2 * inside
            adds = "more" if p.across or step else "none"
            turned, kind = f"{'0, ' if a else ''}{int(p.across)}", _SHORT[p.dtype.name]
            asked.append(
                f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
                f"{{{sums}}}, {left}, {further(b, apart)}, {adds}, 1, 1, {turned};"
            )
    asked += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    text = (
        "{ .reg .pred more, none; setp.eq.b32 more, 0, 0; setp.ne.b32 none, 0, 0; " + " ".join(asked) + " }"
    )
    constraints = ",".join([*(["=&f"] * len(made)), *kinds, "~{memory}"])
    result = f"{{ {', '.join(['float'] * len(made))} }}"
    lines.append(
        f'  {name} = call {result} asm sideeffect "{text}", "{constraints}"({", ".join(given)}) convergent'
    )
    for k, slot in enumerate(made):
        lines += [
            f"  {name}.to{k} = extractvalue {result} {name}, {k}",
            f"  store float {name}.to{k}, ptr %slot{slot}",
        ]
    return lines
