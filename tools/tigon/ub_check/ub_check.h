/* tools/tigon/ub_check/ub_check.h - what the parts of `tigon ub-check` share. */
#ifndef TIGON_UB_CHECK_H
#define TIGON_UB_CHECK_H

#include <stdint.h>
#include <tigon/npu.h>

#include "formats/json.h"
#include "share/cli.h"

enum { UB_NAME = 32 };

/* A kernel declared on the command line. */
typedef struct ub_declared {
    tg_ub_kernel kernel;
    tg_ub_buffer buffer[TG_UB_BUFFERS];
    char name[TG_UB_BUFFERS][UB_NAME];
} ub_declared;

/* Where the question is asked. */
typedef struct ub_chip {
    const char *name, *source;
    int cores;
    int64_t capacity_bits;
} ub_chip;

typedef struct ub_size {
    int64_t rows, columns;
} ub_size;

/* "2048x4096"; "2x8x128": all but the last are rows; "100": one row. 0 if it is no such thing. */
int ub_parse_size(const char *text, ub_size *size);
/* "x:4x2/row@0-2"; 0 if it is no buffer. */
int ub_parse_buffer(const char *text, ub_declared *to);

/* Bytes of that UB that the kernel may use: all of it for one that a compiler lays out. */
typedef struct ub_question {
    const tg_ub_kernel *kernel;
    tg_ub_problem problem; /* on the chip asked about */
    ub_size tile;          /* asked for, or 0 */
    int ours;              /* a kernel of this library: it leaves CANN its part of the UB */
    const char *dtype;
    ub_chip chip;
} ub_question;

/* What is asked of Liger's kernels; copies of each buffer, 0: one and two. */
typedef struct ub_liger {
    ub_size size;
    int dtype_bytes;
    int64_t copies;
    const ub_chip *chip;
} ub_liger;

/* Answer on stdout, or with an object of j unless that is NULL. Return 0; 1 if it does not fit, 2
 * if the question is wrong. */
int ub_report(const cli_usage *usage, const ub_question *question, json *j);
int ub_report_liger(const cli_usage *usage, const char *name, const ub_liger *asked, int as_json);

/* All kernels and chips, on stdout; 0. */
int ub_list(int as_json);

/* The kernels of Liger that are known; NULL at the end. */
const char *ub_liger_name(int kernel);

#endif
