/* The column `shape` of ops.def: every text can be read; shapes that are made are those of the
 * cases; what is refused is said with the size that was expected and where it comes from. */
#include <tigon/registry.h>

#include "../common/test.h"
#include "problem/problem.h"

static int64_t memory[4096]; /* of elements that are never read, but for indices: 0 */
static size_t taken;

/* ---- what is said ---- */

/* A tensor of memory of its own. */
static tg_tensor tensor(tg_type type, int ndim, const int64_t *shape)
{
    const tg_tensor t = tg_tensor_of(memory + taken, type, ndim, shape);
    taken = (taken + (size_t)tg_numel(&t) + 1) % 2048;
    return t;
}

static tg_tensor matrix(tg_type type, int64_t *shape, int64_t a, int64_t b)
{
    shape[0] = a;
    shape[1] = b;
    return tensor(type, b < 0 ? 1 : 2, shape);
}

static void refused(const char *op, const void *args, const char *expected)
{
    const tg_status status = tg_check(tg_op_by_name(op), args);
    EXPECT(status == TG_EINVAL && !strcmp(tg_last_error(), expected),
           "%s: %s\n  \"%s\", expected\n  \"%s\"", op, tg_status_name(status), tg_last_error(),
           expected);
}

/* A size that an optional tensor tells is one in ~[...] as well. */
static void check_counted(void)
{
    int64_t s[5][2];
    tg_tensor logits = matrix(TG_F32, s[0], 4, 8), target = matrix(TG_I64, s[1], 4, -1);
    tg_tensor logp = matrix(TG_F32, s[2], 4, -1), ids = matrix(TG_I64, s[3], 3, -1);
    tg_tensor selected = matrix(TG_F32, s[4], 4, 2);
    const tg_softmax_logp_forward_args a = {.logits = &logits,
                                            .target = &target,
                                            .logp = &logp,
                                            .selected_ids = &ids,
                                            .selected = &selected};
    refused("softmax_logp_forward", &a,
            "softmax_logp_forward: selected is [4,2], of 8 elements, expected 12, as many as [4,3] "
            "has");
}

static void check_losses(void)
{
    int64_t s[5][2];
    tg_tensor logits = matrix(TG_F32, s[0], 4, 8), target = matrix(TG_I64, s[1], 4, -1);
    tg_tensor loss = matrix(TG_F32, s[2], 3, -1), weight = matrix(TG_F32, s[3], 7, -1);
    tg_cross_entropy_forward_args a = {.logits = &logits, .target = &target, .loss = &loss};
    refused("cross_entropy_forward", &a,
            "cross_entropy_forward: loss is [3], of 3 elements, expected 1, since reduction is 0 "
            "(mean)");
    a.reduction = TG_NONE;
    refused("cross_entropy_forward", &a,
            "cross_entropy_forward: loss is [3], of 3 elements, expected 4, one for each row of "
            "logits, since reduction is 2 (none)");
    a.class_weight = &weight;
    refused("cross_entropy_forward", &a,
            "cross_entropy_forward: class_weight is [7], expected [8], the last dimension of "
            "logits");
    tg_tensor q = matrix(TG_F32, s[4], 4, 7);
    refused("tvd_forward",
            &(tg_tvd_forward_args){.p = &logits, .q = &logits, .loss = &q, .reduction = TG_NONE},
            "tvd_forward: loss is [4,7], expected [4,8]: 8 is the last dimension of p, since "
            "reduction is 2 (none)");
    tg_jsd_forward_args jsd = {.student = &logits, .teacher = &logits, .loss = &loss};
    refused("jsd_forward", &jsd, "jsd_forward: loss is [3], of 3 elements, expected 1");
}

