/* moe_router.cu - the experts of each token, their weights, and sums for the auxiliary losses. A
 * block has a stretch of tokens and sums of its own, which depend on the number of tokens alone;
 * two small kernels add these up in order. */
#include "moe_router_totals.cuh"

enum { MOST_BLOCKS = 512 };

struct router {
    row_span logits;
    const float *bias;   /* NULL: none */
    const int64_t *mask; /* NULL: all are kept */
    int64_t *index;
    vector_span weights;
    float *lse;
    int64_t tokens, stretch; /* stretch: of a block */
    int experts, top_k, groups, groups_kept, sigmoid, two_largest, renormalise;
    float scale;
    float *sums; /* [blocks, experts + 2]: of probabilities, lse^2, and tokens; NULL: not wanted */
    int *counts; /* [blocks, experts] */
};

/* A warp's shared memory. */
struct router_room {
    float *choice;    /* [experts] */
    int *chosen;      /* [top_k] */
    unsigned *groups; /* [groups]: keys */
    int *kept;        /* [groups] */
};

static int64_t bytes_of_room(int64_t experts)
{
    return 4 * experts * (int64_t)sizeof(float);
}

/* The expert, or group, of the largest key, of equals the first; its key becomes NONE_LEFT. `best`:
 * the lane's own. */
template <int EACH> __device__ __forceinline__ int take_largest(unsigned (&keys)[EACH])
{
    const int lane = (int)threadIdx.x % WARP;
    unsigned best = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (keys[i] > best) {
            best = keys[i];
            at = i * WARP + lane;
        }
    const unsigned top = __reduce_max_sync(~0u, best);
    const int first = (int)__reduce_min_sync(~0u, best == top ? (unsigned)at : ~0u);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * WARP + lane == first)
            keys[i] = NONE_LEFT;
    return first;
}

__device__ __forceinline__ float group_score(const router &p, const float *choice, int each)
{
    float first = choice[0], second = 0;
    unsigned first_key = key_of(first), second_key = 0;
    for (int i = 1; i < each; i++) {
        const unsigned key = key_of(choice[i]);
        if (key > first_key) {
            second = first;
            second_key = first_key;
            first = choice[i];
            first_key = key;
        } else if (key > second_key) {
            second = choice[i];
            second_key = key;
        }
    }
    return first + (p.two_largest && each > 1 ? second : 0);
}

/* Takes the experts of all groups but those that are kept out of the choice. */
template <int EACH>
__device__ __forceinline__ void limit_groups(const router &p, const router_room &room,
                                             const float (&choice)[EACH], unsigned (&keys)[EACH])
{
    const int lane = (int)threadIdx.x % WARP, each = p.experts / p.groups;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * WARP + lane < p.experts)
            room.choice[i * WARP + lane] = choice[i];
    __syncwarp();
    unsigned groups[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int g = i * WARP + lane;
        groups[i] = g < p.groups ? key_of(group_score(p, room.choice + g * each, each)) : NONE_LEFT;
        if (g < p.groups)
            room.kept[g] = 0;
    }
    __syncwarp();
    for (int i = 0; i < p.groups_kept; i++) {
        const int g = take_largest(groups);
        if (lane == 0)
            room.kept[g] = 1;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * WARP + lane < p.experts && !room.kept[(i * WARP + lane) / each])
            keys[i] = NONE_LEFT;
}

/* The chosen experts, to where they are written and to shared memory. */
template <int EACH>
__device__ __forceinline__ void choose(const router &p, const router_room &room, int64_t token,
                                       const float (&x)[EACH], float max, float sum)
{
    const int lane = (int)threadIdx.x % WARP;
    unsigned keys[EACH];
    float choice[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = i * WARP + lane;
        const float score = p.sigmoid ? logistic_of(x[i]).value : exp_of(x[i] - max) / sum;
        choice[i] = score + (p.bias && e < p.experts ? p.bias[e] : 0);
        keys[i] = e < p.experts ? key_of(p.bias ? choice[i] : x[i]) : NONE_LEFT;
    }
    if (p.groups_kept < p.groups)
        limit_groups(p, room, choice, keys);
    for (int k = 0; k < p.top_k; k++) {
        const int e = take_largest(keys);
        if (lane == 0) {
            room.chosen[k] = e;
            p.index[token * p.top_k + k] = e;
        }
    }
    __syncwarp();
}

