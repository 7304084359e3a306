# SPDX-License-Identifier: BSD-3-Clause
#
# numpy (skipped where it is missing): linear algebra, FFT, random numbers, floating-point errors.
import sys

try:
    import numpy
except ImportError:
    sys.exit(0)
a = numpy.random.default_rng(1).random((60, 60))
print(numpy.allclose(numpy.linalg.solve(a, a.sum(1)), 1), numpy.allclose(numpy.fft.ifft(numpy.fft.fft(a)).real, a))
print(numpy.einsum("ij->", a).round(6), numpy.array2string(numpy.arange(4) / 3, precision=3))
with numpy.errstate(divide="raise"):
    try:
        numpy.ones(1) / numpy.zeros(1)
    except FloatingPointError as error:
        print(error)
