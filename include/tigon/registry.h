/* tigon/registry.h - lists of what the library has: operators with their schema, implementations,
 * backends and devices.
 *
 * A binding to another language can be generated from the schema alone: every argument struct is an
 * array of 8-byte slots (pointer, double or int64_t) in the order of the schema.
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

/* The element type in which an implementation sees a tensor. */
typedef enum tg_seen {
    TG_SEEN_AS_IS,    /* the type that the caller gave */
    TG_SEEN_T_OR_F32, /* T if the caller gave T, else f32 */
    TG_SEEN_F32,
    TG_SEEN_I64,
    TG_SEEN_MASK /* i64: 0 where the caller's tensor is 0, another value elsewhere */
} tg_seen;

/* Which of its types a tensor may have in a call whose other tensors are of type T. */
typedef enum tg_with {
    TG_WITH_T,        /* T alone */
    TG_WITH_T_OR_F32, /* T, and f32 unless T is f64 */
    TG_WITH_T_OR_16,  /* T, and the types of 16 bits if T is f32 */
    TG_WITH_F64,      /* f64 if T is f64, else any type but f64 */
    TG_WITH_ANY
} tg_with;

/* The element types that a tensor argument may have. */
typedef struct tg_type_rule {
    const char *name; /* such as "T"; arguments with the same name follow the same rule */
    const char *text; /* the rule in words */
    tg_seen seen;
    tg_with with;
    int types[9]; /* tg_type; a 0 ends the list */
} tg_type_rule;

/* The strides that implementations see: the column `layout` of ops.def, which
 * explains the names. */
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
    const char *name; /* such as "mean"; NULL ends the list */
    int64_t value;
} tg_choice;

