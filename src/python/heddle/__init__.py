# SPDX-License-Identifier: BSD-3-Clause
"""Heddle for Python: heddle.channel, and heddle.mpi4py_wheel, a command. In the wheel, this folder also holds the installation: bin, include and lib."""
