/* geglu.asc.c - y = gelu(gate) up, in the tanh form and the exact one, and its gradients.
 * Arithmetic is f32 in UB.
 *
 * There is neither tanh nor erf: both forms are built from exp and a quotient, so that far below
 * zero nothing is a difference and nothing is flushed that the result does not flush. Stages stand
 * between two ASC_THEN(); of two sources of one instruction one lies LOW, one HIGH (geglu.c). */
#include "geglu.args.h"
#include "geglu_gradients.h"
#include "shared/asc_neighbours.h"
#include "shared/asc_short.h"

/* Forward, a rounding to 8 bits hides what the shortest fit is off by; backward, gelu'
 * passes through zero. */
#define gelu_forward_fit_f32 gelu_fit_of_4
#define gelu_forward_fit_bf16 gelu_fit_of_2
#define gelu_forward_fit_f16 gelu_fit_of_f16
#define gelu_backward_fit_f32 gelu_fit_of_4
#define gelu_backward_fit_bf16 gelu_fit_of_3
#define gelu_backward_fit_f16 gelu_fit_of_3

#define ASC_TEMPLATE "maps/geglu.asc.h"
#include "shared/asc_each_type.h"
