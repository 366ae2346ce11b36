/* The layout of DLPack's DLTensor, written down from its specification: what
 * tg_tensor must agree with. */
#ifndef DLPACK_LAYOUT_H
#define DLPACK_LAYOUT_H

#include <stdint.h>

typedef struct {
    int32_t device_type, device_id;
} DLDevice;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

#endif
