/* tools/tigon/share/impl_device.h - implementations by name, and which device each is for. */
#ifndef TIGON_SHARE_IMPL_DEVICE_H
#define TIGON_SHARE_IMPL_DEVICE_H

#include <tigon/tigon.h>

/* Has the libraries loaded that lie beside libtigon for devices whose drivers are looked for,
 * whether those are here or not: their implementations are known from then on. */
void backends_bring(void);

/* The number of <backend>/<operator>, or a negative one. */
int impl_named(const tg_ctx *ctx, const char *backend, const char *op);

/* The name that a device's driver gives it, "NVIDIA H200"; "": none. */
const char *device_card(const char *device);

/* "cpu", "npu", "npu-model" */
const char *impl_device(int impl);

/* The device that the implementation works on in a context: its own, or, of what is made of calls
 * of other operators, the context's, on which they run. */
const char *impl_device_in(const tg_ctx *ctx, int impl);

/* 1 if the implementation works on the context's device. */
int impl_is_of(const tg_ctx *ctx, int impl);

/* The type of the memory that the implementation takes in a context, TG_DEVICE_*. */
int impl_memory(const tg_ctx *ctx, int impl);

/* NULL if the implementation can run on this machine, below ctx's ceiling; else what is missing: a
 * level of the CPU, or the device or its driver. Good until the next call. */
const char *impl_missing(const tg_ctx *ctx, int impl);

/* 1 if the implementation is the CPU's or of the context's own device: others cannot run there. */
int impl_is_here(const tg_ctx *ctx, int impl);

#endif
