/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin with code on the stack: its constructor and a function call a nested function by its address. */
static volatile int n_calls;

static int call(int (*function)(int), int value)
{
    return function(value);
}

int plugin_answer(void)
{
    volatile int one = 1;

    int next(int value)
    {
        n_calls++;
        return value + one;
    }
    return call(next, 41);
}

__attribute__((constructor)) static void begin(void)
{
    plugin_answer();
}
