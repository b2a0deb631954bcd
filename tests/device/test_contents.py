"""Contents that PyTorch refuses on the CPU: on the device the same exception, in the same words, when a value is next
read; at once where the refusal is a number's, or where programs catch it and go on in another way."""

from __future__ import annotations

import pytest
import torch
from torch import tensor
from torch.nn import functional

import truecast as tc
from tests.device.beside import DEVICE, beside, raised
from truecast.errors import UsageError

NAN, INFINITY = float("nan"), float("inf")
ones = torch.ones
ASYMMETRIC = [[1.0, 2.0], [2.0, 1.0]]
SINGULAR = [[1.0, 1.0], [1.0, 1.0]]
WITHOUT_NUMBER = [[[1.0, 0.0], [0.0, 1.0]], [[NAN, 1.0], [1.0, 1.0]]]


def bags(d, offsets, mode="mean", **options):
    return functional.embedding_bag(
        tensor([0, 1, 2], device=d), ones(3, 2, device=d), tensor(offsets, device=d), mode=mode, **options
    )


def embedded_in_bags(d, index, mode, dtype):
    weight = ones(3, 2, device=d, dtype=dtype)
    return functional.embedding_bag(tensor([0, 1, index], device=d), weight, tensor([0, 1], device=d), mode=mode)


def ctc(d, targets, input_lengths, target_lengths):
    return functional.ctc_loss(ones(5, 2, 3, device=d), tensor(targets, device=d), input_lengths, target_lengths)


def ctc_on_device(d, targets, *lengths):
    return ctc(d, targets, *[tensor(n, device=d) for n in lengths])


def unpooled(d, n, index):
    indices = torch.zeros((1, 1) + (1,) * (n - 1) + (2,), dtype=torch.long, device=d)
    indices.view(-1)[1] = index
    return getattr(functional, f"max_unpool{n}d")(ones(indices.shape, device=d), indices, 2)


def segments(d, **given):
    named = {name: tensor(value, device=d) if isinstance(value, list) else value for name, value in given.items()}
    return torch.segment_reduce(ones(4, device=d), "sum", **named)


def drawn(d, weights, count=2, replacement=False):
    return torch.multinomial(tensor(weights, device=d), count, replacement)


def cross_entropy_of(d, inputs, targets):
    return functional.binary_cross_entropy(tensor(inputs, device=d), tensor(targets, device=d))


def repeated(d, repeats, **size):
    return torch.repeat_interleave(ones(3, device=d), tensor(repeats, device=d), **size)