static void check_tables(void)
{
    int64_t s[4][2], shape[] = {2, 3, 2, 8}, table[] = {3, 3, 4};
    tg_tensor q = tensor(TG_F32, 4, shape), y = tensor(TG_F32, 4, shape);
    tg_tensor cos = tensor(TG_F32, 3, table);
    refused("rope_forward", &(tg_rope_forward_args){.q = &q, .cos = &cos, .sin = &cos, .yq = &y},
            "rope_forward: cos is [3,3,4], expected [P,C], [1,P,C] or [2,P,C]");
    tg_tensor weight = matrix(TG_F32, s[0], 10, 8), in = matrix(TG_I64, s[1], 2, 3);
    tg_tensor rows = matrix(TG_F32, s[2], 6, 8);
    tg_embedding_forward_args a = {.weight = &weight, .indices = &in, .y = &rows};
    refused("embedding_forward", &a,
            "embedding_forward: y is [6,8], expected [2,3,8]: its leading dimensions are those of "
            "indices");
    tg_tensor teacher = matrix(TG_F32, s[3], 7, 5), loss = tensor(TG_F32, 0, NULL);
    refused("fused_linear_jsd_forward",
            &(tg_fused_linear_jsd_forward_args){.x = &rows,
                                                .weight = &weight,
                                                .teacher_x = &teacher,
                                                .teacher_weight = &teacher,
                                                .loss = &loss},
            "fused_linear_jsd_forward: teacher_weight is [7,5], expected [10,K]: 10 is the first "
            "dimension of weight");
}

/* Two arguments of the same words, in which there is a sum. */
static void check_sum(void)
{
    int64_t s[2][2], logits[] = {2, 4, 7}, other[] = {2, 3, 7};
    tg_tensor x = tensor(TG_F32, 3, logits), dx = tensor(TG_F32, 3, other);
    tg_tensor target = matrix(TG_I64, s[0], 2, 3), lse = matrix(TG_F32, s[1], 2, 3);
    refused("selective_log_softmax_backward",
            &(tg_selective_log_softmax_backward_args){.logits = &x,
                                                      .target = &target,
                                                      .lse = &lse,
                                                      .dlogp = &lse,
                                                      .dlogits = &dx,
                                                      .temperature = 1},
            "selective_log_softmax_backward: dlogits is [2,3,7], expected [2,4,7], the shape of "
            "logits");
}

static void check_options(void)
{
    int64_t shape[] = {2, 4, 3}, s[2];
    tg_tensor x = tensor(TG_F32, 3, shape);
    tg_tensor y = tensor(TG_F32, 3, shape), mean = matrix(TG_F32, s, 2, 4);
    tg_group_norm_forward_args a = {.x = &x, .y = &y, .mean = &mean, .num_groups = 2};
    refused("group_norm_forward", &a,
            "group_norm_forward: mean is [2,4], of 8 elements, expected 4, as many as [2,2] has");
    a.num_groups = -1;
    refused("group_norm_forward", &a, "group_norm_forward: num_groups is -1, expected 1 or more");
}

/* ---- what is made ---- */

/* Outputs whose rows no input tells. */
static int is_unknown(const pb_op *op, const char *name)
{
    return (!strcmp(op->info->name, "embedding_backward") && !strcmp(name, "dweight")) ||
           (!strcmp(op->info->name, "sum_rows_backward") && !strcmp(name, "dx"));
}

/* The shape of every output, made from the inputs of a case, has as many elements as
 * that of the case. */
static void check_outputs(problem *p)
{
    const pb_op *op = p->op;
    for (int i = 0; i < op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (!t->present || !t->written || is_unknown(op, t->decl->name))
            continue;
        int64_t shape[TG_MAX_NDIM];
        int ndim = -1;
        p->slot[t->decl->slot].ptr = NULL;
        const tg_status status =
            tg_output_shape(op->id, problem_args(p), t->decl->slot, shape, &ndim);
        p->slot[t->decl->slot].ptr = (void *)&t->view;
        const tg_tensor made = tg_tensor_of(NULL, TG_F32, ndim, shape);
        EXPECT(status == TG_OK && tg_numel(&made) == tg_numel(&t->view), "%s: %s of %s: %s",
               op->info->name, t->decl->name, p->c->text,
               status == TG_OK ? "another number of elements" : tg_last_error());
    }
}

