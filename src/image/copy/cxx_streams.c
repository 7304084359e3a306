/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cxx_streams.c: std::cout and the other stream objects of libstdc++, one of each per rank.
 *
 * The C++ runtime is shared, but the objects belong to a process: formats, error states, and the buffer that rdbuf has set. A
 * program with COPY relocations has them in its own memory, and so has each of its copies (reloc.c). In other
 * programs and in libraries, references to them lead to objects of the rank, beside struct image. Like those of COPY
 * relocations they begin as bytes of the prototype's constructed objects, in which pointers to the objects are translated
 * (ios_base points to itself, cin is tied to cout). The buffers of stdio, which they write to, are shared.
 */
#include "image/copy/instantiate.h"

#include "image/copy/private_libraries.h"

#include "base/log.h"

#include <dlfcn.h>
#include <string.h>

static const char *const names[] = {"_ZSt3cin",  "_ZSt4cout",  "_ZSt4cerr",  "_ZSt4clog",
                                    "_ZSt4wcin", "_ZSt5wcout", "_ZSt5wcerr", "_ZSt5wclog"};

/* The prototype's objects, in the order of names. */
static struct {
    const char *object;
    size_t size_bytes;
    size_t offset; /* of a rank's object from the first one */
} prototypes[BASE_COUNT(names)];
static size_t total_bytes; /* of a rank's objects; 0: not known yet */

/* Finds the prototype's objects, and constructs them if no code has done so. */
static void find_prototypes(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void (*construct)(void *) = handle ? (void (*)(void *))dlsym(handle, "_ZNSt8ios_base4InitC1Ev") : NULL;
    static char init_object; /* std::ios_base::Init has no data */
    Dl_info info;

    if (construct)
        construct(&init_object);
    for (size_t i = 0; handle && i < BASE_COUNT(names); i++) {
        void *object;
        const ElfW(Sym) *symbol = NULL;

        object = image_symbol_bound(handle, names[i]);
        object = object ? object : dlsym(handle, names[i]);
        if (!object || !dladdr1(object, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
            continue;
        prototypes[i].object = object;
        prototypes[i].size_bytes = symbol->st_size;
        prototypes[i].offset = total_bytes;
        total_bytes += base_round_up(symbol->st_size, 16);
    }
    if (handle)
        dlclose(handle);
}

int image_stream_find(const char *name, const void *definition)
{
    Dl_info info;

    if (strncmp(name, "_ZSt", 4) != 0)
        return -1;
    for (size_t i = 0; i < BASE_COUNT(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        if (!definition || !dladdr(definition, &info) || !image_is_runtime_library(info.dli_fname))
            return -1;
        if (total_bytes == 0)
            find_prototypes(info.dli_fname);
        return prototypes[i].object ? (int)i
                                    : -1; /* another program may have the object that the library uses */
    }
    return -1;
}

bool image_stream_is(const char *name)
{
    for (size_t i = 0; i < BASE_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

void *image_stream_of(const struct image *image, void *address)
{
    for (size_t i = 0; image->libc.streams && i < BASE_COUNT(names); i++) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)prototypes[i].object;

        if (offset < prototypes[i].size_bytes)
            return image->libc.streams + prototypes[i].offset + offset;
    }
    return address;
}

/* The rank's address for a pointer in an object. */
static uintptr_t translate(const struct image *image, uintptr_t word)
{
    uintptr_t in_copy = (uintptr_t)image_translate(image, (const void *)word);

    return in_copy == word ? (uintptr_t)image_stream_of(image, (void *)word) : in_copy;
}

void image_stream_translate(const struct image *image, char *object, size_t size_bytes)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= size_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;

        memcpy(&word, object + at, sizeof word);
        word = translate(image, word);
        memcpy(object + at, &word, sizeof word);
    }
}

static void make_objects(struct image *image)
{
    image->libc.streams = base_calloc_aligned(1, total_bytes, "the C++ streams of a rank");
    for (size_t i = 0; i < BASE_COUNT(names); i++) {
        char *object = image->libc.streams + prototypes[i].offset;

        if (!prototypes[i].object)
            continue;
        memcpy(object, prototypes[i].object, prototypes[i].size_bytes);
        image_stream_translate(image, object, prototypes[i].size_bytes);
    }
}

void image_streams_fill(const struct image_program *program, struct image *image)
{
    if (program->n_stream_refs > 0 && !image->libc.streams)
        make_objects(image);
    for (size_t i = 0; i < program->n_stream_refs; i++) {
        const struct image_stream_ref *ref = &program->stream_refs[i];
        uintptr_t word = (uintptr_t)image->libc.streams + prototypes[ref->stream].offset + ref->addend;

        memcpy(image->base + ref->offset, &word, sizeof word);
    }
}
