/* SPDX-License-Identifier: BSD-3-Clause
 *
 * strings.c: CHARACTER arguments, and functions with special handling of texts: info values, names of
 * process sets, commands and arguments of MPI_Comm_spawn.
 */
#include "fort.h"

#include <string.h>

const char *fort_text_in(struct fort_text *text, const char *chars, size_t len, bool is_info)
{
    while (len > 0 && chars[len - 1] == ' ')
        len--;
    while (is_info && len > 0 && *chars == ' ') {
        chars++;
        len--;
    }
    text->text = len < sizeof text->few ? text->few : fort_alloc(len + 1);
    memcpy(text->text, chars, len);
    text->text[len] = '\0';
    return text->text;
}

void fort_text_drop(struct fort_text *text)
{
    if (text->text != text->few)
        free(text->text);
}

void fort_text_out(char *chars, size_t len, const char *text)
{
    size_t n = strnlen(text, len);

    memcpy(chars, text, n);
    memset(chars + n, ' ', len - n);
}

/* ---- Info values: C counts the NUL at their end, Fortran does not ---- */

static void fort_Info_get(const MPI_Fint *info, const char *key, const MPI_Fint *valuelen, char *value,
                          MPI_Fint *flag, MPI_Fint *ierror, size_t key_len, size_t value_len)
{
    struct fort_text c_key;
    char *c_value = fort_alloc(*valuelen > 0 ? (size_t)*valuelen + 1 : 1);
    int is_there = 0;
    int error = MPI_Info_get(fort_info(*info), fort_text_in(&c_key, key, key_len, true), *valuelen, c_value,
                             &is_there);

    if (error == MPI_SUCCESS && is_there)
        fort_text_out(value, value_len, c_value);
    *flag = fort_logical(is_there);
    free(c_value);
    fort_text_drop(&c_key);
    fort_return(ierror, error);
}
FORT_EXPORT(Info_get, info_get, INFO_GET);

static void fort_Info_get_string(const MPI_Fint *info, const char *key, MPI_Fint *buflen, char *value,
                                 MPI_Fint *flag, MPI_Fint *ierror, size_t key_len, size_t value_len)
{
    struct fort_text c_key;
    int c_len = *buflen > 0 ? *buflen + 1 : *buflen, is_there = 0;
    char *c_value = fort_alloc(c_len > 0 ? (size_t)c_len : 1);
    int error = MPI_Info_get_string(fort_info(*info), fort_text_in(&c_key, key, key_len, true), &c_len,
                                    c_value, &is_there);

    if (error == MPI_SUCCESS && is_there) {
        if (*buflen > 0)
            fort_text_out(value, value_len, c_value);
        *buflen = c_len - 1;
    }
    *flag = fort_logical(is_there);
    free(c_value);
    fort_text_drop(&c_key);
    fort_return(ierror, error);
}
FORT_EXPORT(Info_get_string, info_get_string, INFO_GET_STRING);

static void fort_Session_get_nth_pset(const MPI_Fint *session, const MPI_Fint *info, const MPI_Fint *n,
                                      MPI_Fint *pset_len, char *pset_name, MPI_Fint *ierror,
                                      size_t pset_name_len)
{
    int c_len = *pset_len > 0 ? *pset_len + 1 : *pset_len;
    char *c_name = fort_alloc(c_len > 0 ? (size_t)c_len : 1);
    int error = MPI_Session_get_nth_pset(fort_session(*session), fort_info(*info), *n, &c_len, c_name);

    if (error == MPI_SUCCESS) {
        if (*pset_len > 0)
            fort_text_out(pset_name, pset_name_len, c_name);
        *pset_len = c_len - 1;
    }
    free(c_name);
    fort_return(ierror, error);
}
FORT_EXPORT(Session_get_nth_pset, session_get_nth_pset, SESSION_GET_NTH_PSET);

/* ---- Commands and their arguments ---- */

static char *copy_text(const char *chars, size_t len)
{
    char *copy = fort_alloc(len + 1);

    while (len > 0 && chars[len - 1] == ' ')
        len--;
    memcpy(copy, chars, len);
    copy[len] = '\0';
    return copy;
}

/* A list of texts: element i is at chars + i * stride, and a blank one ends it. NULL-terminated, as in C. */
static char **list_in(const char *chars, size_t len, size_t stride)
{
    size_t n = 0, room = 8;
    char **list = fort_alloc(room * sizeof *list);

    for (;; n++) {
        if (n == room) {
            char **more = fort_alloc(2 * room * sizeof *list);
            memcpy(more, list, room * sizeof *list);
            free(list);
            list = more;
            room *= 2;
        }
        list[n] = copy_text(chars + n * stride, len);
        if (!*list[n])
            break;
    }
    free(list[n]);
    list[n] = NULL;
    return list;
}

