/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unit_client.c: nothing above src/image, for unit tests built without the rest of the library.
 */
#include "image/image.h"
#include "ult/ult.h"

const struct image_rebind_client image_rebind_client = {0};

__thread struct ult *ult_current __attribute__((tls_model("initial-exec")));

void ult_tls_set_regions(const struct ult_tls_region *regions, int n_regions) {}
