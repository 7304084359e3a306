/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin that cannot be bound.
 */
void missing_function(void);

void plugin_unbound(void)
{
    missing_function();
}
