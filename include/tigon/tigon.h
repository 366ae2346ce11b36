/* tigon/tigon.h - everything a user of the library needs. (Who plans for an NPU includes tigon/npu.h besides.) */
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
