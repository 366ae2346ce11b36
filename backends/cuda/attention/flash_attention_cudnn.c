/* flash_attention_cudnn.c - flash_attention forward by NVIDIA's cuDNN, where it is installed.
 *
 * cuDNN compiles a kernel when a shape is first seen, which takes about a second: so it gets large
 * problems alone. The backward is always Tigon's own: cuDNN's adds to dq in no fixed order, or
 * keeps a matrix of S x L. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "flash_attention_cudnn.h"
#include "flash_attention_graph.h"
#include "flash_attention_plain.h"
#include "host/library.h"

enum { SLOTS = 64, LEAST_VERSION = 91000 };
static const double LEAST_FLOPS = 3e10;

/* ---- the library ---- */

static int there;

static void open_library(void)
{
    static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    static const char *const files[] = {"libcudnn.so.9", NULL};
    static const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(name, arguments) {#name, (void **)&cuda_dnn.name},
        DNN_FUNCTIONS(X)
#undef X
    };
    cuda_open_library(compilers); /* cuDNN looks for it by name, and then finds it */
    void *library = cuda_open_library(files);
    size_t (*version)(void);
    *(void **)&version = library ? dlsym(library, "cudnnGetVersion") : NULL;
    there = version && version() >= LEAST_VERSION;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && there; i++)
        there = (*functions[i].at = dlsym(library, functions[i].name)) != NULL;
    if (!there)
        cuda_host->log(NULL, "tigon: cuda: no cuDNN from 9.10 on is found (libcudnn.so.9; "
                             "TIGON_CUDA_LIBRARIES may name its folder): flash_attention_forward "
                             "is Tigon's own, which takes twice as long");
}

static int is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return there;
}

/* ---- plans ---- */

static flash_plan plans[SLOTS];
static dnn_handle handles[MOST_CARDS];
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of both; it is held while a call is launched */

static flash_plan *plan_of(const flash_shape *s)
{
    static int next;
    for (int i = 0; i < SLOTS; i++)
        if (plans[i].made && !memcmp(&plans[i].of, s, sizeof *s))
            return &plans[i];
    flash_plan *p = &plans[next];
    next = (next + 1) % SLOTS; /* the oldest one goes */
    flash_drop_plan(p);
    *p = (flash_plan){.of = *s, .made = 1};
    p->usable = handles[s->card] || cuda_dnn.cudnnCreate(&handles[s->card]) == DNN_OK;
    flash_make_plan(p, handles[s->card]);
    if (!p->usable)
        flash_drop_plan(p);
    return p;
}

/* ---- the operator ---- */

/* Strides of a batch, a head, a position; 0 if rows do not all begin at a multiple of 16 bytes. */
static int strides_of(const tg_tensor *t, int64_t *strides)
{
    static const int order[] = {0, 2, 1};
    uintptr_t bits = (uintptr_t)data_of(t);
    for (int i = 0; i < 3; i++) {
        strides[i] = tg_stride(t, order[i]);
        if (strides[i] <= 0)
            return 0;
        bits |= (uintptr_t)(strides[i] * 2);
    }
    return bits % 16 == 0;
}

static int shape_of(flash_shape *s, const tg_flash_attention_forward_args *args)
{
    memset(s, 0, sizeof *s);
    s->batches = args->q->shape[0];
    s->queries = args->q->shape[1];
    s->heads = args->q->shape[2];
    s->d = args->q->shape[3];
    s->keys = args->k->shape[1];
    s->key_heads = args->k->shape[2];
    s->type = tg_type_of(args->q);
    s->causal = args->causal != 0;
    return strides_of(args->q, s->strides[0]) && strides_of(args->k, s->strides[1]) &&
           strides_of(args->v, s->strides[2]) && strides_of(args->y, s->strides[3]);
}

int cuda_flash_attention_cudnn_accepts(const tg_flash_attention_forward_args *args)
{
    flash_shape s;
    return FLASH_IS_PLAIN(args) && !FLASH_IS_DECODE(args) && shape_of(&s, args) &&
           (uintptr_t)data_of(args->lse) % 16 == 0 && args->scale >= 0 && s.d % 8 == 0 &&
           (!s.causal || s.queries == s.keys) && s.queries < INT32_MAX && s.keys < INT32_MAX &&
           4.0 * (double)(s.batches * s.heads * s.d) * (double)s.queries * (double)s.keys >=
               LEAST_FLOPS &&
           is_there();
}

static tg_status attend(const cuda_call *call, const tg_flash_attention_forward_args *args)
{
    flash_shape s;
    shape_of(&s, args);
    s.card = call->card;
    tg_status status = TG_EUNSUPPORTED;
    pthread_mutex_lock(&lock);
    const flash_plan *p = plan_of(&s);
    if (p->usable) {
        const size_t rows = (size_t)(s.batches * s.heads * s.queries) * sizeof(float);
        const size_t own = args->lse ? 0 : (rows + 255) / 256 * 256; /* the graph always has lse */
        char *room = cuda_host->device_workspace(call->ctx, own + (size_t)p->workspace + 1);
        float scale = (float)(args->scale != 0 ? args->scale : 1 / sqrt((double)s.d));
        float hidden = -INFINITY;
        void *const tensors[FLASH_REAL] = {[FLASH_Q] = data_of(args->q),
                                           [FLASH_K] = data_of(args->k),
                                           [FLASH_V] = data_of(args->v),
                                           [FLASH_Y] = data_of(args->y),
                                           [FLASH_LSE] = args->lse ? data_of(args->lse) : room,
                                           [FLASH_SCALE] = &scale,
                                           [FLASH_HIDDEN] = &hidden};
        if (!room)
            status = TG_ENOMEM;
        else if (flash_run_plan(p, handles[call->card], call->stream, tensors, room + own))
            status = cuda_host->fail(TG_EDEVICE, "flash_attention_forward: cuDNN reports an error");
        else
            status = TG_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

tg_status cuda_flash_attention_cudnn(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "flash_attention_forward", args->q);
    return status == TG_OK ? cuda_end(&call, attend(&call, args)) : status;
}
