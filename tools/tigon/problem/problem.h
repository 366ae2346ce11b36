/* tools/tigon/problem/problem.h - problems: an operator's arguments, made from the
 * cases of its family.
 *
 * The lines of src/ops/<family>/<family>_cases.inc are read into a catalogue;
 * docs/add-an-operator.md describes their language. A problem is one operator with one case, its
 * tensors allocated and filled:
 *
 *   char error[PB_ERROR];
 *   const catalogue *cat = catalogue_get(error);                         NULL: error says why
 *   const pb_op *op = catalogue_op(cat, tg_op_by_name("rms_norm_forward"));
 *   pb_case c;
 *   pb_case_parse(cat, op->group, "R=64 N=1024", &c, error);             or a case of the catalogue
 *   problem *p = problem_create(cat, op, &c, &(pb_options){.type = TG_BF16, .seed = 1}, error);
 *   tg_call(ctx, op->id, problem_args(p));
 *   problem_free(p);
 */
#ifndef TIGON_PROBLEM_H
#define TIGON_PROBLEM_H

#include <stddef.h>
#include <stdint.h>
#include <tigon/tigon.h>

enum {
    PB_ERROR = 512, /* bytes of an error message */
    PB_NAME = 40,   /* bytes of a name */
    PB_EXPR = 64,   /* bytes of an expression */
    PB_ARGS = 32,   /* most arguments of an operator */
    PB_TOKENS = 48, /* most tokens of a case */
    PB_TEXT = 512   /* bytes of a case's text */
};

/* ---- the catalogue ---- */

/* One tensor argument, as ops.def and TG_ARGS tell: name[shape]<limit!fill~k^k%size */
typedef struct pb_decl {
    char name[PB_NAME];
    int slot;            /* in the operator's argument struct */
    char symbol;         /* 'T', 'W' or 'G'; 0: `type` is fixed */
    int type;            /* tg_type, for symbol 0 */
    char shape[PB_EXPR]; /* in the language of ops.def */
    char limit[PB_EXPR]; /* integers in [0, limit); "" otherwise */
    char fill[PB_NAME];  /* default fill; "" is normal */
    /* Expressions; "" is 1 rounding and 0 of the others. */
    char roundings[PB_EXPR]; /* ~: roundings to the output's type that the definition allows */
    /* ^: roundings of intermediates to T that it allows; of an input, 1: it is a factor of such */
    char inside[PB_EXPR];
    char magnitude[PB_EXPR]; /* %: size of f32 intermediates that cancel in the result */
    char cancelled[PB_EXPR]; /* $: that of intermediates rounded to T whose sum it is */
    char coarse[PB_EXPR];    /* &: % where probabilities are powers of rounded logarithms */
} pb_decl;

typedef struct pb_op {
    int id; /* of the operator */
    const tg_op_info *info;
    const char *group;
    int ntensors;
    pb_decl tensor[PB_ARGS];
    const char *bytes, *flops; /* expressions of TG_WORK; NULL: the default */
    /* Products that the operator is made of, with ';' between: "M,N,K", "M,N,K,count" or
     * "M,N,K,count,nt" (which of the two are transposed; a, b: as trans_a, trans_b say), with "dx?"
     * before one that runs only if dx is asked for. NULL: none. flops: those of the products. */
    const char *gemm;
    double flush; /* of TG_FLUSH: what is smaller may be taken for 0 within; 0: nothing */
} pb_op;

typedef enum pb_token_kind {
    PB_SET,    /* R=3, eps=1e-5 */
    PB_DROP,   /* -weight */
    PB_FILL,   /* x!outlier */
    PB_OVER,   /* y@x */
    PB_BESIDE, /* gate|up: neighbouring columns of one buffer */
    PB_SHAPE,  /* x[2,3,N] */
    PB_TYPE,   /* dlogits:bf16 */
    PB_EXPAND, /* dy^0,1: repeated along dimensions */
    PB_SLICE,  /* logits+1: of a buffer that is longer by so much in dimension 1 */
    PB_FLAG    /* nofd */
} pb_token_kind;

typedef struct pb_token {
    pb_token_kind kind;
    char name[PB_NAME];
    char value[PB_EXPR];
} pb_token;

