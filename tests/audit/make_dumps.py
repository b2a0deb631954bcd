"""Writes the foreign dumps that the audit's tests read: programs as other stacks print them.

    python tests/audit/make_dumps.py jax                    StableHLO and HLO of jax
    PJRT_DEVICE=CPU python tests/audit/make_dumps.py torch_xla   HLO of torch_xla 2.9, from an environment of its own

Each is run in the environment that has what it prints. The files are test data: reviewed once, and never edited.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def write(name: str, text: str) -> None:
    """A dump; this file is called dumped/model.py in it, and installed packages stand under site-packages/."""
    DATA.mkdir(exist_ok=True)
    text = re.sub(r'[^"\s]*/(?=site-packages/)', "", text.replace(str(Path(__file__).resolve()), "dumped/model.py"))
    (DATA / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")


# A decoder layer in bfloat16 whose pieces are those of Llama: RMS norm, rotary embedding, attention, gated MLP.
HIDDEN, HEADS, TOKENS, WIDE = 16, 2, 8, 32


def jax_dumps() -> None:
    dump = Path(tempfile.mkdtemp())
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"

    import jax
    import jax.numpy as jnp

    def norm(x: Any, weight: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * weight

    def layer(x: Any, weight: Any, query: Any, up: Any, down: Any) -> Any:
        y = norm(x, weight)
        q = (y @ query).reshape(TOKENS, HEADS, -1).transpose(1, 0, 2)
        x = x + (jax.nn.softmax(q @ q.transpose(0, 2, 1)) @ q).transpose(1, 0, 2).reshape(TOKENS, HIDDEN)
        return x + (jax.nn.silu(norm(x, weight) @ up)) @ down

    def loss(x: Any, *weights: Any) -> Any:
        return layer(x, *weights).sum()

    def kinds(x: Any, index: Any, wide: Any) -> Any:
        """Loops, scatters, windows, a convolution, a sort and float64."""
        total = jax.lax.fori_loop(0, 4, lambda i, t: t + x[i], jnp.zeros_like(x[0]))
        scattered = jnp.zeros((9, HIDDEN), x.dtype).at[index].add(x)
        window = jax.lax.reduce_window(x, x.dtype.type(0), jax.lax.add, (1, 2), (1, 1), "VALID")
        convolved = jax.lax.conv(x[None, None], jnp.ones((1, 1, 3, 3), x.dtype), (1, 1), "SAME")
        return total, scattered, window, convolved, jnp.sort(x), jnp.cumsum(x, 1), wide.sum() * x[0, 0]

    bf16 = jnp.bfloat16
    sizes = [(TOKENS, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN, WIDE), (WIDE, HIDDEN)]
    tensors = [jax.ShapeDtypeStruct(size, bf16) for size in sizes]
    with jax.enable_x64(True):
        mixed = [tensors[0], jax.ShapeDtypeStruct((TOKENS,), jnp.int32), jax.ShapeDtypeStruct((4,), jnp.float64)]
    for name, function, arguments in [
        ("jax-layer", jax.grad(loss, (0, 1, 2, 3, 4)), tensors),
        ("jax-kinds", kinds, mixed),
    ]:
        with jax.enable_x64(name == "jax-kinds"):
            lowered = jax.jit(function).lower(*arguments)
            module = lowered.compiler_ir("stablehlo")
            write(f"{name}.mlir", lowered.as_text())
            write(f"{name}.locations.mlir", lowered.as_text(debug_info=True))
            write(f"{name}.generic.mlir", module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
            lowered.compile()
        for stage in ("before_optimizations", "cpu_after_optimizations"):
            [path] = dump.glob(f"*.jit_{function.__name__}.{stage}.txt")
            write(f"{name}.{stage}.hlo", path.read_text())
    shutil.rmtree(dump)


def torch_xla_dumps() -> None:
    os.environ["XLA_HLO_DEBUG"] = "1"  # metadata with source lines
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm

    device = torch_xla.device()

    def dump(name: str, function: Callable[..., Any], *sizes: tuple[int, ...]) -> None:
        arguments = [torch.randn(size).to(torch.bfloat16).to(device).requires_grad_() for size in sizes]
        torch_xla.sync()
        result = function(*arguments)
        results = result if isinstance(result, tuple) else (result,)
        write(f"{name}.hlo", torch_xla._XLAC._get_xla_tensors_hlo(list(results)))
        write(f"{name}.mlir", xm.get_stablehlo(list(results)))

    def norm(x: Any, weight: Any) -> Any:
        wide = x.float()
        return weight * (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotated(x: Any, cosine: Any, sine: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat((-second, first), -1) * sine

    def step(x: Any, weight: Any, query: Any, up: Any, gate: Any, down: Any, cosine: Any, sine: Any) -> Any:
        y = norm(x, weight)
        q = rotated((y @ query).view(TOKENS, HEADS, -1).transpose(0, 1), cosine, sine)
        x = x + (torch.softmax(q @ q.transpose(1, 2), -1) @ q).transpose(0, 1).reshape(TOKENS, HIDDEN)
        y = norm(x, weight)
        x = x + (torch.nn.functional.silu(y @ gate) * (y @ up)) @ down
        leaves = [weight, query, up, gate, down]
        return tuple(torch.autograd.grad(x.float().square().mean(), leaves))

    dump("torch_xla-mul", lambda a, b: a * b, (4, 4), (4, 4))
    dump("torch_xla-sum", lambda a: a.sum(-1), (4, 64))
    dump("torch_xla-softmax", lambda a: torch.softmax(a, -1), (4, 64))
    half = HIDDEN // HEADS
    shapes = [(TOKENS, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN, WIDE), (HIDDEN, WIDE), (WIDE, HIDDEN)]
    dump("torch_xla-llama-step", step, *shapes, (TOKENS, half), (TOKENS, half))


if __name__ == "__main__":
    {"jax": jax_dumps, "torch_xla": torch_xla_dumps}[sys.argv[1]]()