CONTENTS = {
    "one_hot": lambda d: functional.one_hot(tensor([0, -1], device=d), 3),
    "one_hot, too large": lambda d: functional.one_hot(tensor([0, 3], device=d), 3),
    "one_hot of as many classes as there are": lambda d: functional.one_hot(tensor([0, -1], device=d)),
    "multilabel_margin_loss": lambda d: functional.multilabel_margin_loss(
        ones(1, 4, device=d), tensor([[3, 4, -1, 1]], device=d)
    ),
    "multilabel_margin_loss, negative": lambda d: functional.multilabel_margin_loss(
        ones(1, 4, device=d), tensor([[3, -2, -1, 1]], device=d)
    ),
    **{
        f"max_unpool{n}d of {index}": lambda d, n=n, index=index: unpooled(d, n, index)
        for n in (1, 2, 3)
        for index in (-1, 99)
    },
    "bag that starts late": lambda d: bags(d, [1, 2]),
    "bag that starts late, max": lambda d: bags(d, [1, 2], "max"),
    "bag that ends late": lambda d: bags(d, [0, 4]),
    "bag that ends late, last": lambda d: bags(d, [0, 1, 5], include_last_offset=True),
    "bag that starts below": lambda d: bags(d, [0, -1], "max"),
    "embedding_renorm": lambda d: functional.embedding(tensor([3], device=d), ones(3, 2, device=d), max_norm=1.0),
    "searchsorted": lambda d: torch.searchsorted(
        tensor([1.0, 2.0, 3.0], device=d), tensor([2.0], device=d), sorter=tensor([0, 1, 3], device=d)
    ),
    "searchsorted, negative": lambda d: torch.searchsorted(
        tensor([1.0, 2.0, 3.0], device=d), tensor([2.0], device=d), sorter=tensor([0, -1, 2], device=d)
    ),
    "masked_scatter": lambda d: torch.zeros(4, device=d).masked_scatter(
        tensor([True, True, True, False], device=d), ones(2, device=d)
    ),
    "masked_scatter of a row": lambda d: torch.zeros(2, 2, device=d).masked_scatter_(
        tensor([True, False], device=d), ones(1, device=d)
    ),
    "segments too short": lambda d: segments(d, lengths=[1, 2]),
    "segments too long": lambda d: segments(d, lengths=[1, 4]),
    "segments of negative length": lambda d: segments(d, lengths=[-1, 5]),
    "segments that go backwards": lambda d: segments(d, offsets=[0, 3, 2]),
    "ctc_loss, inputs": lambda d: ctc_on_device(d, [[1, 2]] * 2, [5, 9], [2, 2]),
    "ctc_loss, negative inputs": lambda d: ctc_on_device(d, [[1, 2]] * 2, [5, -1], [2, 2]),
    "ctc_loss, targets": lambda d: ctc_on_device(d, [[1, 2]] * 2, [5, 5], [2, 7]),
    "ctc_loss, negative targets": lambda d: ctc_on_device(d, [[1, 2]] * 2, [5, 5], [2, -7]),
    "ctc_loss, targets in a row": lambda d: ctc_on_device(d, [1, 2, 1, 2], [5, 5], [2, 1]),
    "multinomial of nothing": lambda d: drawn(d, [0.0, 0.0]),
    "multinomial of a row of nothing": lambda d: drawn(d, [[1.0, 1.0], [0.0, 0.0]], 1, True),
    "multinomial, negative": lambda d: drawn(d, [1.0, -1.0, 1.0]),
    "multinomial, infinite": lambda d: drawn(d, [1.0, INFINITY], 1, True),
    "multinomial with replacement, nan": lambda d: drawn(d, [1.0, NAN], 2, True),
    "multinomial with replacement, negative": lambda d: drawn(d, [1.0, -1.0], 2, True),
    "multinomial with replacement, infinite": lambda d: drawn(d, [1.0, INFINITY], 2, True),
    "bernoulli": lambda d: torch.bernoulli(tensor([0.5, 1.5], device=d)),
    "bernoulli, negative": lambda d: torch.bernoulli(tensor([0.5, -0.5], device=d)),
    "bernoulli, nan": lambda d: torch.bernoulli(tensor([0.5, NAN], device=d)),
    "bernoulli_": lambda d: torch.zeros(2, device=d).bernoulli_(tensor([0.5, 1.5], device=d)),
    "poisson": lambda d: torch.poisson(tensor([1.0, -1.0], device=d)),
    "normal": lambda d: torch.normal(torch.zeros(2, device=d), tensor([1.0, -1.0], device=d)),
    "normal of one mean": lambda d: torch.normal(0.0, tensor([1.0, NAN], device=d)),
    "binary_cross_entropy, target": lambda d: cross_entropy_of(d, [0.5, 0.5], [0.0, 2.0]),
    "binary_cross_entropy": lambda d: cross_entropy_of(d, [0.5, 1.5], [0.0, 1.0]),
    "binary_cross_entropy, negative": lambda d: cross_entropy_of(d, [0.5, -0.1], [0.0, 1.0]),
    "binary_cross_entropy, nan": lambda d: cross_entropy_of(d, [0.5, NAN], [0.0, 1.0]),
    "repeat_interleave": lambda d: repeated(d, [1, -1, 2], output_size=2),
    "repeat_interleave of another size": lambda d: repeated(d, [1, 1, 2], output_size=7),
    "repeat_interleave of unknown size": lambda d: repeated(d, [1, -1, 2]),
    "bincount": lambda d: torch.bincount(tensor([0, -1], device=d)),
    "histc": lambda d: torch.histc(tensor([0, INFINITY], device=d)),
    "histogram": lambda d: torch.histogram(tensor([0, INFINITY], device=d), 3)[0],
    "quantile": lambda d: torch.quantile(tensor([1.0, 2.0], device=d), tensor([1.5], device=d)),
    "nanquantile": lambda d: torch.nanquantile(tensor([1.0, 2.0], device=d), tensor([-1.5], device=d)),
    "lu_solve": lambda d: torch.linalg.lu_solve(
        torch.eye(2, device=d), tensor([1, 3], dtype=torch.int32, device=d), ones(2, 1, device=d)
    ),
    "lu_solve, below": lambda d: torch.linalg.lu_solve(
        torch.eye(2, device=d), tensor([0, 2], dtype=torch.int32, device=d), ones(2, 1, device=d)
    ),
    "lu_unpack": lambda d: torch.lu_unpack(torch.eye(2, device=d), tensor([1, 3], dtype=torch.int32, device=d)),
    "svd": lambda d: torch.linalg.svd(tensor(WITHOUT_NUMBER, device=d))[1],
    "svdvals": lambda d: torch.linalg.svdvals(tensor(WITHOUT_NUMBER[1], device=d)),
    "pinv": lambda d: torch.linalg.pinv(tensor(WITHOUT_NUMBER[1], device=d)),
    "eig": lambda d: torch.linalg.eig(tensor(WITHOUT_NUMBER, device=d))[0],
    "division": lambda d: tensor([1, 2], device=d) // tensor([0, 1], device=d),
    "division in place": lambda d: tensor([1, 2], device=d).div_(tensor([0, 1], device=d), rounding_mode="trunc"),
    "remainder": lambda d: tensor([1, 2], device=d) % tensor([0, 1], device=d),
    "remainder of a number": lambda d: 5 % tensor([0, 1], device=d),
    "remainder by no truth": lambda d: tensor([1, 2], device=d) % tensor([False, True], device=d),
    "fmod": lambda d: torch.fmod(tensor([1, 2], device=d), tensor([0, 1], device=d)),
    "index_add of a vector": lambda d: ones(3, device=d).index_add_(0, tensor([3], device=d), ones(1, device=d)),
    "index_select in nothing": lambda d: torch.zeros(0, 4, device=d).index_select(1, tensor([7], device=d)),
    "_unsafe_index": lambda d: torch.ops.aten._unsafe_index(ones(3, device=d), [tensor([3], device=d)]),
    "_assert_async": lambda d: torch._assert_async(tensor(0, device=d), "own words"),
}


