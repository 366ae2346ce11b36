/* The schema's element types are those that checks accept: every tensor of every operator's
 * problems is declared to be of every type, and the types that pass in some problem are the ones
 * that the schema lists. */
#include "../common/test.h"
#include "problem/problem.h"

static const int types[] = {TG_F32,   TG_BF16,
                            TG_F16,   TG_F64,
                            TG_I64,   0x12000 /* i32 */,
                            0x11000,  0x10800,
                            0x10801,  0x10806 /* bool */,
                            TG_F8E4M3};
enum { TYPES = sizeof types / sizeof *types, MOST_BYTES = 1 << 16 };

static tg_dtype dtype_of(int type)
{
    return (tg_dtype){(uint8_t)(type & 255), (uint8_t)(type >> 8 & 255), (uint16_t)(type >> 16)};
}

/* accepted: a bit a type, by slot. */
static void collect(problem *p, unsigned *accepted)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        pb_tensor *t = &p->tensor[i];
        const tg_dtype own = t->view.dtype;
        for (int k = 0; t->present && k < TYPES; k++) {
            t->view.dtype = dtype_of(types[k]);
            if (tg_check(p->op->id, problem_args(p)) == TG_OK)
                accepted[t->decl->slot] |= 1u << k;
        }
        t->view.dtype = own;
    }
}

static void compare(const pb_op *op, const unsigned *accepted)
{
    for (int i = 0; i < op->info->nargs; i++) {
        const tg_arg_info *a = &op->info->args[i];
        for (int k = 0; a->types && k < TYPES; k++) {
            int listed = 0;
            for (const int *type = a->types->types; *type; type++)
                listed |= *type == types[k];
            EXPECT(listed == (int)(accepted[i] >> k & 1), "%s: %s of type %s (%#x) %s",
                   op->info->name, a->name, tg_type_name(types[k]), (unsigned)types[k],
                   listed ? "is listed, but no problem passes with it"
                          : "is not listed, but passes");
        }
    }
}

static void one_operator(const catalogue *cat, const pb_op *op)
{
    static const int own[] = {TG_F32, TG_BF16, TG_F16, TG_F64};
    unsigned accepted[PB_ARGS] = {0};
    char error[PB_ERROR];
    for (int c = 0; c < cat->ncases; c++) {
        const pb_case *text = &cat->cases[c];
        if (text->bench || !pb_case_is_for(op, text))
            continue;
        for (int k = 0; k < 4; k++) {
            const pb_options options = {
                .type = own[k], .seed = 1, .guard = 64, .hollow = 1, .most = MOST_BYTES};
            problem *p = problem_create(cat, op, text, &options, error);
            if (p)
                collect(p, accepted);
            problem_free(p);
        }
    }
    compare(op, accepted);
}

int main(void)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    if (!cat) {
        printf("%s\n", error);
        return 1;
    }
    for (int i = 0; i < cat->nops; i++)
        one_operator(cat, &cat->ops[i]);
    return report();
}