template <class T>
__device__ __forceinline__ void weigh(const router &p, const router_room &room, int64_t token,
                                      float max, float sum)
{
    const int lane = (int)threadIdx.x % WARP;
    const T *const row = p.logits.row<T>(token);
    float top = -CUDART_INF_F, all = 0;
    for (int k = lane; k < p.top_k; k += WARP)
        top = fmaxf(top, get(row + room.chosen[k]));
    top = warp_max(top);
    for (int k = lane; p.renormalise && k < p.top_k; k += WARP) {
        const float x = get(row + room.chosen[k]);
        all += p.sigmoid ? logistic_of(x).value : exp_of(x - top);
    }
    all = warp_sum(all);
    for (int k = lane; k < p.top_k; k += WARP) {
        const float x = get(row + room.chosen[k]);
        float w;
        if (p.sigmoid)
            w = logistic_of(x).value / (p.renormalise ? 1e-20f + all : 1);
        else
            w = p.renormalise ? exp_of(x - top) / all : exp_of(x - max) / sum;
        put_sum<T>(p.weights, token * p.top_k + k, p.scale * w, 0);
    }
}

/* The warps' sums of a block, in their order; shared: [warps, experts + 2], the counts behind. */
template <int EACH>
__device__ __forceinline__ void write_sums(const router &p, const float (&probs)[EACH],
                                           float squares, float kept, float *shared,
                                           const int *counts)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int width = p.experts + 2;
    float *const own = shared + warp * width;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * WARP + lane < p.experts)
            own[i * WARP + lane] = probs[i];
    if (lane == 0) {
        own[p.experts] = squares;
        own[p.experts + 1] = kept;
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < width; e += (int)blockDim.x) {
        float sum = 0;
        for (int w = 0; w < (int)blockDim.x / WARP; w++)
            sum += shared[w * width + e];
        p.sums[(int64_t)blockIdx.x * width + e] = sum;
        if (e < p.experts)
            p.counts[(int64_t)blockIdx.x * p.experts + e] = counts[e];
    }
}

template <class T, int EACH> __global__ void router_kernel(const router p)
{
    extern __shared__ float memory[];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int warps = (int)blockDim.x / WARP;
    float *const own = memory + warp * 4 * p.experts;
    const router_room room = {own, (int *)own + p.experts, (unsigned *)own + 2 * p.experts,
                              (int *)own + 3 * p.experts};
    int *const counts = (int *)memory + warps * 4 * p.experts;
    float probs[EACH] = {}, squares = 0, kept = 0;
    for (int e = (int)threadIdx.x; e < p.experts; e += (int)blockDim.x)
        counts[e] = 0;
    __syncthreads();
    const int64_t first = blockIdx.x * p.stretch, end = min(p.tokens, first + p.stretch);
    for (int64_t token = first + warp; token < end; token += warps) {
        float x[EACH], max = -CUDART_INF_F, sum = 0;
        read_logits(p.logits.row<T>(token), p.experts, x);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            max = fmaxf(max, x[i]);
        max = warp_max(max);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            sum += i * WARP + lane < p.experts ? exp_of(x[i] - max) : 0;
        sum = warp_sum(sum);
        const float lse = max + logf(sum);
        choose(p, room, token, x, max, sum);
        weigh<T>(p, room, token, max, sum);
        if (p.lse && lane == 0)
            p.lse[token] = lse;
        if (!p.sums || (p.mask && p.mask[token] == 0))
            continue;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            probs[i] += i * WARP + lane < p.experts ? exp_of(x[i] - max) / sum : 0;
        squares += lse * lse;
        kept += 1;
        for (int k = lane; k < p.top_k; k += WARP)
            atomicAdd(&counts[room.chosen[k]], 1);
        __syncwarp();
    }
    if (!p.sums)
        return;
    __syncthreads();
    write_sums(p, probs, squares, kept, memory, counts);
}

