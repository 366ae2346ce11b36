/* flash_attention_graph.c - attention as a graph of small operations on tensors that exist on paper
 * alone. cuDNN has one kernel for a graph of this form. */
#include "flash_attention_graph.h"

#include <string.h>

dnn_library cuda_dnn;

/* Its tensors, by their ids: those that are passed, then those on paper, of S S: [B,H,S,L], of
 * rows: [B,H,S,1]. Q is no operation's second or third: 0 stands for none there. */
enum {
    Q,
    K,
    V,
    Y,
    LSE,
    SCALE,
    HIDDEN,
    /* S S: */ SCORES,
    SCALED,
    ROW,
    COLUMN,
    SEEN,
    MASKED,
    SHIFTED,
    POWERS,
    P,
    /* rows: */ MOST,
    SUM,
    LOG,
    TENSORS
};
enum { CONFIGS = 4 };

typedef struct operation {
    int kind, mode, x, b, t, y;
    int64_t axis;
} operation;

/* Of the mask these: where the index of the row is not below that of the column the score stays,
 * elsewhere it is -inf. */
enum { MASK_BEGINS = 2, MASK_ENDS = 6 };
static const operation operations[] = {
    {.kind = DNN_OP_MATMUL, .x = Q, .b = K, .y = SCORES},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_MUL, .x = SCORES, .b = SCALE, .y = SCALED},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_INDEX, .x = SCALED, .y = ROW, .axis = 2},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_INDEX, .x = SCALED, .y = COLUMN, .axis = 3},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_GE, .x = ROW, .b = COLUMN, .y = SEEN},
    {.kind = DNN_OP_POINTWISE,
     .mode = DNN_SELECT,
     .x = SCALED,
     .b = HIDDEN,
     .t = SEEN,
     .y = MASKED},
    {.kind = DNN_OP_REDUCTION, .mode = DNN_MAX, .x = MASKED, .y = MOST},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_SUB, .x = MASKED, .b = MOST, .y = SHIFTED},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_EXP, .x = SHIFTED, .y = POWERS},
    {.kind = DNN_OP_REDUCTION, .mode = DNN_SUM, .x = POWERS, .y = SUM},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_LOG, .x = SUM, .y = LOG},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_ADD, .x = MOST, .b = LOG, .y = LSE},
    {.kind = DNN_OP_POINTWISE, .mode = DNN_DIV, .x = POWERS, .b = SUM, .y = P},
    {.kind = DNN_OP_MATMUL, .x = P, .b = V, .y = Y},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* From the first failure on `usable` is 0, and nothing more is done. */
static dnn_descriptor make(flash_plan *p, int type)
{
    dnn_descriptor d = NULL;
    p->usable = p->usable && p->count < FLASH_MOST_DESCRIPTORS &&
                cuda_dnn.cudnnBackendCreateDescriptor(type, &d) == DNN_OK;
    if (p->usable)
        p->descriptors[p->count++] = d;
    return d;
}

static void set(flash_plan *p, dnn_descriptor d, int name, int type, int64_t count,
                const void *values)
{
    p->usable =
        p->usable && cuda_dnn.cudnnBackendSetAttribute(d, name, type, count, values) == DNN_OK;
}

static void set_one(flash_plan *p, dnn_descriptor d, int name, dnn_descriptor value)
{
    set(p, d, name, DNN_OF_DESCRIPTOR, 1, &value);
}

static void finalize(flash_plan *p, dnn_descriptor d)
{
    p->usable = p->usable && cuda_dnn.cudnnBackendFinalize(d) == DNN_OK;
}

