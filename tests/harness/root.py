"""Tests that need files of several users."""

import os

import pytest

NOBODY = 65534


def only_as_root():
    """Skips the test, with the reason, if this process cannot create files of other users."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of other users")
