/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: constructors of static objects run once per rank before main, destructors after it in reverse order;
 * virtual calls, dynamic_cast and typeid work in every copy; function-local statics are constructed per rank.
 */
#include "image_test.h"

#include <map>
#include <string>
#include <typeinfo>
#include <vector>

static int alive;

struct shape {
    virtual ~shape() {}
    virtual double area() const = 0;
};

struct square : shape {
    double side;
    explicit square(double s) : side(s)
    {
        alive++;
    }
    ~square() override
    {
        alive--;
    }
    double area() const override
    {
        return side * side;
    }
};

struct last { /* constructed first, destroyed last */
    ~last()
    {
        CHECK(alive == 0);
        puts("ok");
    }
};

static last checker;
static square global_square(3);
static std::map<std::string, int> table = {{"one", 1}, {"two", 2}};
static std::vector<shape *> shapes = {&global_square};

static std::string &local_static()
{
    static std::string text = "made in " + std::to_string(test_id());
    return text;
}

int main()
{
    shape *first = shapes[0];

    CHECK(alive == 1 && shapes[0]->area() == 9 && shapes[0] == &global_square);
    CHECK(table["one"] == 1 && table.size() == 2);
    global_square.side = test_id();
    table["id"] = (int)test_id();
    local_static();
    let_others_run();
    CHECK(shapes[0]->area() == (double)test_id() * test_id() && table["id"] == (int)test_id());
    CHECK(local_static() == "made in " + std::to_string(test_id()));
    CHECK(dynamic_cast<square *>(shapes[0]) == &global_square && typeid(*first) == typeid(square));
    return 0;
}
