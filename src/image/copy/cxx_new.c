/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cxx_new.c: operator new and delete of a program that replaces them.
 *
 * A C++ program may define these operators. ld.so then binds the C++ runtime's own references, too, to the program: to the
 * prototype, whose variables no rank uses. Memory that code of libstdc++ has allocated for a rank would come from the
 * prototype, and the rank would free it. So these references are bound to functions of this file, which call the
 * definition in the copy of the calling thread's rank. On threads of no rank they call the runtime's own definition.
 *
 * Libraries that use prototypes in general (IMAGE_SHARED_ALONE) do so here as well.
 */
#include "image/copy/program.h"

#include "image/copy/precedence.h"
#include "image/copy/private_libraries.h"
#include "image/copy/scope.h"

#include <dlfcn.h>

/* All operators take up to three words, and return a pointer or nothing. */
typedef void *(*operator_fn)(size_t, size_t, size_t);

/* Mangled names: new and new[] of a size, delete and delete[] of a pointer. */
#define OPERATORS(X)                       \
    X(_Znwm)                               \
    X(_ZnwmRKSt9nothrow_t)                 \
    X(_ZnwmSt11align_val_t)                \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t)  \
    X(_Znam)                               \
    X(_ZnamRKSt9nothrow_t)                 \
    X(_ZnamSt11align_val_t)                \
    X(_ZnamSt11align_val_tRKSt9nothrow_t)  \
    X(_ZdlPv)                              \
    X(_ZdlPvRKSt9nothrow_t)                \
    X(_ZdlPvSt11align_val_t)               \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
    X(_ZdlPvm)                             \
    X(_ZdlPvmSt11align_val_t)              \
    X(_ZdaPv)                              \
    X(_ZdaPvRKSt9nothrow_t)                \
    X(_ZdaPvSt11align_val_t)               \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t) \
    X(_ZdaPvm)                             \
    X(_ZdaPvmSt11align_val_t)

enum {
#define NUMBER(name) NUMBER##name,
    OPERATORS(NUMBER)
#undef NUMBER
        N_OPERATORS
};

static struct {
    void *prototype;     /* the private module's; NULL: no private module defines the operator */
    operator_fn runtime; /* the next definition, in a shared library, or the prototype's */
} operators[N_OPERATORS];

static void *call(int number, size_t a, size_t b, size_t c)
{
    const struct image *image = image_of_thread();

    if (!image)
        return operators[number].runtime(a, b, c);
    return ((operator_fn)image_translate(image, operators[number].prototype))(a, b, c);
}

#define DEFINE(name)                                      \
    static void *call##name(size_t a, size_t b, size_t c) \
    {                                                     \
        return call(NUMBER##name, a, b, c);               \
    }
OPERATORS(DEFINE)
#undef DEFINE

/* The symbols, and the functions that are bound to them. */
static const struct {
    const char *name;
    operator_fn caller;
} table[N_OPERATORS] = {
#define ROW(name) {#name, call##name},
    OPERATORS(ROW)
#undef ROW
};

/* The first definition in a shared library. */
static operator_fn find_runtime(const struct image_program *program, const char *name, void *prototype)
{
    const struct image_scope nothing = {.root = program};
    const struct image_module *main_module = &program->modules[0];
    struct image_definition definition;

    for (size_t i = 0; i < main_module->n_scope; i++)
        if (image_scope_find_in(&nothing, program, &main_module->scope[i], 1, name, NULL, &definition) &&
            !definition.module)
            return (operator_fn)image_definition_value(&definition, name, NULL);
    return (operator_fn)prototype;
}

static bool uses_prototypes(const struct image_module *module)
{
    const struct image_shared_library *listed = image_shared_library_find(module->name);

    return listed && (listed->flags & IMAGE_SHARED_ALONE);
}

void image_cxx_new_open(const struct image_program *program)
{
    struct image_module *modules;
    size_t count;
    bool is_replaced = false;

    for (size_t i = 0; i < N_OPERATORS; i++) {
        void *prototype = dlsym(RTLD_DEFAULT, table[i].name);

        if (!prototype || !image_module_of(program, (uintptr_t)prototype))
            continue;
        is_replaced = true;
        operators[i].prototype = prototype;
        operators[i].runtime = find_runtime(program, table[i].name, prototype);
    }
    if (!is_replaced)
        return;
    image_modules_list(false, &modules, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; modules[i].dynamic && j < N_OPERATORS; j++)
            if (operators[j].prototype && !uses_prototypes(&modules[i]) &&
                image_modules_index(program->modules, program->n_modules, modules[i].link_map) ==
                    program->n_modules)
                image_precedence_bind(&modules[i], table[j].name, (void *)table[j].caller);
    image_modules_free(modules, count, NULL);
}
