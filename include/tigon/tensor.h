/* tigon/tensor.h - tg_tensor: a borrowed view of memory, field for field DLPack's DLTensor.
 *
 * A tensor owns nothing: neither its data nor its shape and strides. Strides count elements; NULL
 * means compact row-major; byte_offset is added to data. Which strides operators take is told by
 * ops.h. If dlpack.h was included first, tg_tensor is a typedef of DLTensor.
 */
#ifndef TIGON_TENSOR_H
#define TIGON_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef DLPACK_DLPACK_H_
typedef DLDevice tg_device;
typedef DLDataType tg_dtype;
typedef DLTensor tg_tensor;
#else
typedef struct tg_device {
    int32_t device_type; /* TG_DEVICE_* */
    int32_t device_id;
} tg_device;

typedef struct tg_dtype {
    uint8_t code; /* DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn */
    uint8_t bits;
    uint16_t lanes; /* 1 */
} tg_dtype;

typedef struct tg_tensor {
    void *data;
    tg_device device;
    int32_t ndim;
    tg_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL = compact row-major */
    uint64_t byte_offset;
} tg_tensor;
#endif

/* Device types, with DLPack's values. */
enum {
    TG_DEVICE_CPU = 1,
    TG_DEVICE_CUDA = 2,
    TG_DEVICE_ROCM = 10,
    TG_DEVICE_EXT = 12,
    TG_DEVICE_ONEAPI = 14,
    TG_DEVICE_ASCEND = 21
};

/* Element types as one number: code | bits << 8 | lanes << 16. */
typedef enum tg_type {
    TG_F32 = 0x12002,
    TG_BF16 = 0x11004,
    TG_F16 = 0x11002,
    TG_F64 = 0x14002,   /* taken by the reference alone */
    TG_I64 = 0x14000,   /* indices, targets and masks */
    TG_I32 = 0x12000,   /* the same: they are taken as i64 */
    TG_U8 = 0x10801,    /* masks */
    TG_BOOL = 0x10806,  /* masks, a byte an element */
    TG_F8E4M3 = 0x1080a /* E4M3FN: up to 448, no infinity; of gemm_block_scaled and what it reads */
} tg_type;

enum { TG_MAX_NDIM = 8 };

/* The element type of a tensor as one number; a value outside tg_type for a type Tigon does not
 * know. */
static inline int tg_type_of(const tg_tensor *t)
{
    return (int)((unsigned)t->dtype.code | (unsigned)t->dtype.bits << 8 |
                 (unsigned)t->dtype.lanes << 16);
}

/* Bytes of one element. */
static inline size_t tg_type_size(int type)
{
    return ((unsigned)type >> 8 & 0xffu) / 8;
}

/* A compact view of host memory. `shape` is kept by pointer and must outlive the view. */
static inline tg_tensor tg_tensor_of(const void *data, tg_type type, int ndim, const int64_t *shape)
{
    tg_tensor t;
    t.data = (void *)data;
    t.device.device_type = TG_DEVICE_CPU;
    t.device.device_id = 0;
    t.ndim = ndim;
    t.dtype.code = (uint8_t)((unsigned)type & 0xffu);
    t.dtype.bits = (uint8_t)((unsigned)type >> 8 & 0xffu);
    t.dtype.lanes = (uint16_t)((unsigned)type >> 16);
    t.shape = (int64_t *)shape;
    t.strides = NULL;
    t.byte_offset = 0;
    return t;
}

/* Number of elements; 1 for a tensor of no dimensions. */
static inline int64_t tg_numel(const tg_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* Columns [start, start + count) of the last dimension, as a view. The caller lends ndim entries
 * for shape and for strides; they must outlive the view. */
static inline tg_tensor tg_tensor_slice(const tg_tensor *t, int64_t start, int64_t count,
                                        int64_t *shape, int64_t *strides)
{
    tg_tensor view = *t;
    int64_t compact = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        shape[i] = t->shape[i];
        strides[i] = t->strides ? t->strides[i] : compact;
        compact *= t->shape[i];
    }
    shape[t->ndim - 1] = count;
    view.shape = shape;
    view.strides = strides;
    view.byte_offset = t->byte_offset + (uint64_t)start * tg_type_size(tg_type_of(t));
    return view;
}

/* "f32", "bf16", "f16", "f64", "i64", "i32", "u8", "bool", "f8e4m3", or "?" for anything else. */
TG_API const char *tg_type_name(int type);

/* The type of that name; 0 if there is none. */
TG_API int tg_type_by_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
