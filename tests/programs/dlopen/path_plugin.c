/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin with an answer of its own. */
int plugin_answer(void)
{
    return ANSWER;
}
