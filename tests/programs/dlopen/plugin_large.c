/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin with more than 1 GiB of variables.
 */
static char large[1200u << 20];

int plugin_answer(void)
{
    return ++large[sizeof large - 1];
}