static bool wants_sums(const tg_moe_router_forward_args *a)
{
    return a->counts || a->probs || a->balance || a->z_loss;
}

/* Scratch memory of the sums. */
static bool has_sums(const cuda_call &call, router *p, router_totals *t, int blocks)
{
    const int64_t width = p->experts + 2;
    double *const total =
        (double *)cuda_host->device_workspace(call.ctx, (size_t)(2 * width) * sizeof(double));
    float *const sums = (float *)cuda_host->device_workspace(
        call.ctx, (size_t)(blocks * (width + p->experts) + 1) * sizeof(float));
    p->sums = sums;
    p->counts = (int *)(sums + blocks * width);
    t->sums = sums;
    t->counts = p->counts;
    t->blocks = blocks;
    t->experts = p->experts;
    t->total = total;
    return total && sums;
}

static router router_of(const tg_moe_router_forward_args *a)
{
    router p = {};
    p.logits = span_of(a->logits);
    p.bias = (const float *)data_of(a->bias);
    p.mask = (const int64_t *)data_of(a->mask);
    p.index = (int64_t *)data_of(a->index);
    p.weights = vector_of(a->weights);
    p.lse = (float *)data_of(a->lse);
    p.tokens = rows_of(a->logits);
    p.experts = (int)width_of(a->logits);
    p.top_k = (int)a->top_k;
    p.groups = (int)a->groups;
    p.groups_kept = (int)(a->groups_kept ? a->groups_kept : a->groups);
    p.sigmoid = a->scoring == TG_MOE_SIGMOID;
    p.two_largest = a->group_score == TG_MOE_TWO_LARGEST;
    p.renormalise = a->renormalise != 0;
    p.scale = (float)a->scale;
    return p;
}

CUDA_OPERATOR(moe_router_forward, TG_TAKES_FLOATS);

tg_status cuda_moe_router_forward(tg_ctx *ctx, const tg_moe_router_forward_args *a)
{
    cuda_call call;
    router p = router_of(a);
    router_totals t = {};
    if (width_of(a->logits) > MOST_EACH * WARP)
        return TG_EUNSUPPORTED;
    tg_status status = cuda_begin(&call, ctx, "moe_router_forward", a->logits);
    if (status != TG_OK)
        return status;
    const int warps = p.experts <= 512 ? 4 : 2;
    p.stretch = ceil_div(p.tokens, min_of(MOST_BLOCKS, ceil_div(p.tokens, warps) + 1));
    const int blocks = p.tokens > 0 ? (int)ceil_div(p.tokens, p.stretch) : 0;
    if (wants_sums(a) && !has_sums(call, &p, &t, blocks))
        return cuda_end(&call, TG_ENOMEM);
    const size_t shared =
        (size_t)(warps * bytes_of_room(p.experts + 1) + p.experts * (int64_t)sizeof(int));
    by_type(a->logits, [&](auto type) {
        by_experts(p.experts, [&](auto each) {
            if (blocks > 0)
                router_kernel<decltype(type), decltype(each)::value>
                    <<<blocks, warps * WARP, shared, call.stream>>>(p);
        });
    });
    if (wants_sums(a)) {
        t.counts_out = (int64_t *)data_of(a->counts);
        t.probs = (float *)data_of(a->probs);
        t.balance = (float *)data_of(a->balance);
        t.z_loss = (float *)data_of(a->z_loss);
        router_add<<<(unsigned)ceil_div(p.experts + 2, WARP), ADD_THREADS, 0, call.stream>>>(t);
        router_losses<<<1, WARP, 0, call.stream>>>(t);
    }
    return cuda_end(&call, TG_OK);
}