/* One case: a line of TG_CASE, TG_BENCH or TG_HARD, or any text in the same language. */
typedef struct pb_case {
    const char *group;
    const char *bench; /* the size's name for TG_BENCH, else NULL */
    const char *hard;  /* for TG_HARD: what is hard about it, else NULL */
    int line;          /* in the family's file; 0 for other texts */
    char text[PB_TEXT];
    int ntokens;
    pb_token token[PB_TOKENS];
} pb_case;

typedef struct catalogue {
    int nops, ncases, nhard; /* benchmark sizes are cases with `bench` set */
    pb_op *ops;
    pb_case *cases;
    pb_case *hard; /* of TG_HARD: for `tigon numerics` alone */
} catalogue;

/* All problems of this build, read once. NULL after an error in a family's file. */
const catalogue *catalogue_get(char *error);
/* 1 if the tensor has columns, and so many as that size says. */
int pb_has_columns(const pb_decl *d, const char *size);
/* The problem of an operator, NULL if its family has none. */
const pb_op *catalogue_op(const catalogue *cat, int op);
/* Group names compare with strcmp; "rms_norm" is the group of rms_norm_forward. */
int pb_same_group(const char *a, const char *b);
/* The case is one of the operator's group, and "only=backward" names the end of its name. */
int pb_case_is_for(const pb_op *op, const pb_case *c);

/* Reads a case; a later token overrides an earlier one, so that "N=1024" can be appended to a text.
 * 0, or -1 with the error. */
int pb_case_parse(const catalogue *cat, const char *group, const char *text, pb_case *c,
                  char *error);
/* The value of a dimension or option in the case; 0 if it is not set. */
double pb_case_value(const pb_case *c, const char *name);
int pb_case_flag(const pb_case *c, const char *flag);
/* 1 if the case leaves out that optional tensor. */
int pb_case_drops(const pb_case *c, const char *name);
/* 1 if the case's types= names the type, or it has none. */
int pb_case_takes(const pb_case *c, int type);

/* Takes away all tokens of a kind with that name (NULL: any name), or adds one behind the others
 * (value "" for those without). The text follows. */
void pb_case_remove(pb_case *c, pb_token_kind kind, const char *name);
void pb_case_add(pb_case *c, pb_token_kind kind, const char *name, const char *value);
/* "R=3", but not the types "W=f32" and "G=f32". */
int pb_is_dimension(const pb_token *t);

/* ---- problems ---- */

typedef enum pb_saved {
    PB_SAVED_REF, /* tensors saved by the forward come from `ref` in f64, rounded once (checker) */
    PB_SAVED_CALL /* from a call of the forward operator in the problem's own types (benchmark) */
} pb_saved;

typedef struct pb_options {
    int type; /* T: TG_F32, TG_BF16, TG_F16; TG_F64: all floating tensors are f64 */
    uint64_t seed;
    pb_saved saved;
    tg_ctx *ctx; /* runs the forward that saves tensors; needed for PB_SAVED_CALL */
    int guard;   /* bytes of guard zone around each buffer and poison in outputs */
    int hollow;  /* only integers have values: for questions about shapes */
    size_t most; /* bytes; what takes more is not made. 0: any */
} pb_options;

/* A buffer: guard, elements (with the padding of rows), guard. Two tensors may share one. */
typedef struct pb_buffer {
    unsigned char *base, *initial; /* initial: the bytes before the first run */
    size_t bytes;
} pb_buffer;

typedef struct pb_tensor {
    const pb_decl *decl;
    int present;
    int written, read; /* by the operator */
    int buffer;        /* number in problem.buffer */
    int over;          /* in place of another tensor */
    tg_tensor view;
    int64_t shape[TG_MAX_NDIM], strides[TG_MAX_NDIM];
    int64_t limit; /* integers in [0, limit) */
} pb_tensor;

typedef struct pb_device pb_device; /* the problem's memory on a device */

typedef struct problem {
    const pb_op *op;
    const pb_case *c;
    int type; /* T */
    int guard;
    union {
        void *ptr;
        double f64;
        int64_t i64;
    } slot[PB_ARGS]; /* the argument struct */
    int nbuffers;
    pb_buffer buffer[PB_ARGS];
    pb_tensor tensor[PB_ARGS]; /* as op->tensor */
    pb_device *device;         /* NULL: it has none */
    struct problem *lender;    /* whose tensors some slots hold (benchmark); NULL: nobody's */
} problem;

