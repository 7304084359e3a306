# SPDX-License-Identifier: BSD-3-Clause
#
# Modules with libraries in C: sqlite3, ssl, decimal, hashes, compression, mmap, locales, files.
import bz2
import decimal
import fcntl
import hashlib
import json
import locale
import lzma
import mmap
import os
import sqlite3
import ssl
import tempfile
import time
import xml.etree.ElementTree
import zlib

table = sqlite3.connect(":memory:")
table.execute("create table t(a)")
table.executemany("insert into t values(?)", [(i,) for i in range(9)])
print(table.execute("select sum(a) from t").fetchone())
print(ssl.create_default_context().verify_mode, json.loads(json.dumps({"a": [1, 2.5, None]})))
decimal.getcontext().prec = 30
print(decimal.Decimal(1) / 7, hashlib.sha256(b"x").hexdigest()[:8])
print(zlib.decompress(zlib.compress(b"a" * 9)), bz2.decompress(bz2.compress(b"a")), lzma.decompress(lzma.compress(b"a")))
locale.setlocale(locale.LC_ALL, "")
print(time.strftime("%Y", time.gmtime(0)), xml.etree.ElementTree.fromstring("<a><b/></a>")[0].tag)
with tempfile.TemporaryDirectory() as folder, open(folder + "/a", "w+b") as file:
    file.write(b"x" * 4096)
    file.flush()
    fcntl.flock(file, fcntl.LOCK_EX)
    with mmap.mmap(file.fileno(), 4096) as memory:
        memory[0:2] = b"yz"
    print(os.listdir(folder), os.pread(file.fileno(), 3, 0))