SLOW = {"poisson": pytest.mark.slow}  # 3 s of compilation


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in CONTENTS])
def test_contents_that_pytorch_refuses_raise_where_a_value_is_read(name):
    pending = ones(3, device=DEVICE) * 2

    def read(device):
        result = CONTENTS[name](device)
        tc.sync(wait=True)
        return result

    refused = raised(read, "cpu")
    assert refused[1]
    assert raised(read, DEVICE) == refused
    assert pending.tolist() == [2.0] * 3


def test_the_line_that_was_refused_is_named():
    for _ in range(2):  # by another exception each time
        x = torch.bernoulli(tensor([1.5], device=DEVICE))
        with pytest.raises(RuntimeError) as refused:
            x.cpu()
        assert len(refused.value.__notes__) == 1
        assert refused.value.__notes__[0].startswith("in aten.bernoulli.default at test_contents.py:")


AT_ONCE = {
    "bernoulli": lambda d: torch.zeros(2, device=d).bernoulli_(1.5),
    "native_dropout": lambda d: torch.native_dropout(ones(2, device=d), 1.5, True),
    "uniform": lambda d: torch.zeros(2, device=d).uniform_(2, 1),
    "random": lambda d: torch.zeros(2, device=d).random_(2, 1),
    "randint": lambda d: torch.randint(5, 2, (3,), device=d),
    "normal": lambda d: torch.zeros(2, device=d).normal_(0, -1),
    "geometric": lambda d: torch.zeros(2, device=d).geometric_(2),
    "division": lambda d: tensor([1, 2], device=d) // 0,
    "division in place": lambda d: tensor([1, 2], device=d).div_(0, rounding_mode="floor"),
    "remainder": lambda d: tensor([1, 2], device=d) % 0,
    "fmod": lambda d: tensor([1, 2], device=d).fmod_(0),
    "power": lambda d: tensor([1, 2], device=d) ** -1,
    "power in place": lambda d: tensor([1, 2], device=d).pow_(-2),
    "maximum of nothing": lambda d: torch.zeros(0, device=d).max(),
    "minimum of nothing": lambda d: torch.zeros(0, 3, dtype=torch.long, device=d).min(),
    "ctc_loss, inputs": lambda d: ctc(d, [[1, 2]] * 2, (5, 9), (2, 2)),
    "ctc_loss, targets": lambda d: ctc(d, [[1, 2]] * 2, (5, 5), (2, 7)),
    "put": lambda d: torch.zeros(0, 4, device=d).put(tensor([0], device=d), ones(1, device=d)),
    "index of nothing": lambda d: torch.zeros(0, 4, device=d)[tensor([7], device=d)],
    "index_put of nothing": lambda d: torch.zeros(0, 4, device=d).index_put((tensor([7], device=d),), tensor(1.0)),
    "index_select of nothing": lambda d: torch.zeros(0, 4, device=d).index_select(0, tensor([0], device=d)),
    "embedding of nothing": lambda d: functional.embedding(tensor([0], device=d), torch.zeros(0, 4, device=d)),
    "cholesky": lambda d: torch.linalg.cholesky(tensor(ASYMMETRIC, device=d)),
    "cholesky of several": lambda d: torch.linalg.cholesky(torch.stack([torch.eye(2), tensor(ASYMMETRIC)]).to(d)),
    "cholesky, deprecated": lambda d: torch.cholesky(tensor(ASYMMETRIC, device=d), upper=True),
    "cholesky_ex": lambda d: torch.linalg.cholesky_ex(tensor(ASYMMETRIC, device=d), check_errors=True),
    "cholesky_inverse": lambda d: torch.cholesky_inverse(tensor([[1.0, 0.0], [2.0, 0.0]], device=d)),
    "cholesky_inverse of several": lambda d: torch.cholesky_inverse(torch.zeros(2, 2, 2, device=d)),
    "inv": lambda d: torch.linalg.inv(tensor(SINGULAR, device=d)),
    "inv of several": lambda d: torch.linalg.inv(torch.stack([torch.eye(2), tensor(SINGULAR)]).to(d)),
    "inv_ex": lambda d: torch.linalg.inv_ex(tensor(SINGULAR, device=d), check_errors=True),
    "solve": lambda d: torch.linalg.solve(tensor(SINGULAR, device=d), ones(2, device=d)),
    "solve_ex": lambda d: torch.linalg.solve_ex(tensor(SINGULAR, device=d), ones(2, device=d), check_errors=True),
    "lu_factor": lambda d: torch.linalg.lu_factor(tensor(SINGULAR, device=d)),
    "lu_factor_ex": lambda d: torch.linalg.lu_factor_ex(tensor(SINGULAR, device=d), check_errors=True),
    "matrix_power": lambda d: torch.linalg.matrix_power(tensor(SINGULAR, device=d), -1),
}