/* NULL with the error if the case does not fit the operator or memory is short, and with "" if it
 * takes more than options->most. */
problem *problem_create(const catalogue *cat, const pb_op *op, const pb_case *c,
                        const pb_options *options, char *error);
/* The same problem with all floating tensors in another type (f64, f32): the
 * values are converted. */
problem *problem_convert(const problem *p, int type, char *error);
void problem_free(problem *p);

/* ---- calls, wherever their tensors must lie ----
 *
 * A problem's bytes are the host's. For an implementation of a device with memory of its own they
 * are copied there before the call, and back when it has ended, whose errors are the call's. The
 * context must outlive the problem, or problem_leave() comes first.
 */
tg_status problem_run_impl(tg_ctx *ctx, int impl, problem *p); /* tg_impl_run() */
/* The same with arguments of one's own, in host memory. The thread's floating-point modes are kept
 * in both: an implementation that turns on traps must not end the program. */
tg_status problem_run_args(tg_ctx *ctx, int impl, const void *args);
tg_status problem_call(tg_ctx *ctx, problem *p);             /* tg_call() */
int problem_impl_accepts(tg_ctx *ctx, int impl, problem *p); /* tg_impl_accepts() */
/* What has run once, from a graph that the call is recorded into. *recorded: 0 where the device
 * records nothing, and nothing has run. */
tg_status problem_replay_impl(tg_ctx *ctx, int impl, problem *p, int *recorded);

/* The same in steps, for calls without copies: does problem_call() run in the device's memory? Then
 * place it there once, and call with these arguments. */
int problem_runs_there(tg_ctx *ctx, const problem *p);
tg_status problem_place(tg_ctx *ctx, problem *p);
const void *problem_device_args(problem *p);
void problem_leave(problem *p);

/* The argument struct, for tg_call, tg_check, tg_impl_run. */
const void *problem_args(const problem *p);
/* A tensor by its argument's name; NULL if the problem has none of that name or it is dropped. */
const pb_tensor *problem_tensor(const problem *p, const char *name);
/* All bytes as before the first run: outputs poisoned, tensors updated in place refilled. */
void problem_reset(problem *p);

/* Value of an expression over the case's dimensions and options, ESIZE, WSIZE and GSIZE (bytes of
 * one element of T, W, G), and tensors: the size of the largest element, 1 of one that is left
 * out. 0, or -1 with the error. */
int problem_value(const problem *p, const char *expression, double *value, char *error);
/* Elements of an argument in the problem's case, which need not have been made;
 * 0 if it has none. */
double problem_elements(const problem *p, const pb_decl *d);
/* Bytes that a run must move: TG_WORK, or every input once and every output once. */
double problem_bytes(const problem *p);
/* Floating-point operations of TG_WORK; 0 by default. */
double problem_flops(const problem *p);
/* Bytes of all tensors. */
size_t problem_memory(const problem *p);
/* "R=64 N=1024": dimensions alone */
void problem_shape(const problem *p, char *text, size_t size);

/* ---- elements ---- */

/* 1 for indices, labels and masks, whatever type a case gives them. */
int pb_is_integer(const pb_decl *d);
/* Element type of T, W and G in a case where T is `type`. */
int pb_type_of_symbol(const pb_case *c, char symbol, int type);
/* Element i of the tensor in row-major order of its shape, as double, and back, rounded once. */
double pb_get(const pb_tensor *t, int64_t i);
void pb_set(const pb_tensor *t, int64_t i, double value);
/* All elements in row-major order; x has room for tg_numel(&t->view). */
void pb_read(const pb_tensor *t, double *x);
void pb_write(const pb_tensor *t, const double *x);
/* All elements of from, rounded to the type of to, which has its shape. */
void pb_copy(const pb_tensor *to, const pb_tensor *from);
/* Each row of the last dimension, or each element where that is repeated: its address, the number
 * of its first element in row-major order, its elements. */
typedef void (*pb_row_fn)(void *arg, char *row, int64_t first, int64_t cols);
void pb_each_row(const pb_tensor *t, pb_row_fn fn, void *arg);
/* A value rounded to a type, to nearest even. */
double pb_round(int type, double value);
/* Value of an element's bytes, and back. */
double pb_load(int type, const void *at);
void pb_store(int type, void *at, double value);

#endif
