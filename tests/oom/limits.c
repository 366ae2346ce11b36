/* A process that has no memory left: a call computes what it should, or is TG_ENOMEM and has
 * written nothing; it never ends the process.
 *   limits    RLIMIT_AS leaves less and less: every operator by each backend, and products as the
 *             first that a process does
 *   malloc    fails from the n-th call on: products by oneDNN once it has its kernels
 * Each in a process of its own, which tells in shared memory how far it has come. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/test.h"
#include "problem/problem.h"

/* ---- malloc, also of libraries ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static long countdown = -1; /* allocations until all fail; negative: none */

static int fails(void)
{
    if (countdown < 0 || (countdown > 0 && countdown--))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
    *p = fails() ? NULL : __libc_memalign(alignment, size);
    return *p ? 0 : ENOMEM;
}

/* ---- a limit above what the process has ---- */

static void leave(rlim_t bytes)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        exit(1);
    fclose(f);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : (rlim_t)pages * 4096 + bytes;
    setrlimit(RLIMIT_AS, &limit);
}

/* ---- a process ---- */

typedef struct progress {
    char doing[256];
    int calls, refused, failures;
} progress;

static progress *told;
static int calls, refused;

/* A stack grows by address space as well, which the limits leave none of. */
static void take_stack(void)
{
    volatile char deep[1 << 19];
    for (size_t i = 0; i < sizeof deep; i += 4096)
        deep[i] = 0;
}

typedef void task_fn(const catalogue *cat, int number);

static void in_process(task_fn *task, const catalogue *cat, int number)
{
    *told = (progress){0};
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        take_stack();
        task(cat, number);
        told->failures = failures;
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "%s: the process ended, status %x", told->doing, (unsigned)status);
    failures += told->failures;
    calls += told->calls;
    refused += told->refused;
}

/* ---- a call ---- */

static int unchanged(const problem *p)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (memcmp(p->buffer[i].base, p->buffer[i].initial, p->buffer[i].bytes) != 0)
            return 0;
    return 1;
}

/* found: what the outputs held before, one behind the other. */
static int is_right(const problem *p, const double *found)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        const int64_t n = t->present && t->written ? tg_numel(&t->view) : 0;
        const double unit = tg_type_of(&t->view) == TG_F32 ? 1e-4 : 3e-2;
        for (int64_t k = 0; k < n; k++, found++) {
            const double x = pb_get(t, k);
            if (x != *found && !(isnan(x) && isnan(*found)) &&
                !(fabs(x - *found) <= unit * (1 + fabs(x))))
                return 0;
        }
    }
    return 1;
}

static double *outputs_of(const problem *p)
{
    size_t bytes = 1;
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].written)
            bytes += (size_t)tg_numel(&p->tensor[i].view) * sizeof(double);
    double *out = malloc(bytes), *at = out;
    for (int i = 0; out && i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].written) {
            pb_read(&p->tensor[i], at);
            at += tg_numel(&p->tensor[i].view);
        }
    return out;
}

/* may_write: of implementations of `unfused`, which promise less. Returns what the outputs hold. */
static double *expect_refused_or_done(const problem *p, tg_status status, int may_write)
{
    told->calls++;
    told->refused += status == TG_ENOMEM;
    EXPECT(status == TG_OK || status == TG_ENOMEM, "%s: %s", told->doing, tg_last_error());
    EXPECT(status != TG_ENOMEM || may_write || unchanged(p), "%s: outputs are written",
           told->doing);
    return status == TG_OK ? outputs_of(p) : NULL;
}

/* p holds what is right. */
static void expect_right(const problem *p, double *found)
{
    EXPECT(!found || is_right(p, found), "%s: wrong results", told->doing);
    free(found);
}

/* ---- every operator under a limit ---- */

static const rlim_t left[] = {0, 1 << 18, 4 << 20, 20 << 20, 40 << 20, 80 << 20};

enum { LIMITS = sizeof left / sizeof *left };

static tg_status call_with(problem *p, const char *backend, rlim_t bytes)
{
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 2);
    tg_ctx_set_impl(ctx, backend);
    snprintf(told->doing, sizeof told->doing, "%s/%s %s \"%.100s\", %llu KiB left", backend,
             p->op->info->name, tg_type_name(p->type), p->c->text, (unsigned long long)bytes >> 10);
    problem_reset(p);
    leave(bytes);
    const tg_status status = tg_call(ctx, p->op->id, problem_args(p));
    leave(RLIM_INFINITY);
    tg_ctx_destroy(ctx);
    return status;
}

/* The call without a limit comes last: it takes threads and makes kernels for those behind it. */
static void call_under_limits(problem *p, const char *backend)
{
    double *found[LIMITS];
    for (int i = 0; i < LIMITS; i++)
        found[i] =
            expect_refused_or_done(p, call_with(p, backend, left[i]), !strcmp(backend, "unfused"));
    EXPECT(call_with(p, backend, RLIM_INFINITY) == TG_OK, "%s", tg_last_error());
    for (int i = 0; i < LIMITS; i++)
        expect_right(p, found[i]);
}

