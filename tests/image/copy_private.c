/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a library's variables for which the program has its own space (COPY relocations: -fPIE without
 * -fPIC) are private to the rank, and addresses in them lead to the rank's copy of the library.
 */
#include "image_test.h"
#include "libcopied.h"

#include <string.h>

int main(void)
{
    int value = (int)(test_id() % 1000000);

    CHECK(copied_address() == &copied_table);
    CHECK(copied_table.hidden == copied_hidden_address() && copied_table.get() == 11);
    CHECK(strcmp(copied_table.text, "text") == 0 && copied_table.numbers[0].self == &copied_table.numbers[1]);
    CHECK(copied_table.numbers[0].a == 2 && copied_table.numbers[0].b == 3 && copied_zero == 0);
    *copied_table.hidden = value;
    copied_zero = value;
    let_others_run();
    CHECK(copied_table.get() == value && copied_add(1) == value + 1 && copied_zero == value + 1);
    puts("ok");
    return 0;
}
