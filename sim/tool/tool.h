/* tool.h - the sub-commands of ascsim. Each returns an exit status: 0 clean, 1 faults or a miss, 2
 * a bad request. */
#ifndef TOOL_H
#define TOOL_H

#include "ascsim.h"

typedef enum tool_status { TOOL_CLEAN, TOOL_FAULTS, TOOL_BAD } tool_status;

int tool_chips(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_validate(int argc, char **argv);
int tool_flags(int argc, char **argv);
int tool_lint(int argc, char **argv);

/* To stderr, "ascsim: ..."; returns TOOL_BAD. */
int tool_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The value of an option: argv[++*at]; NULL after saying that it is missing. */
const char *tool_value(int argc, char **argv, int *at);

/* compile.c: runs the compiler; read() is given what it writes to `descriptor`. Its exit status,
 * -1: it did not run. */
int tool_compile(char *const argv[], int descriptor, void (*read)(FILE *, void *), void *by);

/* foreign.c: how much of a kernel's own source, as `compile` with -E lets it be read, calls
 * something that no header declares; each is told. headers: the folder of those that may. -1: the
 * compiler did not run. */
int tool_foreign(char *const compile[], const char *headers);

/* signature.c: a parameter of a kernel. bytes: of an integer, a float, or what a pointer points at;
 * 0: not told. */
typedef enum tool_kind { TOOL_POINTER, TOOL_INTEGER, TOOL_FLOAT, TOOL_OTHER } tool_kind;
typedef struct tool_parameter {
    tool_kind kind;
    int bytes;
    char name[64];
} tool_parameter;
/* The number of parameters, at most `room` of which are told; -1: the library does not tell
 * them. */
int tool_signature(const char *library, const char *function, tool_parameter *list, int room);

/* buffers.c: a --arg of run */
typedef struct tool_buffer {
    ascsim_arg arg;
    const char *spec;
    int type; /* of the elements; a buffer if elements >= 0 */
    int64_t elements;
    void *memory;
    int64_t print; /* elements to be printed after the run */
    const char *save;
} tool_buffer;
int tool_buffer_parse(tool_buffer *buffer, ascsim *device, const char *spec,
                      uint64_t seed);                         /* 0, or TOOL_BAD */
int tool_buffer_finish(const tool_buffer *buffer, int index); /* prints, saves */
/* Whether a --arg of this text suits a parameter. */
int tool_buffer_suits(const char *spec, const tool_parameter *parameter);

/* validate.c, validate_cube.c */
void tool_print_pair(FILE *out, double published, double modelled, int digits);
int tool_wanted(const char *example, int count,
                char **names); /* it begins with one; or none is given */
/* The examples of the cube core, behind those of the vector core if there are any. Returns how
 * many, or -1. */
int tool_print_cube_table(FILE *out, int count, char **names, int behind);

#endif
