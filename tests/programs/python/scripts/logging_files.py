# SPDX-License-Identifier: BSD-3-Clause
#
# Log handlers, rotated files and warnings that are logged.
import logging
import logging.handlers
import os
import sys
import tempfile
import warnings

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
log = logging.getLogger("a.b")
log.addHandler(handler)
log.setLevel(logging.INFO)
log.info("hello")
log.debug("not shown")
with tempfile.TemporaryDirectory() as folder:
    rotated = logging.handlers.RotatingFileHandler(folder + "/x", maxBytes=200, backupCount=2)
    log.addHandler(rotated)
    for i in range(20):
        log.warning("line %d", i)
    print(sorted(os.listdir(folder)))
    rotated.close()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("careful")
    print(len(caught))
