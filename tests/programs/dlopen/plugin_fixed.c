/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin whose thread_local variable is at a fixed distance from the thread pointer.
 */
static __thread int variable = 3;

int plugin_answer(void)
{
    return variable++;
}
