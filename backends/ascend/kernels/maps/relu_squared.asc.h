/* relu_squared.asc.h - the two kernels of one type; see asc_each_type.h. */

#define ASC_FLAT ASC_NAME(relu_squared_forward)
#define ASC_FLAT_ARGS RELU_SQUARED_FORWARD
#define ASC_FLAT_READS ASC_READ(x)
#define ASC_FLAT_WRITES ASC_WRITE(y, x32)
#define ASC_FLAT_TILE relu_squared_forward_tile(y32, x32, n)
#include "shared/asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(relu_squared_backward)
#define ASC_FLAT_ARGS RELU_SQUARED_BACKWARD
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_FLAT_WRITES ASC_WRITE(dx, dy32)
#define ASC_FLAT_TILE relu_squared_backward_tile(dx32, dy32, x32, n)
#include "shared/asc_flat.asc.h"