@pytest.mark.parametrize("name", AT_ONCE)
@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
def test_numbers_and_matrices_that_pytorch_refuses_raise_at_once(name):
    refused = raised(AT_ONCE[name], "cpu")
    assert refused[1]
    assert raised(AT_ONCE[name], DEVICE) == refused


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_cholesky_names_the_first_minor_that_is_not_positive(order, upper, dtype):
    matrix = torch.randn(4, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    matrix = matrix @ matrix.mH + torch.eye(4)
    several = torch.stack([matrix, matrix])
    several[1, order - 1, order - 1] = -1
    beside(lambda x: torch.linalg.cholesky_ex(x, upper=upper)[1], several)


GOOD = {
    "index_add into nothing": lambda x, i: x[:0].index_add(0, i * 0, x),
    "index_add of nothing": lambda x, i: x[:, :0].index_add(0, i + 7, x[:, :0]),
    "index_copy of nothing": lambda x, i: x[:, :0].index_copy(0, i + 7, x[:, :0]),
    "index_fill of nothing": lambda x, i: x[:, :0].index_fill(0, i + 7, 1.0),
    "index of nothing": lambda x, i: x[:, :0][i + 7],
    "index_put of nothing": lambda x, i: x[:, :0].clone().index_put_((i + 7,), torch.tensor(1.0)),
    "division of nothing": lambda x, i: i[:0] // 0,
    "division of nothing by a tensor": lambda x, i: i[:0] // (i[:1] * 0),
    "division by zero": lambda x, i: x // 0,
    "division by zeros": lambda x, i: x % (x * 0),
    "power of a tensor": lambda x, i: (i + 1) ** (i - 1).neg(),
    "negative power": lambda x, i: x**-1,
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, x),
    "masked_scatter of just enough": lambda x, i: (x * 0).masked_scatter(i == 1, i.new_ones(2).to(x.dtype)),
    "multilabel_margin_loss": lambda x, i: functional.multilabel_margin_loss(x, i.expand(2, 2).sub(1)),
    "unsafe segments": lambda x, i: torch.segment_reduce(x.flatten(), "sum", lengths=i, unsafe=True),
    "segments": lambda x, i: torch.segment_reduce(x.flatten(), "sum", lengths=i + i + 1),
    "one_hot": lambda x, i: functional.one_hot(i, 2),
    "one_hot of as many classes as there are": lambda x, i: functional.one_hot(i),
    "bags with a last offset": lambda x, i: functional.embedding_bag(
        i.repeat(2), x, torch.cat([i * 2, i[1:] + 3]), include_last_offset=True
    ),
    "largest of bags with a last offset": lambda x, i: functional.embedding_bag(
        i.repeat(2), x, torch.cat([i, i[1:] + 3]), include_last_offset=True, mode="max"
    ),
    "histogram in a range": lambda x, i: torch.histc(x / 0, 3, -1, 1),
    "cholesky of nothing": lambda x, i: torch.linalg.cholesky_ex(x[:0, :0], check_errors=True),
    "cholesky of no matrices": lambda x, i: torch.linalg.cholesky(x.expand(0, 2, 2)),
    "cholesky_inverse": lambda x, i: torch.cholesky_inverse(torch.eye(2, device=x.device) * 2 + x.tril() * 0),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_pytorch_takes_is_taken(name):
    beside(GOOD[name], torch.tensor([[0.5, 1.5], [-2.0, 3.0]]), torch.tensor([0, 1]))
    tc.sync(wait=True)


@pytest.mark.parametrize("lengths", [[3, 1], [1, 3], [3, 0], [3]])
def test_sequences_are_packed_by_lengths_on_the_cpu(lengths):
    def packed(device):
        steps = torch.arange(24.0).view(2, 3, 4).to(device)
        found = torch.nn.utils.rnn.pack_padded_sequence(steps, tensor(lengths), batch_first=True)
        assert found.data.device.type == torch.device(device).type
        return found.data.tolist(), found.batch_sizes.tolist()

    try:
        expected = packed("cpu")
    except RuntimeError:
        assert raised(packed, DEVICE) == raised(packed, "cpu")
    else:
        assert packed(DEVICE) == expected


def test_pivots_of_no_ldl_factorization_are_refused():
    """On the CPU PyTorch's kernel corrupts the process's memory."""
    matrix = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 4.0]])
    right = torch.ones(3, 2)
    factor, pivots = torch.linalg.ldl_factor(matrix.to(DEVICE))
    solved = torch.linalg.ldl_solve(factor, pivots, right.to(DEVICE))
    torch.testing.assert_close(matrix @ solved.cpu(), right)
    for wrong in ([-1, 1, 1], [0, 1, 2], [1, 2, 4], [1, 1, -3], [-2, -2, -4]):
        with pytest.raises(UsageError, match="no pivots of an LDL factorization"):
            torch.linalg.ldl_solve(factor, torch.tensor(wrong, dtype=torch.int32, device=DEVICE), right.to(DEVICE))
