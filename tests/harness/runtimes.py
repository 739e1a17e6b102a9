"""Runtimes of the examples that no package of ours brings: where they are on the machine, ./dev prepares what they need."""

import os
import shutil

import pytest

from harness.process import ROOT

NODE_MODULES = ROOT / "build" / "node" / "node_modules"
GO_EXAMPLE = ROOT / "build" / "go" / "events"


def _prepared(path, *needed):
    """The path, made by ./dev test. The test is left out, by name, where it cannot be made."""
    if not path.exists():
        for name in needed:
            if shutil.which(name) is None:
                pytest.skip(f"{name} is not on this machine")
        raise RuntimeError(f"{path} is not there: ./dev test makes it")
    return path


def node_program(source, folder):
    """The command that runs a module of ours, copied to where it finds its packages."""
    modules = _prepared(NODE_MODULES, "node", "npm")
    os.symlink(modules, folder / "node_modules")
    return ["node", shutil.copy(source, folder)]


def go_example():
    return [_prepared(GO_EXAMPLE, "go")]
