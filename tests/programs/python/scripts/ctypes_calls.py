# SPDX-License-Identifier: BSD-3-Clause
#
# ctypes: errno, callbacks, libraries and the interpreter itself.
import ctypes
import ctypes.util

libc = ctypes.CDLL("libc.so.6", use_errno=True)
libc.strlen.restype = ctypes.c_size_t
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 4)(3, 1, 2, 0)
libc.qsort(numbers, 4, 4, compare(lambda x, y: x[0] - y[0]))
print(libc.strlen(b"hello"), list(numbers), libc.open(b"/nosuch", 0), ctypes.get_errno())
libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
libm.sqrt.restype, libm.sqrt.argtypes = ctypes.c_double, [ctypes.c_double]
print(libm.sqrt(2), ctypes.pythonapi.Py_IsInitialized())
