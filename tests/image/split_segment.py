#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Splits the last segment of a 64-bit program into segments of equal size, in place of program headers that ld.so does not need.

Usage: split_segment.py PROGRAM"""
import struct
import sys

PT_LOAD, PT_NOTE, PT_GNU_PROPERTY, PAGE = 1, 4, 0x6474E553, 4096
HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align

data = bytearray(open(sys.argv[1], "rb").read())
at = struct.unpack_from("<Q", data, 32)[0]
size, number = struct.unpack_from("<HH", data, 54)
old = [HEADER.unpack_from(data, at + i * size) for i in range(number)]
kept = [header for header in old if header[0] not in (PT_NOTE, PT_GNU_PROPERTY)]
last = max(i for i, header in enumerate(kept) if header[0] == PT_LOAD)
kind, flags, offset, vaddr, _, file_bytes, memory_bytes, align = kept[last]
pieces = number - len(kept) + 1
piece = (file_bytes // pieces + PAGE - 1) // PAGE * PAGE
assert pieces > 1 and file_bytes == memory_bytes
kept[last:last + 1] = [(kind, flags, offset + lo, vaddr + lo, vaddr + lo, length, length, align)
                       for lo in range(0, piece * pieces, piece) for length in [min(piece, file_bytes - lo)]]
for i, header in enumerate(kept):
    HEADER.pack_into(data, at + i * size, *header)
with open(sys.argv[1], "wb") as out:
    out.write(data)