static dnn_descriptor make_tensor(flash_plan *p, int64_t id)
{
    const flash_shape *s = &p->of;
    const int64_t sixteen = 16;
    const char yes = 1; /* a bool */
    int64_t sizes[4] = {s->batches, s->heads, s->queries, id < MOST ? s->keys : 1};
    int type = DNN_F32;
    if (id <= V || id == Y || id == P)
        type = s->type == TG_BF16 ? DNN_BF16 : DNN_F16;
    if (id == ROW || id == COLUMN)
        type = DNN_I32;
    if (id == SEEN)
        type = DNN_BOOL;
    if (id == LSE)
        sizes[3] = 1;
    if (id == SCALE || id == HIDDEN)
        sizes[0] = sizes[1] = sizes[2] = sizes[3] = 1;
    int64_t strides[4] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    if (id <= Y) {
        sizes[3] = s->d;
        memcpy(strides, s->strides[id], sizeof s->strides[0]);
    }
    if (id == K || id == V) {
        sizes[1] = s->key_heads;
        sizes[2] = s->keys;
    }
    if (id == K) { /* its transpose */
        sizes[2] = s->d;
        sizes[3] = s->keys;
        strides[3] = strides[2];
        strides[2] = 1;
    }
    const dnn_descriptor d = make(p, DNN_TENSOR);
    set(p, d, DNN_TENSOR_TYPE, DNN_OF_TYPE, 1, &type);
    set(p, d, DNN_TENSOR_SHAPE, DNN_OF_I64, 4, sizes);
    set(p, d, DNN_TENSOR_STRIDES, DNN_OF_I64, 4, strides);
    set(p, d, DNN_TENSOR_ID, DNN_OF_I64, 1, &id);
    set(p, d, DNN_TENSOR_ALIGNMENT, DNN_OF_I64, 1, &sixteen);
    if (id >= FLASH_REAL)
        set(p, d, DNN_TENSOR_VIRTUAL, DNN_OF_BOOL, 1, &yes);
    if (id == SCALE || id == HIDDEN)
        set(p, d, DNN_TENSOR_BY_VALUE, DNN_OF_BOOL, 1, &yes);
    finalize(p, d);
    return d;
}

static dnn_descriptor make_operation(flash_plan *p, const operation *o,
                                     const dnn_descriptor *tensors)
{
    const int precision = o->mode == DNN_GE ? DNN_BOOL : DNN_F32;
    const int product = o->kind == DNN_OP_MATMUL, pointwise = o->kind == DNN_OP_POINTWISE;
    const dnn_descriptor how = make(p, product     ? DNN_MATMUL
                                       : pointwise ? DNN_POINTWISE
                                                   : DNN_REDUCTION);
    set(p, how,
        product     ? DNN_MATMUL_PRECISION
        : pointwise ? DNN_POINTWISE_PRECISION
                    : DNN_REDUCTION_PRECISION,
        DNN_OF_TYPE, 1, &precision);
    if (!product)
        set(p, how, pointwise ? DNN_POINTWISE_MODE : DNN_REDUCTION_MODE,
            pointwise ? DNN_OF_POINTWISE_MODE : DNN_OF_REDUCTION, 1, &o->mode);
    if (o->axis)
        set(p, how, DNN_POINTWISE_AXIS, DNN_OF_I64, 1, &o->axis);
    finalize(p, how);
    const dnn_descriptor d = make(p, o->kind);
    const int of_product[] = {DNN_OP_MATMUL_DESC, DNN_OP_MATMUL_A, DNN_OP_MATMUL_B,
                              DNN_OP_MATMUL_C};
    const int of_pointwise[] = {DNN_OP_POINTWISE_DESC, DNN_OP_POINTWISE_X, DNN_OP_POINTWISE_B,
                                DNN_OP_POINTWISE_Y};
    const int of_reduction[] = {DNN_OP_REDUCTION_DESC, DNN_OP_REDUCTION_X, 0, DNN_OP_REDUCTION_Y};
    const int *names = product ? of_product : pointwise ? of_pointwise : of_reduction;
    set_one(p, d, names[0], how);
    set_one(p, d, names[1], tensors[o->x]);
    if (o->b)
        set_one(p, d, names[2], tensors[o->b]);
    set_one(p, d, names[3], tensors[o->y]);
    if (o->t)
        set_one(p, d, DNN_OP_POINTWISE_T, tensors[o->t]);
    finalize(p, d);
    return d;
}