static void check_cases(const catalogue *cat)
{
    char error[PB_ERROR];
    int cases = 0;
    for (int i = 0; i < cat->nops; i++)
        for (int k = 0; k < cat->ncases; k++) {
            const pb_case *c = &cat->cases[k];
            if (c->bench || !pb_case_is_for(&cat->ops[i], c))
                continue;
            const pb_options options = {.type = TG_F32, .seed = 1, .hollow = 1};
            problem *p = problem_create(cat, &cat->ops[i], c, &options, error);
            if (p && tg_check(p->op->id, problem_args(p)) == TG_OK) {
                check_outputs(p);
                cases++;
            }
            problem_free(p);
        }
    EXPECT(cases > 500, "%d cases: too few to mean anything", cases);
}

static void check_unknown(void)
{
    int64_t s[2][2], shape[TG_MAX_NDIM];
    int ndim;
    tg_tensor dy = matrix(TG_F32, s[0], 3, 8), in = matrix(TG_I64, s[1], 3, -1);
    tg_embedding_backward_args a = {.dy = &dy, .indices = &in};
    const int op = tg_op_by_name("embedding_backward");
    EXPECT(tg_output_shape(op, &a, 2, shape, &ndim) == TG_EINVAL &&
               !strcmp(tg_last_error(), "embedding_backward: the shape of dweight is [V,8], which "
                                        "does not follow from what is given"),
           "%s", tg_last_error());
    EXPECT(tg_output_shape(op, &a, 3, shape, &ndim) == TG_EINVAL, "an option has a shape");
    EXPECT(tg_output_shape(-1, &a, 0, shape, &ndim) == TG_EINVAL, "there is no operator -1");
}

/* ---- the language ---- */

static int size_of(void *user, const char *name, int64_t *size)
{
    (void)user;
    *size = name[0] == 'R' ? 4 : name[0] == 'N' ? 8 : 1;
    return name[0] == 'Q' ? -1 : 0;
}

static void means(const char *text, int n, int64_t a, int64_t b)
{
    int64_t shape[TG_MAX_NDIM] = {0};
    int ndim = -1;
    const tg_status status = tg_shape_of(tg_op_by_name("gemm"), text, size_of, NULL, shape, &ndim);
    if (n < 0)
        EXPECT(status == TG_EINVAL, "\"%s\" has a meaning", text);
    else
        EXPECT(status == TG_OK && ndim == n && (n < 1 || shape[0] == a) && (n < 2 || shape[1] == b),
               "\"%s\" is [%lld,%lld], of %d: %s", text, (long long)shape[0], (long long)shape[1],
               ndim, tg_last_error());
}

static void check_language(void)
{
    means("*R,N", 2, 4, 8);
    means("*,N", 1, 8, 0);
    means("", 0, 0, 0);
    means("~[]", 0, 0, 0);
    means("~[*R,3]", 2, 4, 3);
    means("2*N,R+N+1", 2, 16, 13);
    means("N/3,N/4+1", 2, 3, 3);
    means("R | N,N", 1, 4, 0);
    means("trans_a=yes ? R : N", 1, 4, 0);
    means("trans_a=no ? R : N", 1, 8, 0);
    static const char *const wrong[] = {"R,",  "Q",           "*R,*N",        "~R", "~[R", "R]",
                                        "R N", "trans_a ? R", "none=1 ? R:N", "*2", "R,*R"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        means(wrong[i], -1, 0, 0);
    for (int op = 0; op < tg_op_count(); op++)
        for (int i = 0; i < tg_op_at(op)->nargs; i++) {
            const tg_arg_info *arg = &tg_op_at(op)->args[i];
            int64_t shape[TG_MAX_NDIM];
            int ndim;
            EXPECT(!arg->types == !arg->shape &&
                       (!arg->shape ||
                        tg_shape_of(op, arg->shape, size_of, NULL, shape, &ndim) == TG_OK),
                   "%s: %s: %s", tg_op_at(op)->name, arg->name, tg_last_error());
        }
}

int main(void)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    EXPECT(cat, "%s", error);
    check_losses();
    check_counted();
    check_tables();
    check_sum();
    check_options();
    check_unknown();
    check_language();
    if (cat)
        check_cases(cat);
    return report();
}
