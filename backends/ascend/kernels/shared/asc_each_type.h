/* asc_each_type.h - includes ASC_TEMPLATE once for each type of data. The template has
 *
 *   ASC_T                   the type: float, bfloat16_t, half
 *   ASC_NAME(x)             x_f32, x_bf16, x_f16
 *   ASC_16BIT               1 for the latter two
 *   ASC_WIDEN(dst, src, n)  to float, ASC_NARROW(dst, src, n) from it, rounded to
 *                           nearest even; 16 bit alone
 *   ASC_ROUND               how a cube core's copy out makes it of f32
 */
#define ASC_T float
#define ASC_NAME(x) x##_f32
#define ASC_16BIT 0
#define ASC_ROUND NoQuant
#include ASC_TEMPLATE
#undef ASC_T
#undef ASC_NAME
#undef ASC_16BIT
#undef ASC_ROUND

#define ASC_T bfloat16_t
#define ASC_NAME(x) x##_bf16
#define ASC_16BIT 1
#define ASC_WIDEN(dst, src, n) asc_bfloat162float(dst, src, n)
#define ASC_NARROW(dst, src, n) asc_float2bfloat16_rn(dst, src, n)
#define ASC_ROUND F322BF16
#include ASC_TEMPLATE
#undef ASC_T
#undef ASC_NAME
#undef ASC_WIDEN
#undef ASC_NARROW
#undef ASC_ROUND

#define ASC_T half
#define ASC_NAME(x) x##_f16
#define ASC_WIDEN(dst, src, n) asc_half2float(dst, src, n)
#define ASC_NARROW(dst, src, n) asc_float2half_rn(dst, src, n)
#define ASC_ROUND F322F16
#include ASC_TEMPLATE
#undef ASC_T
#undef ASC_NAME
#undef ASC_16BIT
#undef ASC_WIDEN
#undef ASC_NARROW
#undef ASC_ROUND
