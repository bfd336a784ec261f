"""Doctests may say `minitorch` and `np` without importing them."""

import numpy as np
import pytest

import minitorch


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict) -> None:
    doctest_namespace["minitorch"] = minitorch
    doctest_namespace["np"] = np
