/* check.c - which options contradict each other. */
#include <string.h>

#include "options.h"
#include "run.h"

void options_check_use(const options *o)
{
    if (o->resume && !o->out)
        die("--resume needs --out, the checkpoint's folder");
    if (o->load && o->resume)
        die("--load begins a course: it does not go with --resume");
    if (o->eval_only && !o->resume)
        die("--eval-only needs --resume");
    if ((o->compare || o->demo) && o->resume)
        die("--compare starts anew: it does not go with --resume");
    if ((o->compare || o->demo) && o->impl)
        die("--compare chooses the implementations itself: it does not go with --impl");
}

/* Bytes of all that a course keeps, roughly: far below what an address can name, or
 * sizes would overflow. */
static void check_memory(const options *o)
{
    const double rows = (double)o->batch * (double)o->seq, width = (double)o->width;
    const double ff = (double)(o->experts ? o->experts_used * o->expert_ff : o->ff);
    const double all_ff = (double)(o->experts ? o->experts * o->expert_ff : o->ff);
    const double layers = (double)o->layers;
    const double inner = width + (double)o->heads * (double)o->head_dim;
    const double activations =
        rows * (4 * (double)o->accumulate + layers * (4 * width + 4 * inner + 4 * ff));
    const double parameters =
        layers * width * (4 * inner + 3 * all_ff) + 2 * (double)o->vocab * width;
    if (8 * activations + 16 * parameters > 1e17)
        die("these sizes take more than %.0e bytes of memory: see --layers, --width, --ff, "
            "--batch, "
            "--seq, --accumulate",
            8 * activations + 16 * parameters);
}

/* What a sample begins with has to be in the vocabulary. */
static void check_prompt(const options *o)
{
    const char *prompt = o->prompt ? o->prompt : "\n";
    for (const unsigned char *p = (const unsigned char *)prompt; o->sample && *p; p++)
        if (*p >= o->vocab)
            die("--prompt: byte %d is not below the vocabulary's %lld", *p, (long long)o->vocab);
}

void options_check_course(const options *o)
{
    if (o->tokens && o->data.count)
        die("--data and --tokens exclude each other");
    if (o->val_tokens && !o->tokens)
        die("--val-tokens needs --tokens");
    if (o->val.count && o->tokens)
        die("--val goes with --data; use --val-tokens with --tokens");
    if (o->end_of_document >= 0 && !o->pack)
        die("--end-of-document goes with --pack");
    if (o->end_of_document >= o->vocab)
        die("--end-of-document %lld is not below the vocabulary's %lld",
            (long long)o->end_of_document, (long long)o->vocab);
    if (o->pack && o->tokens && o->end_of_document < 0)
        die("--pack needs --end-of-document with --tokens, which tell no documents apart");
    if (o->seq % (2 * o->ring) && o->ring > 1)
        die("--seq %lld is not a multiple of %lld: two chunks for each of --ring %lld",
            (long long)o->seq, (long long)(2 * o->ring), (long long)o->ring);
    if (o->head_dim % 2)
        die("--head-dim %lld is not an even number", (long long)o->head_dim);
    if (!o->head_dim && (o->width % o->heads || (o->width / o->heads) % 2))
        die("--width %lld must be --heads %lld times an even number", (long long)o->width,
            (long long)o->heads);
    if (o->experts && !o->qk_norm)
        die("--experts goes with --qk-norm: a Qwen3-MoE has both");
    if (o->experts && (o->experts_used < 1 || o->experts_used > o->experts || o->expert_ff < 1))
        die("--experts %lld needs --experts-used, 1 to as many, and --expert-ff",
            (long long)o->experts);
    if (o->expert_parallel && !o->experts)
        die("--expert-parallel goes with --experts");
    if (o->gates_kept && (o->experts || o->recompute < RECOMPUTE_GATES))
        die("--gates-kept goes with --recompute 3, and not with --experts");
    if (o->expert_parallel && (o->ring > 1 || o->unordered || !strcmp(o->optimizer, "muon")))
        die("--expert-parallel does not go with --ring, --unordered or --optimizer muon");
    if (o->heads % o->kv_heads)
        die("--kv-heads %lld does not divide --heads %lld", (long long)o->kv_heads,
            (long long)o->heads);
    if (o->rope_factor > 0 && (o->rope_factor < 1 || o->rope_high <= o->rope_low))
        die("--rope-factor must be 1 at least, and --rope-high above --rope-low");
    if (strcmp(o->type, "f32") && strcmp(o->type, "bf16"))
        die("--type: '%s' is neither f32 nor bf16", o->type);
    if (strcmp(o->optimizer, "adamw") && strcmp(o->optimizer, "muon"))
        die("--optimizer: '%s' is neither adamw nor muon", o->optimizer);
    if (strcmp(o->products, "same") && strcmp(o->products, "fp8"))
        die("--products: '%s' is neither same nor fp8", o->products);
    if (o->beta1 >= 1 || o->beta2 >= 1)
        die("--beta1 and --beta2 must be below 1");
    if (!o->tokens && o->vocab < 256)
        die("--vocab %lld is too small for bytes, which need 256", (long long)o->vocab);
    if (o->save_every && !o->out)
        die("--save-every needs --out, the checkpoint's folder");
    if (o->min_lr > o->lr)
        die("--min-lr %g, with which the course ends, is above --lr %g", o->min_lr, o->lr);
    check_prompt(o);
    check_memory(o);
}
