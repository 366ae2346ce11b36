/* tigon/registry.h - what there is: operators with their schema, backends, implementations, devices.
 *
 * A binding in any language is generated from the schema and nothing else: every argument struct is
 * an array of 8-byte slots in schema order (pointer, double or int64_t).
 */
#ifndef TIGON_REGISTRY_H
#define TIGON_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/context.h"
#include "tigon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tg_arg_kind {
    TG_ARG_IN,
    TG_ARG_OPT,
    TG_ARG_OUT,
    TG_ARG_OUT_OPT,
    TG_ARG_F64,
    TG_ARG_I64
} tg_arg_kind;

/* What of a type an implementation sees of it. */
typedef enum tg_seen {
    TG_SEEN_AS_IS,
    TG_SEEN_T_OR_F32, /* T as it is, else f32 */
    TG_SEEN_F32,
    TG_SEEN_I64,
    TG_SEEN_MASK /* i64, 0 where it is 0 */
} tg_seen;

/* Which of the types go with T of a call. */
typedef enum tg_with {
    TG_WITH_T,        /* T alone */
    TG_WITH_T_OR_F32, /* T; f32, if T is not f64 */
    TG_WITH_T_OR_16,  /* T; 16 bits, if T is f32 */
    TG_WITH_F64,      /* f64 with f64, any other with any other */
    TG_WITH_ANY
} tg_with;

/* The element types that a tensor argument may have. */
typedef struct tg_type_rule {
    const char *name; /* "T": arguments of one name follow one rule */
    const char *text; /* the rule, for readers */
    tg_seen seen;
    tg_with with;
    int types[9]; /* tg_type; 0 behind the last */
} tg_type_rule;

/* The strides that implementations see: the column `layout` of ops.def, which tells what they are. */
typedef enum tg_arg_layout {
    TG_LAYOUT_NONE, /* not a tensor */
    TG_LAYOUT_STRIDED,
    TG_LAYOUT_ROWS,
    TG_LAYOUT_PLANES,
    TG_LAYOUT_DIM,
    TG_LAYOUT_COMPACT
} tg_arg_layout;

/* A value that an option may have. */
typedef struct tg_choice {
    const char *name; /* "mean"; NULL behind the last */
    int64_t value;
} tg_choice;

typedef struct tg_arg_info {
    const char *name;
    tg_arg_kind kind;
    int reads;                 /* an output that is read as well (TG_INOUT) */
    const char *over;          /* the input whose very buffer this output may be, or NULL */
    const tg_type_rule *types; /* of a tensor; NULL for options */
    tg_arg_layout layout;      /* of a tensor */
    const char *shape;         /* of a tensor, as ops.def writes it: "*R,N"; NULL for options */
    /* Of options, what zero in the slot means: value; or, where default_text is not NULL, what follows
     * from the call's tensors as it says; or nothing, where a value is required. TG_ZERO is zero itself. */
    double value;
    const char *default_text;
    int required;
    const tg_choice *choices; /* of an option that has these values and no others, else NULL */
} tg_arg_info;

typedef struct tg_op_info {
    const char *name;
    int nargs;
    const tg_arg_info *args;
} tg_op_info;

/* "in", "opt", "out", "out_opt", "f64", "i64" */
TG_API const char *tg_arg_kind_name(tg_arg_kind kind);
/* "strided", "rows", "planes", "dim", "compact"; "" for an option */
TG_API const char *tg_arg_layout_name(tg_arg_layout layout);

TG_API int tg_op_count(void);
TG_API const tg_op_info *tg_op_at(int id);
/* Id of an operator by name, -1 if there is none. */
TG_API int tg_op_by_name(const char *name);

/* The shape that the column `shape` of ops.def gives a tensor argument in a call: that of the first tensor given, other than itself,
 * whose shape is written by the same words; else the sizes that the tensors given tell. args: an argument struct whose tensors may be
 * NULL and need no data. shape: room for TG_MAX_NDIM sizes. TG_EINVAL if a size does not follow from what is given, such as the
 * number of rows of the table whose gradient embedding_backward computes. */
TG_API tg_status tg_output_shape(int op, const void *args, int arg, int64_t *shape, int *ndim);

/* Writes the value of a size or an option and returns 0; -1 if it has none. */
typedef int (*tg_size_fn)(void *user, const char *name, int64_t *value);
/* The shape that a text in the language of that column means for an operator, where `size` gives what each name stands for: R, of *R,
 * is one dimension, * alone none. Where there are several shapes, A | B, it is the first. */
