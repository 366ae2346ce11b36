/* relu_squared.cu - y = max(x, 0)^2. NaN stays NaN. */
#include "rows/map.cuh"

__device__ __forceinline__ static float relu(float x)
{
    return x < 0 ? 0 : x;
}

struct relu_squared_value {
    enum { IN = 1, OUT = 1 };
    __device__ __forceinline__ void operator()(const float (&in)[1], float (&out)[1]) const
    {
        out[0] = relu(in[0]) * relu(in[0]);
    }
};

struct relu_squared_gradient {
    enum { IN = 2, OUT = 1 };
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const
    {
        out[0] = 2 * in[0] * relu(in[1]);
    }
};

CUDA_OPERATOR(relu_squared_forward, TG_TAKES_FLOATS);
MAP_OPERATOR(relu_squared_forward, relu_squared_value, a->x, a->y)

CUDA_OPERATOR(relu_squared_backward, TG_TAKES_FLOATS);
MAP_OPERATOR(relu_squared_backward, relu_squared_gradient, a->dy, a->x, a->dx)
