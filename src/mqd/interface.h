/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interface.h: the interface between a debugger and the library that shows it a program's message queues, as DDT and
 * TotalView use it. Names, numbers and layouts are the interface's, in its version 2.
 *
 * The debugger loads the library whose path is in the program's MPIR_dll_name, and calls the functions at the end. They read
 * the program with the debugger's functions. The debugger keeps what the library knows of an image (a program's file) and of a
 * process. Functions that return int return an mqs_ result.
 */
#ifndef MQD_INTERFACE_H
#define MQD_INTERFACE_H

#include <stddef.h>

#define MQS_INTERFACE_COMPATIBILITY 2
#define MQS_INVALID_PROCESS (-1)

enum { mqs_ok = 0, mqs_no_information = 1, mqs_end_of_list = 2, mqs_first_user_code = 100 };

typedef unsigned long mqs_taddr_t; /* an address in the program */
typedef long mqs_tword_t;

typedef struct mqs_image_ mqs_image; /* the debugger's */
typedef struct mqs_process_ mqs_process;
typedef struct mqs_type_ mqs_type;
typedef struct _mqs_image_info mqs_image_info; /* the library's */
typedef struct _mqs_process_info mqs_process_info;

typedef enum { mqs_lang_c = 'c', mqs_lang_cplus = 'C', mqs_lang_f77 = 'f', mqs_lang_f90 = 'F' } mqs_lang_code;
typedef enum { mqs_pending_sends, mqs_pending_receives, mqs_unexpected_messages } mqs_op_class;
enum mqs_status { mqs_st_pending, mqs_st_matched, mqs_st_complete };

typedef struct {
    int short_size;
    int int_size;
    int long_size;
    int long_long_size;
    int pointer_size;
    int bool_size; /* this one and the next are not filled by each debugger */
    int size_t_size;
} mqs_target_type_sizes;

typedef struct {
    mqs_taddr_t unique_id; /* the same in all processes */
    mqs_tword_t local_rank;
    mqs_tword_t size;
    char name[64];
} mqs_communicator;

typedef struct {
    int status;                      /* enum mqs_status */
    mqs_tword_t desired_local_rank;  /* of the other side, in the communicator; -1: any */
    mqs_tword_t desired_global_rank; /* ... its process */
    int tag_wild;                    /* any tag */
    mqs_tword_t desired_tag;         /* unless tag_wild */
    mqs_tword_t desired_length;
    int system_buffer; /* the buffer is not the program's */
    mqs_taddr_t buffer;
    mqs_tword_t actual_local_rank; /* from here on: of sends, and from mqs_st_matched on */
    mqs_tword_t actual_global_rank;
    mqs_tword_t actual_tag;
    mqs_tword_t actual_length;
    char extra_text[5][64]; /* for people; an empty line ends it */
} mqs_pending_operation;

/* ---- The debugger's functions ---- */

typedef struct {
    void *(*mqs_malloc_fp)(size_t n_bytes);
    void (*mqs_free_fp)(void *memory);
    void (*mqs_dprints_fp)(const char *text);
    char *(*mqs_errorstring_fp)(int code);
    void (*mqs_put_image_info_fp)(mqs_image *image, mqs_image_info *info);
    mqs_image_info *(*mqs_get_image_info_fp)(mqs_image *image);
    void (*mqs_put_process_info_fp)(mqs_process *process, mqs_process_info *info);
    mqs_process_info *(*mqs_get_process_info_fp)(mqs_process *process);
} mqs_basic_callbacks;

typedef struct {
    void (*mqs_get_type_sizes_fp)(mqs_process *process, mqs_target_type_sizes *sizes_out);
    int (*mqs_find_function_fp)(mqs_image *image, char *name, mqs_lang_code language, mqs_taddr_t *addr_out);
    int (*mqs_find_symbol_fp)(mqs_image *image, char *name, mqs_taddr_t *addr_out);
    mqs_type *(*mqs_find_type_fp)(mqs_image *image, char *name, mqs_lang_code language);
    int (*mqs_field_offset_fp)(mqs_type *type, char *field);
    int (*mqs_sizeof_fp)(mqs_type *type);
} mqs_image_callbacks;

typedef struct {
    int (*mqs_get_global_rank_fp)(mqs_process *process);
    mqs_image *(*mqs_get_image_fp)(mqs_process *process);
    int (*mqs_fetch_data_fp)(mqs_process *process, mqs_taddr_t addr, int n_bytes, void *bytes_out);
    void (*mqs_target_to_host_fp)(mqs_process *process, const void *bytes, void *bytes_out, int n_bytes);
} mqs_process_callbacks;

/* ---- The library's ---- */

#pragma GCC visibility push(default)
void mqs_setup_basic_callbacks(const mqs_basic_callbacks *callbacks);
char *mqs_version_string(void);
int mqs_version_compatibility(void);
int mqs_dll_taddr_width(void); /* sizeof(mqs_taddr_t) */
char *mqs_dll_error_string(int code);

int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks);
int mqs_image_has_queues(mqs_image *image, char **message_out); /* a message for the user; NULL: none */
void mqs_destroy_image_info(mqs_image_info *info);

int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *callbacks);
int mqs_process_has_queues(mqs_process *process, char **message_out);
void mqs_destroy_process_info(mqs_process_info *info);

/* The process has run since the last call. */
int mqs_update_communicator_list(mqs_process *process);

int mqs_setup_communicator_iterator(mqs_process *process);
int mqs_get_communicator(mqs_process *process, mqs_communicator *out);
int mqs_get_comm_group(mqs_process *process, int *global_ranks_out); /* as many as the communicator's size */
int mqs_next_communicator(mqs_process *process);

int mqs_setup_operation_iterator(mqs_process *process, int class); /* of the current communicator */
int mqs_next_operation(mqs_process *process, mqs_pending_operation *out);
#pragma GCC visibility pop

#endif