static void list_drop(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

static int *errcodes(MPI_Fint *codes)
{
    return codes == &fort_common->errcodes_ignore ? MPI_ERRCODES_IGNORE : codes;
}

static void fort_Comm_spawn(const char *command, const char *argv, const MPI_Fint *maxprocs,
                            const MPI_Fint *info, const MPI_Fint *root, const MPI_Fint *comm,
                            MPI_Fint *intercomm, MPI_Fint *array_of_errcodes, MPI_Fint *ierror,
                            size_t command_len, size_t argv_len)
{
    struct fort_text c_command;
    MPI_Comm c_intercomm = MPI_COMM_NULL;
    int rank = -1, error;
    bool is_root = fort_comm(*comm) != MPI_COMM_NULL &&
                   PMPI_Comm_rank(fort_comm(*comm), &rank) == MPI_SUCCESS && rank == *root;
    char **c_argv =
        is_root && argv != &fort_common_text->argv_null ? list_in(argv, argv_len, argv_len) : MPI_ARGV_NULL;

    error = MPI_Comm_spawn(fort_text_in(&c_command, is_root ? command : "", is_root ? command_len : 0, false),
                           c_argv, *maxprocs, fort_info(*info), *root, fort_comm(*comm), &c_intercomm,
                           errcodes(array_of_errcodes));
    if (error == MPI_SUCCESS)
        *intercomm = fort_comm_int(c_intercomm);
    list_drop(c_argv);
    fort_text_drop(&c_command);
    fort_return(ierror, error);
}
FORT_EXPORT(Comm_spawn, comm_spawn, COMM_SPAWN);

/* The arguments of MPI_Comm_spawn_multiple, which only the root passes. */
struct programs {
    int n;           /* commands */
    char **commands; /* n of them */
    char ***argvs;   /* a list each, or NULL */
    MPI_Info *infos; /* n of them */
};

static struct programs programs_in(int n, const char *commands, size_t command_len, const char *argvs,
                                   size_t argv_len, const MPI_Fint *infos)
{
    struct programs programs = {.n = n};

    programs.commands = fort_alloc((size_t)n * sizeof *programs.commands);
    programs.infos = fort_alloc((size_t)n * sizeof *programs.infos);
    if (argvs != &fort_common_text->argvs_null)
        programs.argvs = fort_alloc((size_t)n * sizeof *programs.argvs);
    for (int i = 0; i < n; i++) {
        programs.commands[i] = copy_text(commands + (size_t)i * command_len, command_len);
        programs.infos[i] = fort_info(infos[i]);
        if (programs.argvs) /* argument j of command i is element (i, j) */
            programs.argvs[i] = list_in(argvs + (size_t)i * argv_len, argv_len, (size_t)n * argv_len);
    }
    return programs;
}

static void programs_drop(struct programs *programs)
{
    for (int i = 0; i < programs->n; i++) {
        free(programs->commands[i]);
        if (programs->argvs)
            list_drop(programs->argvs[i]);
    }
    free(programs->commands);
    free(programs->argvs);
    free(programs->infos);
}

static void fort_Comm_spawn_multiple(const MPI_Fint *count, const char *array_of_commands,
                                     const char *array_of_argv, const MPI_Fint *array_of_maxprocs,
                                     const MPI_Fint *array_of_info, const MPI_Fint *root,
                                     const MPI_Fint *comm, MPI_Fint *intercomm, MPI_Fint *array_of_errcodes,
                                     MPI_Fint *ierror, size_t array_of_commands_len, size_t array_of_argv_len)
{
    struct programs programs = {0};
    MPI_Comm c_intercomm = MPI_COMM_NULL;
    int rank = -1, error;

    if (fort_comm(*comm) != MPI_COMM_NULL && PMPI_Comm_rank(fort_comm(*comm), &rank) == MPI_SUCCESS &&
        rank == *root && *count > 0)
        programs = programs_in(*count, array_of_commands, array_of_commands_len, array_of_argv,
                               array_of_argv_len, array_of_info);
    error =
        MPI_Comm_spawn_multiple(*count, programs.commands, programs.argvs, array_of_maxprocs, programs.infos,
                                *root, fort_comm(*comm), &c_intercomm, errcodes(array_of_errcodes));
    if (error == MPI_SUCCESS)
        *intercomm = fort_comm_int(c_intercomm);
    programs_drop(&programs);
    fort_return(ierror, error);
}
FORT_EXPORT(Comm_spawn_multiple, comm_spawn_multiple, COMM_SPAWN_MULTIPLE);
