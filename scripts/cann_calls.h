/* cann_calls.h - what CANN's compiler knows by itself and a host's clang++ does not: qualifiers as
 * address spaces, types of elements, pipes, events. scripts/cann_calls.py compiles kernels with it,
 * before the declarations of the calls. */
#ifndef CANN_CALLS_H
#define CANN_CALLS_H

#include <stddef.h>
#include <stdint.h>

#define __gm__ __attribute__((address_space(1)))
#define __ubuf__ __attribute__((address_space(2)))
#define __cbuf__ __attribute__((address_space(3)))
#define __ca__ __attribute__((address_space(4)))
#define __cb__ __attribute__((address_space(5)))
#define __cc__ __attribute__((address_space(6)))
#define __fbuf__ __attribute__((address_space(7)))
#define __aicore__
#define __global__ __attribute__((annotate("kernel")))
#define __vector__
#define __cube__
#define __mix__(cubes, vectors)

typedef _Float16 half;
enum class bfloat16_t : uint16_t {};
enum class int4b_t : uint8_t {};
/* Types of an architecture whose declarations stand in the same headers. */
enum class hifloat8_t : uint8_t {};
enum class fp8_e4m3fn_t : uint8_t {};
enum class fp8_e5m2_t : uint8_t {};
enum class fp8_e8m0_t : uint8_t {};
enum class fp4x2_e2m1_t : uint8_t {};
enum class fp4x2_e1m2_t : uint8_t {};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t {
    EVENT_ID0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7
};
enum class mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB, DSB_L1 };
enum ub_addr8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };
enum QuantMode_t { NoQuant, F322F16, F322BF16 };

static const bool cann_is_cube = false;
#define ASC_IS_AIC (cann_is_cube)
#define ASC_IS_AIV (!cann_is_cube)
#define ASC_UB_SIZE (192 * 1024 - 256)
#define ASC_L1_SIZE (512 * 1024 - 256)
#define ASC_C_API_MRGSORT_ELEMENT_LEN 4
#define ASC_VDEQ_SIZE 16

#endif
