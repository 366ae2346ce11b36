/* tools/tigon/row_device.h - which device a row is for. */
#ifndef TIGON_ROW_DEVICE_H
#define TIGON_ROW_DEVICE_H

#include <tigon/tigon.h>

/* "cpu", "npu", "npu-model" */
const char *row_device(int row);

/* The type of the memory that the row takes, TG_DEVICE_*. */
int row_memory(int row);

/* NULL if the row can run on this machine, below ctx's ceiling; else what is missing: a level of the CPU, or the device
 * or its driver. Good until the next call. */
const char *row_missing(const tg_ctx *ctx, int row);

/* 1 if the row is the CPU's or of the context's own device: others cannot run there. */
int row_is_here(const tg_ctx *ctx, int row);

#endif
