/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Environment variables from the command line of mpirun. They are set in mpirun's own environment, where the search for the
 * program already sees them. Those of -x and -env belong to one program: when a further program follows (programs.c), they
 * are noted for the first one, and get back the value that they had. Called by args.c and programs.c.
 */
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text, size_t len)
{
    char *copy = strndup(text, len);
    if (copy == NULL)
        launch_fail(1, "out of memory");
    return copy;
}

void launch_append(char **list_inout, const char *separator, const char *word, size_t word_len)
{
    char *list;
    int len = asprintf(&list, "%s%s%.*s", *list_inout ? *list_inout : "", *list_inout ? separator : "",
                       (int)word_len, word);
    if (len < 0)
        launch_fail(1, "out of memory");
    free(*list_inout);
    *list_inout = list;
}

/* The program's own variable of this name; NULL: none. */
static struct launch_variable *find_own(const struct launch_command *command, const char *name)
{
    for (int i = 0; i < command->num_own; i++)
        if (strcmp(command->own[i].name, name) == 0)
            return &command->own[i];
    return NULL;
}

bool launch_variables_are_own(const struct launch_command *command, const char *name)
{
    return find_own(command, name) != NULL;
}

static void set(const char *option, const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: not a valid name of an environment variable", option, name);
}

/* True if the list of words contains the name. */
static bool contains(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; len > 0 && at != NULL && (at = strstr(at, name)) != NULL; at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

void launch_variables_set(struct launch_command *command, const char *option, const char *name,
                          size_t name_len, const char *value)
{
    char *copy = copy_text(name, name_len);
    struct launch_variable *own = find_own(command, copy);
    const char *before = own != NULL ? own->before : getenv(copy);
    if (command->num_parts > 0 && contains(command->exported, copy) && before != NULL &&
        strcmp(before, value) != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: it holds for all programs, and an earlier option sets %s=%s",
                    option, copy, copy, before);
    if (own == NULL)
        set(option, copy, value);
    else {
        free(own->before);
        own->before = copy_text(value, strlen(value));
    }
    free(copy);
    launch_append(&command->exported, " ", name, name_len);
}

void launch_variables_set_own(struct launch_command *command, const char *option, const char *name,
                              size_t name_len, const char *value)
{
    if (strncmp(name, "HEDDLE_", strlen("HEDDLE_")) == 0) { /* the settings of the job */
        launch_variables_set(command, option, name, name_len, value);
        return;
    }
    char *copy = copy_text(name, name_len);
    if (find_own(command, copy) == NULL) {
        const char *before = getenv(copy);
        command->own = realloc(command->own, ((size_t)command->num_own + 1) * sizeof command->own[0]);
        if (command->own == NULL)
            launch_fail(1, "out of memory");
        command->own[command->num_own++] =
            (struct launch_variable){copy, before ? copy_text(before, strlen(before)) : NULL};
    }
    set(option, copy, value);
}

void launch_variables_export(struct launch_command *command, const char *option, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals)
        launch_variables_set_own(command, option, text, (size_t)(equals - text), equals + 1);
    else if (text[0] == '\0')
        launch_fail(LAUNCH_EXIT_USAGE, "%s '': not a valid name of an environment variable", option);
    else if (getenv(text) != NULL)
        launch_append(&command->exported, " ", text, strlen(text));
    else if (!command->is_quiet)
        launch_say("%s %s: no such environment variable", option, text);
}

void launch_variables_export_list(struct launch_command *command, const char *option, const char *list)
{
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        char *name = copy_text(list, len);
        if (strchr(name, '=') != NULL)
            launch_fail(LAUNCH_EXIT_USAGE, "%s %s: not a valid name of an environment variable", option,
                        name);
        launch_variables_export(command, option, name);
        free(name);
    }
}

char **launch_variables_take_own(struct launch_command *command)
{
    char **taken = calloc((size_t)command->num_own + 1, sizeof taken[0]);
    if (taken == NULL)
        launch_fail(1, "out of memory");
    for (int i = 0; i < command->num_own; i++) {
        const struct launch_variable *own = &command->own[i];
        if (asprintf(&taken[i], "%s=%s", own->name, getenv(own->name)) < 0 ||
            (own->before ? setenv(own->name, own->before, 1) : unsetenv(own->name)) != 0)
            launch_fail(1, "out of memory");
        free(own->name);
        free(own->before);
    }
    free(command->own);
    command->own = NULL;
    command->num_own = 0;
    return taken;
}

void launch_preload(struct launch_command *command, const char *option, const char *file)
{
    const char *name = "LD_PRELOAD", *before = getenv(name);
    char *list;
    if (file[strcspn(file, " :")] != '\0')
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: cannot preload %s: a path with a blank or a colon", option,
                    file);
    if (asprintf(&list, "%s%s%s", file, before ? ":" : "", before ? before : "") < 0)
        launch_fail(1, "out of memory");
    launch_variables_set(command, option, name, strlen(name), list);
    setenv(name, list, 1); /* also if the program has its own value */
    free(list);
}