static problem *problem_in(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const char *text,
                           int type)
{
    char error[PB_ERROR];
    pb_case *c = malloc(sizeof *c);
    const pb_options options = {
        .type = type, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .guard = 64};
    if (pb_case_parse(cat, op->group, text, c, error))
        return NULL;
    problem *p = problem_create(cat, op, c, &options, error);
    EXPECT(p, "%s %s: %s", op->info->name, text, error);
    return p;
}

/* The largest case of moderate size. */
static const char *large_case(tg_ctx *ctx, const catalogue *cat, const pb_op *op)
{
    char error[PB_ERROR];
    const char *best = NULL;
    size_t most = 0;
    const pb_options options = {
        .type = TG_BF16, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .hollow = 1};
    for (int k = 0; k < cat->ncases; k++) {
        const pb_case *c = &cat->cases[k];
        if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, TG_BF16))
            continue;
        problem *p = problem_create(cat, op, c, &options, error);
        if (p && problem_memory(p) >= most && problem_memory(p) < 1u << 16) {
            most = problem_memory(p);
            best = c->text;
        }
        problem_free(p);
    }
    return best;
}

static void limit_operator(const catalogue *cat, int number)
{
    static const char *const backends[] = {"cpu", "ref", "unfused"};
    const pb_op *op = &cat->ops[number];
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 1); /* no team yet */
    tg_ctx_set_impl(ctx, "ref");
    const char *text = large_case(ctx, cat, op);
    EXPECT(text, "%s: no case", op->info->name);
    problem *p = text ? problem_in(ctx, cat, op, text, TG_BF16) : NULL;
    if (!p)
        return;
    for (int i = 0; i < 3; i++)
        call_under_limits(p, backends[i]);
}

/* ---- products, the first of a process and later ones ---- */

static const struct {
    const char *text;
    int type, warm; /* products of other sizes come first */
} products[] = {
    {"M=300 N=260 K=70", TG_F32, 0},
    {"M=300 N=260 K=70", TG_BF16, 0},
    {"M=9 N=700 K=300 trans_b=1", TG_F32, 0},
    {"M=9 N=700 K=300 trans_b=1", TG_BF16, 0},
    {"M=1030 N=1030 K=64 beta=1", TG_F32, 1},
    {"M=9 N=1100 K=600 trans_a=1", TG_F32, 1},
    {"M=9 N=1100 K=600 trans_a=1 beta=1", TG_BF16, 1},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static problem *product(const catalogue *cat, int number)
{
    const pb_op *op = catalogue_op(cat, tg_op_by_name("gemm"));
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 1);
    if (products[number].warm) {
        problem *p = problem_in(ctx, cat, op, "M=130 N=130 K=40", products[number].type);
        EXPECT(p && tg_call(ctx, op->id, problem_args(p)) == TG_OK, "%s", tg_last_error());
    }
    return problem_in(ctx, cat, op, products[number].text, products[number].type);
}

static void limit_product(const catalogue *cat, int number)
{
    problem *p = product(cat, number);
    if (p)
        call_under_limits(p, "cpu");
}

/* oneDNN makes its kernels in a process's first product. */
enum { MOST_MIB = 80 };

static void limit_first(const catalogue *cat, int mib)
{
    problem *p = product(cat, 0);
    if (!p)
        return;
    double *found = expect_refused_or_done(p, call_with(p, "cpu", (rlim_t)mib << 20), 0);
    EXPECT(call_with(p, "cpu", RLIM_INFINITY) == TG_OK, "%s", tg_last_error());
    expect_right(p, found);
}

static void fail_product(const catalogue *cat, int number)
{
    enum { MOST = 12 };
    double *found[MOST];
    problem *p = product(cat, number);
    tg_ctx *ctx[MOST + 1];
    for (int n = 0; p && n <= MOST; n++) {
        ctx[n] = new_context();
        tg_ctx_set_threads(ctx[n], 1);
        problem_reset(p);
        snprintf(told->doing, sizeof told->doing, "%s, malloc fails from number %d on",
                 products[number].text, n);
        countdown = n < MOST ? n : -1;
        const tg_status status = tg_call(ctx[n], p->op->id, problem_args(p));
        countdown = -1;
        if (n < MOST)
            found[n] = expect_refused_or_done(p, status, 0);
    }
    for (int n = 0; p && n < MOST; n++)
        expect_right(p, found[n]);
}

int main(void)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; cat && i < cat->nops; i++)
        in_process(limit_operator, cat, i);
    for (int i = 0; cat && i < PRODUCTS; i++) {
        in_process(limit_product, cat, i);
        if (products[i].warm && products[i].type == TG_F32)
            in_process(fail_product, cat, i);
    }
    for (int mib = 0; cat && mib <= MOST_MIB; mib++)
        in_process(limit_first, cat, mib);
    EXPECT(refused > 0 && refused < calls, "%d of %d calls were refused: %s", refused, calls,
           cat ? "the limits are wrong" : error);
    printf("%d calls, %d of them refused\n", calls, refused);
    return report();
}
