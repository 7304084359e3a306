/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a C++ program compiled with -fPIE writes to std::cout, also without sync_with_stdio.
 */
#include "image_test.h"

#include <iostream>

int main()
{
    std::ios_base::sync_with_stdio(false);
    let_others_run();
    std::cerr << "";
    CHECK(std::cout.good() && std::cout.rdbuf());
    std::cout << "ok" << std::endl;
    return 0;
}
