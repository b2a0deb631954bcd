"""`truecast.call_jax`: JAX functions as operations on the device, on the CPU and in recorded programs."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest
import torch
from jax.experimental import pallas
from torch.func import grad, jvp, vmap

import truecast as tc
from tests.device.beside import DEVICE, beside, equal
from truecast.errors import UnsupportedError, UsageError

CLOSE = 1e-5  # a few float32 operations, contracted otherwise


def wave(x, y):
    """As `wave_in_torch`."""
    return jnp.sin(x) * y + x**2


def wave_in_torch(x, y):
    return torch.sin(x) * y + x**2


def test_a_jax_function_computes_what_torch_computes_among_other_operations_of_one_program():
    x, y = torch.randn(3, 4), torch.randn(4)
    there = x.to(DEVICE), y.to(DEVICE)
    tc.sync()
    before = tc.metrics()
    made = tc.call_jax(wave, there[0] * 2, there[1]).relu()
    result = (tc.call_jax(wave, made, there[1]) + 1).cpu()
    assert tc.metrics().runs - before.runs == 1
    first = wave_in_torch(x * 2, y).relu()
    torch.testing.assert_close(result, wave_in_torch(first, y) + 1, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("device", ["pjrt", "cpu"])
def test_results_keep_their_structure_and_their_dtypes(device):
    def several(x, n):
        return {"sum": x.sum(), "rest": (jnp.argmax(x), [x > 0, n + 1, x.astype(jnp.bfloat16), jnp.arange(3)])}

    x, n = torch.tensor([-1.0, 2.0], device=device), torch.tensor([2**40], device=device)
    found = tc.call_jax(several, x, n)
    largest, (positive, after, narrow, numbers) = found["rest"]
    assert (found["sum"].item(), largest.item(), positive.tolist(), after.tolist()) == (
        1.0, 1, [False, True], [2**40 + 1],
    )  # fmt: skip
    dtypes = [t.dtype for t in (found["sum"], positive, after, narrow, numbers)]
    assert dtypes == [torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.int64]
    assert tc.call_jax(lambda x: x + jnp.arange(2), x).dtype is torch.float32  # no 64-bit operand: JAX's own dtypes
    assert tc.call_jax(lambda x: jnp.arange(2), x).dtype is torch.int32


def gradients(function, x, y):
    x, y = (t.detach().clone().requires_grad_() for t in (x, y))
    out = function(x * 1, y)
    out.square().sum().backward()
    return out, x.grad, y.grad


@pytest.mark.parametrize("device", ["pjrt", "cpu"])
def test_gradients_are_jax_vjps(device):
    def program(x, y):
        function = wave_in_torch if x.device.type != device else lambda *t: tc.call_jax(wave, *t)
        return gradients(function, x, y)

    if device == "pjrt":
        beside(program, (3, 4), (4,), tolerance=CLOSE)
        return
    x, y = torch.randn(3, 4), torch.randn(4)
    for got, expected in zip(program(x, y), gradients(wave_in_torch, x, y), strict=True):
        torch.testing.assert_close(got, expected, rtol=CLOSE, atol=CLOSE)


def test_gradients_of_gradients_and_operands_without_any():
    def program(x, index):
        if x.device.type == "pjrt":
            chosen = functools.partial(tc.call_jax, lambda x, i: (x[i] ** 3, i * 2))
        else:
            chosen = lambda x, i: (x[i] ** 3, i * 2)  # noqa: E731
        x = x.clone().requires_grad_()
        out, twice = chosen(x, index)
        assert not twice.requires_grad
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (first**2).sum().backward()
        return out, first, x.grad, twice

    beside(program, (5,), torch.tensor([0, 3, 3]), tolerance=CLOSE)


def test_complex_gradients_are_pytorchs():
    def program(x):
        z = torch.complex(x, x * 2).requires_grad_()
        cubed = tc.call_jax(lambda z: z**3, z) if x.device.type == "pjrt" else z**3
        (cubed.real + 2 * cubed.imag).sum().backward()
        return z.grad

    beside(program, (4,), tolerance=1e-4)  # cubes of complex numbers, formed otherwise


def test_transforms_of_torch_func():
    function = functools.partial(tc.call_jax, wave)

    def program(x, y):
        used = function if x.device.type == "pjrt" else wave_in_torch
        by_row = vmap(used, in_dims=(0, None))(x, y)
        slopes = vmap(grad(lambda row: used(row, y).sum()))(x)
        return (by_row, slopes, *jvp(lambda t: used(t, y), (x,), (x * 2,)))

    beside(program, (3, 4), (4,), tolerance=CLOSE)


def scaled_kernel(x_ref, y_ref, out_ref):
    out_ref[...] = x_ref[...] * 2 + y_ref[...]


def scaled(x, y, reverse=False):
    blocks = x.shape[0] // 4
    forward = pallas.BlockSpec((4,), lambda i: (i,))
    out = pallas.BlockSpec((4,), lambda i: (blocks - 1 - i,)) if reverse else forward
    return pallas.pallas_call(
        scaled_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True, grid=(blocks,),
        in_specs=[forward] * 2, out_specs=out,
    )(x, y)  # fmt: skip


def test_pallas_kernels_and_kernels_that_differ_in_an_index_map_only():
    x, y = torch.randn(8, device=DEVICE), torch.randn(8, device=DEVICE)
    expected = x.cpu() * 2 + y.cpu()
    torch.testing.assert_close(tc.call_jax(scaled, x, y).cpu(), expected)
    reversed_blocks = tc.call_jax(functools.partial(scaled, reverse=True), x, y).cpu()
    torch.testing.assert_close(reversed_blocks, expected.view(2, 4).flip(0).reshape(8))


def test_one_program_for_each_shape_whatever_object_the_function_is():
    def run(size):
        x = torch.ones(size, device=DEVICE)
        tc.sync()
        return tc.call_jax(lambda x: x * 5 + 3, x).sum().item()

    before = tc.metrics()
    assert [run(n) for n in (11, 11, 12, 11, 12)] == [88.0, 88.0, 96.0, 88.0, 96.0]
    after = tc.metrics()
    assert after.programs - before.programs == 2 + 2  # the ones, and the function, of each size
    traces = []

    def counted(x):
        traces.append(x.shape)
        return x + 1

    x = torch.ones(3, device=DEVICE)
    for _ in range(3):
        x = tc.call_jax(counted, x)
        tc.sync()
    # Learnt; lowered alone, to know that it can be; lowered in the program of each connection to others.
    assert 0 < len(traces) <= 4
    seen = len(traces)
    for _ in range(3):
        x = tc.call_jax(counted, x)
        tc.sync()
    assert len(traces) == seen


def test_constants_are_part_of_a_functions_name():
    big = [jnp.zeros(5000).at[i].set(1.0) for i in (2500, 2501)]
    x = torch.arange(5000.0, device=DEVICE)
    assert [tc.call_jax(lambda x, c=c: (x * c).sum(), x).item() for c in big] == [2500.0, 2501.0]


def test_a_recorded_program_holds_the_function_and_saves_with_it(tmp_path):
    def program(x, y):
        return tc.call_jax(wave, x + 1, y).relu()

    x, y = torch.randn(3, 4), torch.randn(4)
    graph = tc.capture(program, x, y)
    (node,) = (node for node in graph.nodes if node.op == "truecast.call_jax.default")
    assert node.args[0].startswith("wave_") and node.site.text.endswith("tc.call_jax(wave, x + 1, y).relu()")
    why = {node.op: decision.why for node, decision in tc.plan(graph).pairs()}
    assert why[node.op] == "a function of another framework computes in the dtypes that it says itself"
    assert str(type(graph).parse(str(graph))) == str(graph)
    expected = wave_in_torch(x + 1, y).relu()
    for numerics in ("cpu", "legacy-xla-bf16"):
        lowered = tc.lower(program, x, y, numerics=numerics)
        close = CLOSE if numerics == "cpu" else 0.05
        torch.testing.assert_close(lowered.compile()(x, y), expected, rtol=close, atol=close)
    lowered = tc.lower(program, x, y)
    lowered.save(tmp_path / "saved")
    torch.testing.assert_close(tc.load(tmp_path / "saved").compile()(x, y), expected, rtol=CLOSE, atol=CLOSE)


def test_training_through_a_recorded_program():
    def step(x, y):
        x = x.detach().requires_grad_()
        tc.call_jax(wave, x, y).square().sum().backward()
        return x.grad

    x, y = torch.randn(3, 4), torch.randn(4)
    _, expected, _ = gradients(wave_in_torch, x, y)
    torch.testing.assert_close(tc.lower(step, x, y).compile()(x, y), expected, rtol=CLOSE, atol=CLOSE)


def test_compiled_by_torch_compile_around_it():
    def program(x):
        return tc.call_jax(wave, x * 2, x) + 1

    x = torch.randn(4)
    got = torch.compile(program, backend="eager")(x)
    torch.testing.assert_close(got, wave_in_torch(x * 2, x) + 1, rtol=CLOSE, atol=CLOSE)


def refused(kind, *call):
    with pytest.raises(kind) as raised:
        tc.call_jax(*call)
    return str(raised.value)


def test_wrong_calls():
    x = torch.ones(3, device=DEVICE)
    assert refused(UsageError, jnp.add, x, 2) == (
        "argument 1 of call_jax is a int, not a tensor\n"
        "  help: bind what is no tensor with functools.partial, outside of the training loop"
    )
    assert refused(UsageError, jnp.add) == (
        "call_jax needs a tensor, whose device it runs on\n  help: pass at least one"
    )
    assert refused(UsageError, 3, x).startswith("a int can't be called")
    assert "two devices" in refused(RuntimeError, jnp.add, x, torch.ones(3))
    assert refused(TypeError, jnp.add, x, torch.ones(4, device=DEVICE)).startswith("add got incompatible shapes")
    assert refused(UsageError, lambda x: jax.random.key(0), x) == (
        "the JAX function '<lambda>' returns key<fry>, which no tensor has\n"
        "  help: return an array of numbers; of random keys, jax.random.key_data"
    )


def test_callbacks_are_refused():
    def chatty(x):
        jax.debug.print("{x}", x=x)
        return x

    def back(x):
        return jax.jit(lambda a: jax.pure_callback(lambda b: b, jax.ShapeDtypeStruct(a.shape, a.dtype), a))(x)

    x = torch.ones(3, device=DEVICE)
    assert refused(UnsupportedError, chatty, x).startswith(
        "the JAX function 'chatty' calls back to Python (debug_print)"
    )
    assert "calls back to Python (pure_callback)" in refused(UnsupportedError, back, x)
    equal(tc.call_jax(lambda x: x + 1, x), torch.full((3,), 2.0))