TG_API tg_status tg_shape_of(int op, const char *text, tg_size_fn size, void *user, int64_t *shape,
                             int *ndim);

/* Calls an operator by id; args is the operator's argument struct. */
TG_API tg_status tg_call(tg_ctx *ctx, int op, const void *args);
/* The argument check alone. */
TG_API tg_status tg_check(int op, const void *args);

/* An implementation: one way to run one operator. */
typedef struct tg_impl_info {
    const char *full_name; /* "cpu/rms_norm_forward.v4" */
    const char *backend;   /* "cpu" */
    const char *variant;   /* "v4", "" */
    int op;
    uint64_t needs; /* CPU feature bits, see tg_cpu_needs() */
    uint64_t takes; /* TG_TAKES_* of tigon/backend.h */
} tg_impl_info;

/* Implementations are numbered from 0 in order of registration; plug-ins append. */
TG_API int tg_impl_count(void);
TG_API const tg_impl_info *tg_impl_at(int impl);
/* The implementation of that full name, or of that name without ".variant" the first that ctx's machine level
 * supports; -1 if there is none. A backend that is not loaded is looked for as tg_backend_named() does. */
TG_API int tg_find(const tg_ctx *ctx, const char *full_name);
/* The default implementation of an operator on the CPU, whatever backends are overlaid; -1 if there is none.
 */
TG_API int tg_default_of(const tg_ctx *ctx, const char *op);
/* 1 if ctx's machine and CPU ceiling support the implementation. */
TG_API int tg_impl_supported(const tg_ctx *ctx, int impl);
/* 1 if the implementation also accepts this problem (which must have passed tg_check()). */
TG_API int tg_impl_accepts(const tg_ctx *ctx, int impl, const void *args);
/* Checks the arguments and runs that very implementation; no fallback. */
TG_API tg_status tg_impl_run(tg_ctx *ctx, int impl, const void *args);
/* The implementations that a call of `op` tries in this context, in order: up to `max` of their numbers; returns
 * how many there are. */
TG_API int tg_resolve(tg_ctx *ctx, int op, int *impls, int max);

/* "v3", "v4 bf16" for a feature set, "" for none: the thread's own text, until its next call. */
TG_API const char *tg_cpu_needs(uint64_t needs);
/* The highest level of this machine: "v2", "v3", "v4", "v4bf16" on x86-64, "neon" on aarch64, "base"
 * elsewhere. */
TG_API const char *tg_cpu_level(void);

/* ---- backends and devices ---- */

typedef struct tg_backend_info {
    const char *vendor;
    const char *device;      /* "cpu", "npu", ... */
    int device_type;         /* of the memory its implementations take, TG_DEVICE_* */
    const char *module_path; /* file of a plug-in, "built in" otherwise */
    int impls;               /* how many it has */
} tg_backend_info;

TG_API int tg_backend_count(void);
TG_API const tg_backend_info *tg_backend_at(int backend);
/* Loads a plug-in. A name without a slash is looked for in the current folder, then by the loader's path (dlopen(3)). The log
 * tells which file it is before any of its code runs. TG_ENOTFOUND if the file cannot be loaded, TG_EABI for another ABI, TG_EINVAL
 * for a symbol with the vendor's prefix that names no operator. Loading the same file twice is
 * harmless. Never unloaded. */
TG_API tg_status tg_backend_load(const char *path);
/* Number of the first backend that serves a device, -1 if none. */
TG_API int tg_backend_for_device(const char *device);

/* Number of the backend of a vendor, -1 if there is none. One that is not loaded is looked for in libtigon_<vendor>.so, beside
 * libtigon.so, and loaded; so it is wherever else a backend is named. If that fails, tg_last_error() says why. */
TG_API int tg_backend_named(const char *vendor);

typedef struct tg_probe {
    const char *device;  /* "cuda" */
    const char *library; /* "libcuda.so.1", "" for the CPU */
    int count;           /* devices found */
    const char *why;     /* in words: "libcuda.so.1 cannot be loaded" */
    const char *name;    /* of the first device: "NVIDIA H200"; "" where the driver was not asked */
} tg_probe;

/* The device to use: the first of cuda, npu, xpu with a driver that counts at least one device,
 * else cpu. */
TG_API const char *tg_infer_device(void);
/* The probes in the order tried, made once; returns how many. */
TG_API int tg_device_probes(const tg_probe **probes);

/* "0.1.0" */
TG_API const char *tg_version(void);

#ifdef __cplusplus
}
#endif
#endif
