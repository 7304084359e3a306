# SPDX-License-Identifier: BSD-3-Clause
"""Heddle for Python: heddle.channel. In the wheel, this folder also holds the installation: bin, include and lib."""
