/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: dlsym and dladdr answer with the rank's own functions and variables.
 */
#include "image_test.h"

#include <dlfcn.h>
#include <string.h>

__attribute__((visibility("default"))) int exported_variable;

__attribute__((visibility("default"))) unsigned exported_function(void)
{
    return test_id();
}

int main(void)
{
    unsigned (*found)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "exported_function");
    void *self = dlopen(NULL, RTLD_NOW);
    Dl_info info;

    let_others_run();
    CHECK(found == exported_function && found() == test_id());
    CHECK(dlsym(self, "exported_variable") == &exported_variable);
    CHECK(dlsym(RTLD_NEXT, "strtol") != NULL && dlsym(RTLD_NEXT, "exported_function") == NULL);
    CHECK(dladdr((void *)exported_function, &info) && strcmp(info.dli_sname, "exported_function") == 0);
    CHECK(info.dli_saddr == (void *)exported_function);
    puts("ok");
    return 0;
}
