/* SPDX-License-Identifier: BSD-3-Clause */
/* A library with state, which parent and children use: counts its calls. */
#ifdef __cplusplus
extern "C"
#endif
    int
    tally(void);
