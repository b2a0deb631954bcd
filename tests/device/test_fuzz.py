"""Random programs on tensors that share memory give exactly what CPU eager gives: a sample of tests/device/fuzz.py.

`python -m tests.device.fuzz --programs 10000` runs the long form.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import truecast as tc
from tests.device import fuzz

_NUMBERS = st.integers(0, 59)


class Programs(RuleBasedStateMachine):
    """Steps on a program's twins, with looks in between: each ends a run, after which values of views are made anew."""

    def __init__(self):
        super().__init__()
        self.twins = fuzz.Twins()

    @rule(kind=_NUMBERS, i=_NUMBERS, j=_NUMBERS, a=_NUMBERS, b=_NUMBERS)
    def step(self, kind, i, j, a, b):
        with tc.numerics("eager"):
            self.twins.step(kind, i, j, a, b)

    @rule()
    def look(self):
        self.twins.compare()

    def teardown(self):
        self.twins.compare()


@pytest.mark.filterwarnings("ignore")
def test_random_programs():
    sample = settings(max_examples=12, stateful_step_count=10, derandomize=True, deadline=None, database=None)
    run_state_machine_as_test(Programs, settings=sample)


@pytest.mark.filterwarnings("ignore")
def test_programs_of_the_long_form():
    with tc.numerics("eager"):
        for number in range(8):
            fuzz.run(fuzz.program(random.Random(f"test {number}")))


def test_a_difference_is_seen():
    twins = fuzz.Twins()
    twins.here[0][1, 1] = 17
    with pytest.raises(AssertionError, match="on the CPU tensor"):
        twins.compare()
