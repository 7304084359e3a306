// SPDX-License-Identifier: BSD-3-Clause
#include "hello.h"
#include <string>
#include <vector>

int main(int argc, char **argv)
{
    std::vector<std::string> words(argv, argv + argc);
    return words.size() == 2 ? hello(argc, argv) : 1;
}
