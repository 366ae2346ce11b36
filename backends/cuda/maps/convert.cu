/* convert.cu - tensors of types and strides that kernels do not take: element by element, or 16
 * bytes at a time where the type stays and both sides have rows of whole chunks. */
#include "rows/elements.cuh"

enum { CONVERT_THREADS = 256 };

struct convert_args {
    char *to;
    const char *from;
    int64_t shape[TG_MAX_NDIM], to_stride[TG_MAX_NDIM], from_stride[TG_MAX_NDIM]; /* in elements */
    int64_t count;
    int ndim, to_type, from_type, mask;
};

/* Numbers without a fraction. */
__device__ static bool is_whole_type(int type)
{
    return type == TG_I64 || type == TG_I32 || type == TG_U8 || type == TG_BOOL;
}

__device__ static int64_t get_whole(int type, const char *data, int64_t i)
{
    return type == TG_I64   ? ((const int64_t *)data)[i]
           : type == TG_I32 ? ((const int32_t *)data)[i]
                            : ((const uint8_t *)data)[i];
}

__device__ static void put_whole(int type, char *data, int64_t i, int64_t value)
{
    if (type == TG_I64)
        ((int64_t *)data)[i] = value;
    else if (type == TG_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else
        ((uint8_t *)data)[i] = (uint8_t)value;
}

__device__ static double get_real(int type, const char *data, int64_t i)
{
    return is_whole_type(type) ? (double)get_whole(type, data, i)
           : type == TG_F64    ? ((const double *)data)[i]
           : type == TG_F32    ? ((const float *)data)[i]
           : type == TG_BF16   ? get((const bf16 *)data + i)
                               : get((const f16 *)data + i);
}

__device__ static void put_real(int type, char *data, int64_t i, double value)
{
    if (is_whole_type(type))
        put_whole(type, data, i, (int64_t)value);
    else if (type == TG_F64)
        ((double *)data)[i] = value;
    else if (type == TG_F32)
        ((float *)data)[i] = (float)value;
    else if (type == TG_BF16)
        put((bf16 *)data + i, (float)value);
    else
        put((f16 *)data + i, (float)value);
}

/* Calls each(place in `to`, place in `from`) for the elements of this thread. */
template <class EACH> __device__ static void for_elements(const convert_args &a, const EACH &each)
{
    for (int64_t k = (int64_t)blockIdx.x * CONVERT_THREADS + threadIdx.x; k < a.count;
         k += (int64_t)gridDim.x * CONVERT_THREADS) {
        int64_t rest = k, to = 0, from = 0;
        for (int d = a.ndim - 1; d >= 0; d--) {
            to += rest % a.shape[d] * a.to_stride[d];
            from += rest % a.shape[d] * a.from_stride[d];
            rest /= a.shape[d];
        }
        each(to, from);
    }
}

__global__ static void __launch_bounds__(CONVERT_THREADS) convert_kernel(const convert_args a)
{
    const bool whole = is_whole_type(a.to_type) && is_whole_type(a.from_type);
    for_elements(a, [&](int64_t to, int64_t from) {
        if (a.mask)
            put_real(a.to_type, a.to, to, get_real(a.from_type, a.from, from) != 0);
        else if (whole)
            put_whole(a.to_type, a.to, to, get_whole(a.from_type, a.from, from));
        else
            put_real(a.to_type, a.to, to, get_real(a.from_type, a.from, from));
    });
}

/* The elements are chunks. */
__global__ static void __launch_bounds__(CONVERT_THREADS) copy_chunks_kernel(const convert_args a)
{
    for_elements(
        a, [&](int64_t to, int64_t from) { ((uint4 *)a.to)[to] = ((const uint4 *)a.from)[from]; });
}

/* 1 if chunks of 16 bytes have become the elements. */
static bool as_chunks(convert_args *a)
{
    const int64_t chunk = 16 / (int64_t)tg_type_size((tg_type)a->to_type);
    const int last = a->ndim - 1;
    if (a->mask || a->to_type != a->from_type || a->ndim == 0 || a->to_stride[last] != 1 ||
        a->from_stride[last] != 1)
        return false;
    int64_t all = a->shape[last];
    for (int i = 0; i < last; i++)
        all |= a->to_stride[i] | a->from_stride[i];
    if ((all & (chunk - 1)) != 0 || ((uintptr_t)a->to | (uintptr_t)a->from) % 16 != 0)
        return false;
    for (int i = 0; i < last; i++) {
        a->to_stride[i] /= chunk;
        a->from_stride[i] /= chunk;
    }
    a->shape[last] /= chunk;
    a->count /= chunk;
    return true;
}

tg_status cuda_convert(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask)
{
    convert_args a = {};
    cuda_call call;
    a.to = data_of(to);
    a.from = data_of(from);
    a.to_type = tg_type_of(to);
    a.from_type = tg_type_of(from);
    a.mask = mask;
    a.ndim = to->ndim;
    a.count = 1;
    for (int i = 0; i < to->ndim; i++) {
        a.shape[i] = to->shape[i];
        a.to_stride[i] = to->strides[i];
        a.from_stride[i] = from->strides[i];
        a.count *= to->shape[i];
    }
    const tg_status status = cuda_begin(&call, ctx, "a conversion of an argument", to);
    if (status != TG_OK)
        return status;
    const auto kernel = as_chunks(&a) ? copy_chunks_kernel : convert_kernel;
    const int64_t blocks = min_of(ceil_div(a.count, CONVERT_THREADS), 65535);
    kernel<<<(unsigned)blocks, CONVERT_THREADS, 0, call.stream>>>(a);
    return cuda_end(&call, TG_OK);
}
