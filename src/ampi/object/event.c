/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.c: the table of events, for code that runs.
 */
#include "ampi/object/event.h"

#define NAMES(...) __VA_ARGS__
#define TYPE(kind, scope, name, values, text) {name, AMPI_EVENT_OF_##scope, {NAMES values}, text},

const struct ampi_event_type ampi_event_types[AMPI_EVENT_ALL_COUNT] = {AMPI_EVENTS(TYPE)
                                                                           AMPI_TIMELINE_EVENTS(TYPE)};
