/* tigon/tigon.h - everything that a user of the library needs. Programs that plan kernels of
 * an NPU also include tigon/npu.h. */
#ifndef TIGON_TIGON_H
#define TIGON_TIGON_H

#include "tigon/context.h"
#include "tigon/ops.h"
#include "tigon/registry.h"
#include "tigon/rows.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#define TG_VERSION "0.1.0"

#endif