typedef struct tg_arg_info {
    const char *name;
    tg_arg_kind kind;
    int reads;                 /* 1: an output that is also read (TG_INOUT) */
    const char *over;          /* the input whose buffer this output may share, or NULL */
    const tg_type_rule *types; /* of a tensor; NULL for options */
    tg_arg_layout layout;      /* of a tensor */
    const char *shape;         /* of a tensor, as in ops.def: "*R,N"; NULL for options */
    /* For options: a zero in the slot stands for `value`, the default. If default_text is not NULL,
     * the default follows from the tensors of the call instead, as that text says. If `required`
     * is 1, there is no default and zero is refused. TG_ZERO passes the number zero. */
    double value;
    const char *default_text;
    int required;
    const tg_choice *choices; /* all values that the option may have; NULL: no such list */
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
/* The id of the operator with this name; -1 if there is none. */
TG_API int tg_op_by_name(const char *name);

/* The shape that a tensor argument has in a call, by the column `shape` of ops.def. If another
 * tensor of the call has the same words in that column, its shape is the answer; otherwise the
 * shape is made of the sizes that the given tensors tell.
 *   args    an argument struct; its tensors may be NULL, and they need no data
 *   arg     the number of the argument in the schema
 *   shape   has room for TG_MAX_NDIM sizes
 * TG_EINVAL if a size does not follow from the given tensors, such as the number of rows of the
 * table whose gradient embedding_backward computes. */
TG_API tg_status tg_output_shape(int op, const void *args, int arg, int64_t *shape, int *ndim);

/* Writes the value of a size or of an option and returns 0; returns -1 if it has no value. */
typedef int (*tg_size_fn)(void *user, const char *name, int64_t *value);
/* The shape that a text in the language of that column means. `size` gives the value of each name.
 * *R counts as one dimension of size R, * as no dimension; of several shapes, A | B, the first is
 * taken. */
TG_API tg_status tg_shape_of(int op, const char *text, tg_size_fn size, void *user, int64_t *shape,
                             int *ndim);

/* Calls the operator with this id; args is its argument struct. */
TG_API tg_status tg_call(tg_ctx *ctx, int op, const void *args);
/* Checks the arguments as a call would, and runs nothing. */
TG_API tg_status tg_check(int op, const void *args);

/* An implementation is one way to run one operator. */
typedef struct tg_impl_info {
    const char *full_name; /* "cpu/rms_norm_forward.v4" */
    const char *backend;   /* "cpu" */
    const char *variant;   /* "v4", "" */
    int op;
    uint64_t needs; /* CPU features, as bits; tg_cpu_needs() gives their names */
    uint64_t takes; /* TG_TAKES_* of tigon/backend.h */
} tg_impl_info;

/* Implementations are numbered from 0 in the order of their registration; those of a plug-in follow
 * all that were there before. */
TG_API int tg_impl_count(void);
TG_API const tg_impl_info *tg_impl_at(int impl);
/* The number of the implementation with this full name; -1 if there is none. If the name lacks its
 * ".variant", it is the first variant that the machine and the CPU ceiling of ctx support. A
 * backend that is not loaded is searched for as in tg_backend_named(). */
TG_API int tg_find(const tg_ctx *ctx, const char *full_name);
/* The library's own implementation of an operator on the CPU, whichever other backends are loaded;
 * -1 if there is none. */
TG_API int tg_default_of(const tg_ctx *ctx, const char *op);
/* 1 if the machine and the CPU ceiling of ctx support the implementation, and ctx has the operators
 * that it is made of, if it is made of any. */
TG_API int tg_impl_supported(const tg_ctx *ctx, int impl);
/* 1 if the implementation also accepts these arguments, which must have passed tg_check(). */
TG_API int tg_impl_accepts(const tg_ctx *ctx, int impl, const void *args);
/* Checks the arguments and runs this implementation. There is no fallback. */
TG_API tg_status tg_impl_run(tg_ctx *ctx, int impl, const void *args);
/* The implementations that a call of `op` tries in this context, in their order. Writes up to `max`
 * numbers and returns how many implementations there are. */
TG_API int tg_resolve(tg_ctx *ctx, int op, int *impls, int max);

/* The names of the features in `needs`, such as "v3" or "v4 bf16"; "" if there are none. The text
 * belongs to the calling thread and is valid until its next call of this function. */
TG_API const char *tg_cpu_needs(uint64_t needs);
/* The highest level that this machine supports: "v2", "v3", "v4" or "v4bf16" on x86-64, "neon" on
 * aarch64, "base" elsewhere. */
TG_API const char *tg_cpu_level(void);

/* ---- backends and devices ---- */

typedef struct tg_backend_info {
    const char *vendor;
    const char *device;      /* "cpu", "npu", ... */
    int device_type;         /* TG_DEVICE_* of the memory that its implementations work in */
    const char *module_path; /* the plug-in's file, or "built in" */
    int impls;               /* number of its implementations */
} tg_backend_info;

TG_API int tg_backend_count(void);
TG_API const tg_backend_info *tg_backend_at(int backend);
/* Loads a plug-in. A name without a slash is searched for in the current folder, then along the
 * path of the dynamic loader (dlopen(3)). The log names the file before any of its code runs. A
 * plug-in is never unloaded; loading the same file again changes nothing.
 * Errors: TG_ENOTFOUND if the file cannot be loaded; TG_EABI if it was built for another ABI;
 * TG_EINVAL if it exports a symbol that has the vendor's prefix and names no operator. */
TG_API tg_status tg_backend_load(const char *path);
/* The number of the first backend that serves a device; -1 if there is none. */
TG_API int tg_backend_for_device(const char *device);

/* The number of a vendor's backend; -1 if there is none. If the backend is not loaded yet,
 * libtigon_<vendor>.so is searched for beside libtigon.so and loaded, as it is wherever else a
 * backend is named. If that fails, tg_last_error() says why. */
TG_API int tg_backend_named(const char *vendor);

typedef struct tg_probe {
    const char *device;  /* such as "cuda" */
    const char *library; /* the driver's library, such as "libcuda.so.1"; "" for the CPU */
    int count;           /* number of devices found */
    const char *why;     /* the result in words, such as "libcuda.so.1 cannot be loaded" */
    const char *name;    /* of the first device: "NVIDIA H200"; "" if the driver was not asked */
} tg_probe;

/* The device that a context chooses by itself: the first of cuda, npu and xpu whose driver counts
 * at least one device, else cpu. */
TG_API const char *tg_infer_device(void);
/* The results of the search for devices, in its order; returns their number. The search runs once
 * in a process. */
TG_API int tg_device_probes(const tg_probe **probes);

/* The version of the library that is loaded, such as "0.1.0". */
TG_API const char *tg_version(void);

#ifdef __cplusplus
}
#endif
#endif
