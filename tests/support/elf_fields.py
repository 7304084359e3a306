# SPDX-License-Identifier: BSD-3-Clause
"""The fields of an ELF file (64 bits, little-endian) that decide how it is loaded: for tests that damage them."""
import struct

# Values that a damaged field gets: small ones, and the limits of signed, unsigned and page-sized arithmetic.
WILD = [0, 1, 7, 0xFFF, 0x1001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8]


def header_fields():
    """(name, offset in the file, bytes) of the ELF header's fields."""
    names = ("type", 2), ("machine", 2), ("version", 4), ("entry", 8), ("phoff", 8), ("shoff", 8), ("flags", 4), ("ehsize", 2), \
        ("phentsize", 2), ("phnum", 2), ("shentsize", 2), ("shnum", 2), ("shstrndx", 2)
    for i in range(16):
        yield f"e_ident[{i}]", i, 1
    at = 16
    for name, size in names:
        yield f"header {name}", at, size
        at += size


def load_fields(data):
    """(name, offset in the file, bytes) of program headers, the dynamic section, relocations and the first symbols."""
    phoff, phnum = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    loads, dynamic = [], {}
    for i in range(phnum):
        at = phoff + i * 56
        kind, _, offset, vaddr, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1:
            loads.append((vaddr, offset, size))
        for name, where in (("offset", 8), ("vaddr", 16), ("filesz", 32), ("memsz", 40), ("align", 48)):
            yield f"phdr {i} (type {kind:#x}) {name}", at + where, 8
        if kind == 2:
            for j in range(size // 16):
                tag, value = struct.unpack_from("<QQ", data, offset + j * 16)
                dynamic[tag] = value
                yield f"dynamic tag {tag:#x}", offset + j * 16 + 8, 8
                if tag == 0:
                    break

    def file_offset(vaddr):
        return next(o + vaddr - v for v, o, s in loads if v <= vaddr < v + s)

    for table, size in ((7, 8), (23, 2)):
        for i in range(dynamic.get(size, 0) // 24 if table in dynamic else 0):
            at = file_offset(dynamic[table]) + i * 24
            yield f"relocation {i} offset", at, 8
            yield f"relocation {i} symbol", at + 12, 4
            yield f"relocation {i} type", at + 8, 4
    for i in range(1, 12):
        at = file_offset(dynamic[6]) + i * 24
        yield f"symbol {i} name", at, 4
        yield f"symbol {i} size", at + 16, 8


UNKNOWN_TAG = 0x6FFFF123  # an entry of the dynamic section that ld.so ignores


def dynamic_tags(data):
    """(name, offset in the file, bytes) of the tags of the dynamic section: an entry with UNKNOWN_TAG is as if it were missing."""
    for name, at, _ in load_fields(data):
        if name.startswith("dynamic tag"):
            yield f"{name}: its tag", at - 8, 8


def damage(data, at, size, value):
    """A copy of the file whose field has this value."""
    damaged = bytearray(data)
    damaged[at:at + size] = (value & (2 ** (8 * size) - 1)).to_bytes(size, "little")
    return damaged
