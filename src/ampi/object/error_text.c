/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error_text.c: names and sentences of the error classes (MPI 5.0, section 9.4).
 *
 * One table, ascending by class. The library returns error classes as error codes; codes above
 * MPI_ERR_LASTCODE are the running rank's own and are looked up in error_class.c.
 */
#include "ampi/object/error.h"
#include "ampi/object/error_class.h"

struct error_text {
    int error_class;
    const char *name;
    const char *sentence;
};

#define TEXT(constant, sentence_)      \
    {                                  \
        constant, #constant, sentence_ \
    }

static const struct error_text texts[] = {
    TEXT(MPI_SUCCESS, "no error"),
    TEXT(MPI_ERR_BUFFER, "the buffer pointer is invalid"),
    TEXT(MPI_ERR_COUNT, "the count argument is invalid"),
    TEXT(MPI_ERR_TYPE, "the datatype argument is invalid"),
    TEXT(MPI_ERR_TAG, "the tag argument is invalid"),
    TEXT(MPI_ERR_COMM, "the communicator is invalid"),
    TEXT(MPI_ERR_RANK, "the rank is invalid"),
    TEXT(MPI_ERR_REQUEST, "the request handle is invalid"),
    TEXT(MPI_ERR_ROOT, "the root is invalid"),
    TEXT(MPI_ERR_GROUP, "the group is invalid"),
    TEXT(MPI_ERR_OP, "the reduction operation is invalid"),
    TEXT(MPI_ERR_TOPOLOGY, "the topology is invalid"),
    TEXT(MPI_ERR_DIMS, "the dimension argument is invalid"),
    TEXT(MPI_ERR_ARG, "an argument is invalid and no other class says how"),
    TEXT(MPI_ERR_UNKNOWN, "unknown error"),
    TEXT(MPI_ERR_TRUNCATE, "the message is longer than the receive buffer"),
    TEXT(MPI_ERR_OTHER, "an error that no other class describes"),
    TEXT(MPI_ERR_INTERN, "internal error of the MPI library"),
    TEXT(MPI_ERR_PENDING, "the request is still pending"),
    TEXT(MPI_ERR_IN_STATUS, "the error codes are in the statuses"),
    TEXT(MPI_ERR_ACCESS, "permission denied"),
    TEXT(MPI_ERR_AMODE, "the access mode of the file is invalid"),
    TEXT(MPI_ERR_ASSERT, "the assertion argument is invalid"),
    TEXT(MPI_ERR_BAD_FILE, "the file name is invalid"),
    TEXT(MPI_ERR_BASE, "the base address to be freed is invalid"),
    TEXT(MPI_ERR_CONVERSION, "a data conversion function failed"),
    TEXT(MPI_ERR_DISP, "the displacement argument is invalid"),
    TEXT(MPI_ERR_DUP_DATAREP, "a data representation of this name is defined already"),
    TEXT(MPI_ERR_FILE_EXISTS, "the file exists"),
    TEXT(MPI_ERR_FILE_IN_USE, "the file is open somewhere"),
    TEXT(MPI_ERR_FILE, "the file handle is invalid"),
    TEXT(MPI_ERR_INFO_KEY, "the info key is too long or empty"),
    TEXT(MPI_ERR_INFO_NOKEY, "the info object has no such key"),
    TEXT(MPI_ERR_INFO_VALUE, "the info value is too long"),
    TEXT(MPI_ERR_INFO, "the info object is invalid"),
    TEXT(MPI_ERR_IO, "input or output failed"),
    TEXT(MPI_ERR_KEYVAL, "the attribute key is invalid"),
    TEXT(MPI_ERR_LOCKTYPE, "the lock type is invalid"),
    TEXT(MPI_ERR_NAME, "the service name is not published"),
    TEXT(MPI_ERR_NO_MEM, "there is not enough memory"),
    TEXT(MPI_ERR_NOT_SAME, "a collective argument differs between processes"),
    TEXT(MPI_ERR_NO_SPACE, "there is not enough space"),
    TEXT(MPI_ERR_NO_SUCH_FILE, "the file does not exist"),
    TEXT(MPI_ERR_PORT, "the port name is invalid"),
    TEXT(MPI_ERR_QUOTA, "the quota is exceeded"),
    TEXT(MPI_ERR_READ_ONLY, "the file or file system is read-only"),
    TEXT(MPI_ERR_RMA_ATTACH, "the memory cannot be attached to the window"),
    TEXT(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    TEXT(MPI_ERR_RMA_RANGE, "the target memory is not part of the window"),
    TEXT(MPI_ERR_RMA_SHARED, "the memory cannot be shared"),
    TEXT(MPI_ERR_RMA_SYNC, "RMA calls are synchronized wrongly"),
    TEXT(MPI_ERR_SERVICE, "the service name cannot be published or unpublished"),
    TEXT(MPI_ERR_SIZE, "the size argument is invalid"),
    TEXT(MPI_ERR_SPAWN, "processes cannot be spawned"),
    TEXT(MPI_ERR_UNSUPPORTED_DATAREP, "the data representation is not supported"),
    TEXT(MPI_ERR_UNSUPPORTED_OPERATION, "the operation is not supported"),
    TEXT(MPI_ERR_WIN, "the window is invalid"),
    TEXT(MPI_ERR_RMA_FLAVOR, "the window has the wrong flavor"),
    TEXT(MPI_ERR_PROC_ABORTED, "a peer process has aborted"),
    TEXT(MPI_ERR_VALUE_TOO_LARGE, "the value is too large for the result's type"),
    TEXT(MPI_ERR_SESSION, "the session is invalid"),
    TEXT(MPI_ERR_ERRHANDLER, "the error handler is invalid"),
    TEXT(MPI_ERR_ABI, "the ABI is not as the call needs it"),
    TEXT(MPI_T_ERR_CANNOT_INIT, "the tool interface cannot be initialized"),
    TEXT(MPI_T_ERR_NOT_ACCESSIBLE, "the variable cannot be accessed"),
    TEXT(MPI_T_ERR_NOT_INITIALIZED, "the tool interface is not initialized"),
    TEXT(MPI_T_ERR_NOT_SUPPORTED, "the tool interface does not support this"),
    TEXT(MPI_T_ERR_MEMORY, "there is not enough memory for the tool interface"),
    TEXT(MPI_T_ERR_INVALID, "an argument of a tool call is invalid"),
    TEXT(MPI_T_ERR_INVALID_INDEX, "the index of a tool call is invalid"),
    TEXT(MPI_T_ERR_INVALID_ITEM, "the item index of a tool call is invalid"),
    TEXT(MPI_T_ERR_INVALID_SESSION, "the performance session is invalid"),
    TEXT(MPI_T_ERR_INVALID_HANDLE, "the handle of a tool call is invalid"),
    TEXT(MPI_T_ERR_INVALID_NAME, "no variable or category has this name"),
    TEXT(MPI_T_ERR_OUT_OF_HANDLES, "there are no more handles"),
    TEXT(MPI_T_ERR_OUT_OF_SESSIONS, "there are no more sessions"),
    TEXT(MPI_T_ERR_CVAR_SET_NOT_NOW, "the control variable cannot be set at this moment"),
    TEXT(MPI_T_ERR_CVAR_SET_NEVER, "the control variable cannot be set"),
    TEXT(MPI_T_ERR_PVAR_NO_WRITE, "the performance variable cannot be written or reset"),
    TEXT(MPI_T_ERR_PVAR_NO_STARTSTOP, "the performance variable cannot be started or stopped"),
    TEXT(MPI_T_ERR_PVAR_NO_ATOMIC, "the performance variable cannot be read and reset atomically"),
    TEXT(MPI_ERR_LASTCODE, "the last error code of the library"),
};

static const struct error_text *find(int error_code)
{
    for (size_t i = 0; i < BASE_COUNT(texts); i++) {
        if (texts[i].error_class == error_code)
            return &texts[i];
    }
    return NULL;
}

bool ampi_error_is_predefined(int error_code)
{
    return find(error_code) != NULL;
}

const char *ampi_error_name(int error_code)
{
    const struct error_text *text = find(error_code);
    const char *user = ampi_error_user_string(error_code);

    if (text)
        return text->name;
    return user && *user ? user : "user-defined error";
}

const char *ampi_error_text(int error_code)
{
    const struct error_text *text = find(error_code);
    const char *user = ampi_error_user_string(error_code);

    if (text)
        return text->sentence;
    return user ? user : "no error class or code has this number";
}

int ampi_error_class(int error_code)
{
    return ampi_error_is_predefined(error_code) ? error_code : ampi_error_user_class(error_code);
}
