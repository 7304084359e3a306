// SPDX-License-Identifier: BSD-3-Clause
//
// A plugin with names that other plugins have, too: NUMBER says which one answers. With HOOK, only the function that others
// may use.
template <typename T> struct registry {
    static int n_users; // STB_GNU_UNIQUE: once per process
};
template <typename T> int registry<T>::n_users;

extern "C" {
#ifdef HOOK
int hook()
{
    return NUMBER;
}
#else
extern int n_constructed;
int hook() __attribute__((weak));

__attribute__((constructor)) static void construct()
{
    n_constructed++;
    registry<int>::n_users++;
}

int number()
{
    return NUMBER;
}

int plugin_number() // calls the first definition in the order of look-up
{
    return number();
}

int plugin_users()
{
    return registry<int>::n_users;
}

int plugin_hook()
{
    return hook ? hook() : 0;
}
#endif
}
