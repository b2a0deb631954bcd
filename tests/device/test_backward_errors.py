"""Whatever raises inside of a backward pass is raised where the pass was asked for: the very exception, as on the CPU.
No such error ends the process, loses what other tensors wait for, or spoils the next pass."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch.autograd import Function, functional, graph
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from tests.device.beside import DEVICE
from truecast.capture.device.state import state
from truecast.errors import UnsupportedError


class Mine(Exception):
    """An error that nothing but these tests raises."""


def fail(*args, **kwargs):
    raise Mine("own words")


class Twice(Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


class Failing(Twice):
    @staticmethod
    def backward(context, gradient):
        fail()


class FailingLater(Twice):
    """Its backward pass can be differentiated, but for the error."""

    @staticmethod
    def backward(context, gradient):
        return Failing.apply(gradient)


class FailingForward(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(context, inputs, output):
        pass

    @staticmethod
    def jvp(context, tangent):
        fail()

    @staticmethod
    def backward(context, gradient):
        fail()


class RefusesCosine(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return fail() if func._opname == "cos" else func(*args, **(kwargs or {}))


def on_node(y, method="register_hook", hook=fail):
    getattr(y.grad_fn, method)(hook)
    return y.sum()


def on_tensor(y, method="register_hook", hook=fail):
    getattr(y, method)(hook)
    return y.sum()


def on_accumulation(x, method):
    y = x * 2
    getattr(y.grad_fn.next_functions[0][0], method)(fail)
    return y.sum()


def on_module(x, method):
    layer = torch.nn.Linear(3, 2).to(x.device)
    getattr(layer, method)(fail)
    return layer(x * 1).sum()


def on_parameter(x, method, *, moved):
    layer = torch.nn.Linear(3, 2)
    if not moved:
        layer.to(x.device)
    getattr(layer.weight, method)(fail)
    return layer.to(x.device)(x).sum()


def with_saved(x, pack, unpack):
    with graph.saved_tensors_hooks(pack, unpack):
        return x.sin().sum()


def on_several(x, mode):
    a, b = x * 1, x * 2
    graph.register_multi_grad_hook((a, b), fail, mode=mode)
    return (a * b).sum()


def recomputed(x, reentrant):
    calls = []

    def body(x):
        calls.append(x)
        return x.sin().sin() if len(calls) == 1 else fail()

    return checkpoint(body, x * 1, use_reentrant=reentrant).sum()


def passes_inside_of_each_other(x, depth):
    if depth:
        return checkpoint(passes_inside_of_each_other, x, depth - 1, use_reentrant=True).sin()
    y = x.sin()
    if y.grad_fn is not None:
        y.grad_fn.register_hook(fail)
    return y


def within_a_hook(x):
    y = x * 2

    @torch.enable_grad()
    def inner(gradient):
        on_node(torch.ones_like(gradient, requires_grad=True) * 2).backward()

    return on_tensor(y, hook=inner)


def at_the_end_of_the_pass(x):
    engine = torch.autograd.Variable._execution_engine
    return on_tensor(x * 2, hook=lambda gradient: engine.queue_callback(fail))


def anomaly(x):
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected in MulBackward0"):
        on_node(x * 2).backward()


def under_a_mode(x):
    with RefusesCosine():
        x.sin().sum().backward()


def in_another_thread(x):
    caught = []

    def differentiate():
        try:
            on_node(x * 2).backward()
        except Mine as error:
            caught.append(error)

    thread = threading.Thread(target=differentiate)
    thread.start()
    thread.join()
    raise caught[0]


def twice(x, function):
    (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    return gradient


LOSSES = {
    "hook of a node": lambda x: on_node(x * 2),
    "hook before a node": lambda x: on_node(x * 2, "register_prehook"),
    "hook of a node of a function": lambda x: on_node(Twice.apply(x)),
    "hook before a node of a function": lambda x: on_node(Twice.apply(x), "register_prehook"),
    "hook of an accumulation": lambda x: on_accumulation(x, "register_hook"),
    "hook before an accumulation": lambda x: on_accumulation(x, "register_prehook"),
    "hook of a tensor": lambda x: on_tensor(x * 2),
    "hook of a leaf": lambda x: on_tensor(x),
    "hook after accumulation": lambda x: on_tensor(x, "register_post_accumulate_grad_hook"),
    "hook of a module": lambda x: on_module(x, "register_full_backward_hook"),
    "hook before a module": lambda x: on_module(x, "register_full_backward_pre_hook"),
    "hook of a parameter": lambda x: on_parameter(x, "register_hook", moved=False),
    "hook of a parameter that moved": lambda x: on_parameter(x, "register_hook", moved=True),
    "hook after a parameter that moved": lambda x: on_parameter(x, "register_post_accumulate_grad_hook", moved=True),
    "hook of several": lambda x: on_several(x, "all"),
    "hook of any": lambda x: on_several(x, "any"),
    "function": lambda x: Failing.apply(x * 3).sum(),
    "unpacking": lambda x: with_saved(x, lambda saved: saved, fail),
    "packing": lambda x: with_saved(x, fail, lambda saved: saved),
    "recomputation": lambda x: recomputed(x, False),
    "recomputation in a pass of its own": lambda x: recomputed(x, True),
    "pass inside of a pass": within_a_hook,
    "more passes inside of each other than the thread takes": lambda x: passes_inside_of_each_other(x * 1, 65).sum(),
    "end of the pass": at_the_end_of_the_pass,
    "second pass": lambda x: on_node(twice(x, torch.sin)),
    "second pass of a function": lambda x: twice(x, lambda x: FailingLater.apply(x) ** 2).sum(),
}
PASSES = {
    "anomaly mode": anomaly,
    "dispatch mode": under_a_mode,
    "thread": in_another_thread,
    "grad": lambda x: torch.autograd.grad(on_node(x * 2), x),
    "batched grad": lambda x: torch.autograd.grad(
        on_node(y := x.sin()) * 0 + y, x, torch.eye(3, device=x.device), is_grads_batched=True
    ),
    "autograd.functional.jacobian": lambda x: functional.jacobian(lambda x: on_node(x.sin()), x),
    "autograd.functional.hessian": lambda x: functional.hessian(lambda x: on_node(x.sin()), x),
    "autograd.functional.vjp": lambda x: functional.vjp(lambda x: on_node(x.sin()), x),
    "autograd.functional.jvp": lambda x: functional.jvp(lambda x: on_node(x.sin()), x, x),
    "func.grad": lambda x: torch.func.grad(lambda x: on_node(x.sin()))(x),
    "func.grad of a tensor's hook": lambda x: torch.func.grad(lambda x: on_tensor(x.sin()))(x),
    "func.grad of a function": lambda x: torch.func.grad(lambda x: FailingForward.apply(x).sum())(x),
    "func.vjp": lambda x: torch.func.vjp(lambda x: on_node(x.sin()), x)[1](x.sum()),
    "func.jvp": lambda x: torch.func.jvp(FailingForward.apply, (x.detach(),), (x.detach(),)),
    "func.jacrev": lambda x: torch.func.jacrev(lambda x: on_node(x.sin()))(x),
    "func.hessian": lambda x: torch.func.hessian(lambda x: on_node(x.sin()))(x),
    "func.vmap": lambda x: torch.func.vmap(fail)(x),
}
ALL = {**PASSES, **{name: lambda x, loss=loss: loss(x).backward() for name, loss in LOSSES.items()}}


def leaf(device=DEVICE):
    return torch.ones(3, device=device, requires_grad=True)


@pytest.mark.parametrize("name", ALL)
def test_an_error_in_a_backward_pass_is_raised_where_the_pass_was_asked_for(name):
    for device in ("cpu", DEVICE):
        pending, x = torch.ones(3, device=device) * 2, leaf(device)
        with pytest.raises(Mine, match=r"^own words$"):
            ALL[name](x)
        assert pending.tolist() == [2.0] * 3
        y = leaf(device)
        (y * y).sum().backward()
        assert y.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, SystemError])
@pytest.mark.parametrize("way", ["hook of a node", "operation"])
def test_each_kind_of_exception_comes_through_as_it_is(kind, way, monkeypatch):
    error = kind("own words")

    def stop(*args):
        raise error

    x = leaf()
    loss = on_node(x.sin(), hook=stop) if way == "hook of a node" else x.sin().sum()
    if way == "operation":
        real = state.dispatch
        monkeypatch.setattr(state, "dispatch", lambda f, a, k: stop() if f._opname == "cos" else real(f, a, k))
    with pytest.raises(kind) as raised:
        loss.backward()
    assert raised.value is error
    assert error.__cause__ is None and error.__context__ is None
    assert "stop" in [entry.name for entry in raised.traceback]


def test_an_error_is_forgotten_when_it_has_been_raised():
    error = Mine()
    known = weakref.ref(error)

    def stop(*args):
        nonlocal error
        raised, error = error, None
        raise raised

    loss = on_node(leaf() * 2, hook=stop)
    with pytest.raises(Mine):
        loss.backward()
    del loss
    gc.collect()
    assert known() is None


def test_a_pass_that_fails_goes_no_further():
    for device in ("cpu", DEVICE):
        x = leaf(device)
        with pytest.raises(Mine):
            on_tensor(x * 2).backward()
        assert x.grad is None


def test_an_inner_pass_that_fails_may_be_caught():
    x = leaf()

    @torch.enable_grad()
    def catch(gradient):
        with pytest.raises(Mine):
            on_node(torch.ones_like(gradient, requires_grad=True) * 2).backward()
        return gradient * 5

    on_tensor(x * 2, hook=catch).backward()
    assert x.grad.tolist() == [10.0] * 3


def test_an_error_can_be_caught_inside_of_a_function():
    class Catching(Twice):
        @staticmethod
        def backward(context, gradient):
            with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
                gradient.view(1, 3) @ gradient.view(1, 3)
            return gradient * 2

    x = leaf()
    Catching.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_an_operation_that_fails_in_a_backward_pass(monkeypatch):
    x = leaf()
    real = state.dispatch

    def refuse_cosine(func, args, kwargs):
        if func._opname == "cos":
            raise UnsupportedError("no cosine here")
        return real(func, args, kwargs)

    monkeypatch.setattr(state, "dispatch", refuse_cosine)
    for differentiate in (lambda y: y.backward(), lambda y: torch.autograd.grad(y, x)):
        with pytest.raises(UnsupportedError, match="no cosine here"):
            differentiate((x * 2).sin().sum())
    monkeypatch.undo()
    (x * 2).sin().sum().backward()
    assert x.grad.shape == (3,)


@pytest.mark.parametrize("wrong", [lambda gradient: 5, lambda gradient: gradient.sum().expand(5)])
def test_a_hook_that_returns_something_wrong_raises_as_on_the_cpu(wrong):
    words = []
    for device in ("cpu", DEVICE):
        with pytest.raises((TypeError, RuntimeError)) as refused:
            on_tensor(leaf(device) * 2, hook=wrong).backward()
        words.append((refused.type, str(refused.value)))
    assert words[0] == words[1]
