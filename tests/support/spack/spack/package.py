# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for Spack's module of the same name: records what a recipe states. spack_test.sh uses it where there is no Spack."""
import os

join_path = os.path.join
stated = {"versions": {}, "variants": {}, "dependencies": {}, "provided": [], "licenses": []}


def version(name, **kind):
    stated["versions"][name] = kind


def variant(name, default, description, values=(True, False)):
    assert default in values
    stated["variants"][name] = default


def depends_on(spec, type=("build", "link"), when=""):
    assert not when or when.lstrip("+~") in stated["variants"], when
    stated["dependencies"][spec] = when


def provides(spec):
    stated["provided"].append(spec)


def license(name):
    stated["licenses"].append(name)