static dnn_descriptor make_graph(flash_plan *p, dnn_handle handle)
{
    dnn_descriptor tensors[TENSORS], list[OPERATIONS];
    int64_t count = 0;
    for (int id = 0; id < TENSORS; id++)
        if (p->of.causal || (id != HIDDEN && id != MASKED && (id < ROW || id > SEEN)))
            tensors[id] = make_tensor(p, id);
    if (!p->of.causal)
        tensors[MASKED] = tensors[SCALED];
    for (int i = 0; i < OPERATIONS; i++)
        if (p->of.causal || i < MASK_BEGINS || i >= MASK_ENDS)
            list[count++] = make_operation(p, &operations[i], tensors);
    const dnn_descriptor graph = make(p, DNN_GRAPH);
    set(p, graph, DNN_GRAPH_OPS, DNN_OF_DESCRIPTOR, count, list);
    set(p, graph, DNN_GRAPH_HANDLE, DNN_OF_HANDLE, 1, &handle);
    finalize(p, graph);
    return graph;
}

/* The first of the library's suggestions that it can make a plan of. */
void flash_make_plan(flash_plan *p, dnn_handle handle)
{
    const int mode = DNN_HEUR_A;
    dnn_descriptor configs[CONFIGS];
    int64_t count = 0;
    const dnn_descriptor graph = make_graph(p, handle), heuristic = make(p, DNN_HEUR);
    set_one(p, heuristic, DNN_HEUR_GRAPH, graph);
    set(p, heuristic, DNN_HEUR_MODE, DNN_OF_HEUR_MODE, 1, &mode);
    finalize(p, heuristic);
    for (int i = 0; i < CONFIGS; i++)
        configs[i] = make(p, DNN_CONFIG);
    p->usable = p->usable &&
                cuda_dnn.cudnnBackendGetAttribute(heuristic, DNN_HEUR_RESULTS, DNN_OF_DESCRIPTOR,
                                                  CONFIGS, &count, configs) == DNN_OK;
    const int graph_is_made = p->usable;
    p->usable = 0;
    for (int i = 0; i < count && i < CONFIGS && graph_is_made && !p->usable; i++) {
        p->usable = 1;
        p->plan = make(p, DNN_PLAN);
        set(p, p->plan, DNN_PLAN_HANDLE, DNN_OF_HANDLE, 1, &handle);
        set_one(p, p->plan, DNN_PLAN_CONFIG, configs[i]);
        finalize(p, p->plan);
        p->usable =
            p->usable && cuda_dnn.cudnnBackendGetAttribute(p->plan, DNN_PLAN_WORKSPACE, DNN_OF_I64,
                                                           1, &count, &p->workspace) == DNN_OK;
    }
}

int flash_run_plan(const flash_plan *p, dnn_handle handle, cudaStream_t stream,
                   void *const *tensors, void *workspace)
{
    static const int64_t ids[] = {Q, K, V, Y, LSE, SCALE, HIDDEN};
    flash_plan pack = {.usable = 1};
    const int64_t count = p->of.causal ? FLASH_REAL : FLASH_HIDDEN;
    const dnn_descriptor d = make(&pack, DNN_PACK);
    set(&pack, d, DNN_PACK_IDS, DNN_OF_I64, count, ids);
    set(&pack, d, DNN_PACK_POINTERS, DNN_OF_POINTER, count, tensors);
    set(&pack, d, DNN_PACK_WORKSPACE, DNN_OF_POINTER, 1, &workspace);
    finalize(&pack, d);
    const int error = !pack.usable || cuda_dnn.cudnnSetStream(handle, stream) != DNN_OK ||
                      cuda_dnn.cudnnBackendExecute(handle, p->plan, d) != DNN_OK;
    flash_drop_plan(&pack);
    return error;
}

void flash_drop_plan(flash_plan *p)
{
    while (p->count > 0)
        cuda_dnn.cudnnBackendDestroyDescriptor(p->descriptors[--p->count]);
}
