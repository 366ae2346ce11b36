/* options.c - the table of options, and presets. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"
#include "run.h"

#define AT(field) offsetof(options, field)
#define BIG 1e15

const option options_table[] = {
    {"preset", TEXT, COURSE, AT(preset), 0, 0, "tiny, small, 124m, 1b, moe-tiny or qwen3-30b-a3b"},
    {"layers", INTEGER, MODEL, AT(layers), 1, 1000, "blocks"},
    {"width", INTEGER, MODEL, AT(width), 2, 1 << 20, "width of the residual stream"},
    {"heads", INTEGER, MODEL, AT(heads), 1, 1 << 14, "query heads"},
    {"kv-heads", INTEGER, MODEL, AT(kv_heads), 1, 1 << 14, "key and value heads; divides --heads"},
    {"head-dim", INTEGER, MODEL, AT(head_dim), 0, 1 << 14,
     "elements of a head, an even number; 0: --width over --heads"},
    {"qk-norm", FLAG, MODEL, AT(qk_norm), 0, 1, "normalise queries and keys of a head, as Qwen3"},
    {"experts", INTEGER, MODEL, AT(experts), 0, 1 << 14,
     "of a layer, in place of its feed-forward part, as Qwen3-MoE; 0: none"},
    {"experts-used", INTEGER, MODEL, AT(experts_used), 0, 1 << 14, "by each token"},
    {"expert-ff", INTEGER, MODEL, AT(expert_ff), 0, 1 << 20, "width of an expert"},
    {"expert-parallel", FLAG, NOT_KEPT, AT(expert_parallel), 0, 1,
     "each rank has some of the experts, and tokens go to where theirs are"},
    {"raw-weights", FLAG, MODEL, AT(raw_weights), 0, 1,
     "weights of experts are their shares of all experts, not of those that are used"},
    {"balance", REAL, COURSE, AT(balance), 0, 1e6, "how much of the experts' balance is a loss"},
    {"ff", INTEGER, MODEL, AT(ff), 1, 1 << 20, "width of the feed-forward part"},
    {"vocab", INTEGER, MODEL, AT(vocab), 2, 1 << 20, "size of the vocabulary"},
    {"untied", FLAG, MODEL, AT(untied), 0, 1, "give the output its own matrix"},
    {"theta", REAL, COURSE, AT(theta), 1, 1e12, "base of the rotary frequencies"},
    {"rope-factor", REAL, COURSE, AT(rope_factor), 0, 1e6,
     "divides low rotary frequencies, as in Llama 3.1; 0: none"},
    {"rope-low", REAL, COURSE, AT(rope_low), 0, 1e6, "those of fewer turns in --rope-window"},
    {"rope-high", REAL, COURSE, AT(rope_high), 0, 1e6, "but none of more turns"},
    {"rope-window", REAL, COURSE, AT(rope_window), 1, 1e9, "tokens in which turns are counted"},
    {"eps", REAL, COURSE, AT(eps), 0, 1, "added to the mean square in rms_norm"},
    {"type", TEXT, MODEL, AT(type), 0, 0, "f32, or bf16 with f32 master weights"},
    {"batch", INTEGER, COURSE, AT(batch), 1, 1 << 20, "windows in a micro-batch"},
    {"seq", INTEGER, COURSE, AT(seq), 1, 1 << 20, "tokens in a window"},
    {"pack", FLAG, COURSE, AT(pack), 0, 1,
     "documents of a window do not see each other, and each counts positions from its begin"},
    {"end-of-document", INTEGER, COURSE, AT(end_of_document), -1, 1 << 20,
     "with --pack: the token that ends a document; -1: none, and files are documents"},
    {"accumulate", INTEGER, COURSE, AT(accumulate), 0, 1 << 20,
     "micro-batches in a step, which ranks share; 0: one for each rank"},
    {"ring", INTEGER, COURSE, AT(ring), 1, 1 << 14,
     "ranks that share each window, by ring attention"},
    {"unordered", FLAG, COURSE, AT(unordered), 0, 1,
     "add up gradients in any order: faster, other bits for other numbers of ranks"},
    {"steps", INTEGER, COURSE, AT(steps), 0, 1e7, "length of the course"},
    {"warmup", INTEGER, COURSE, AT(warmup), 0, 1e9, "steps of linear warm-up, then cosine"},
    {"optimizer", TEXT, COURSE, AT(optimizer), 0, 0,
     "adamw, or muon for the layers' matrices and adamw for the rest"},
    {"products", TEXT, COURSE, AT(products), 0, 0,
     "of the layers: same, in --type, or fp8, of numbers of 8 bits"},
    {"lr", REAL, COURSE, AT(lr), 0, 1e30, "peak learning rate"},
    {"min-lr", REAL, COURSE, AT(min_lr), 0, 1e30,
     "learning rate at the end; without: a tenth of --lr"},
    {"weight-decay", REAL, COURSE, AT(weight_decay), 0, 1e3, "on matrices, not on norms"},
    {"beta1", REAL, COURSE, AT(beta1), 0, 1, "AdamW's first moment"},
    {"beta2", REAL, COURSE, AT(beta2), 0, 1, "AdamW's second moment"},
    {"clip", REAL, COURSE, AT(clip), 0, 1e30, "largest global gradient norm; 0: no limit"},
    {"seed", INTEGER, COURSE, AT(seed), 0, BIG, "of the initial weights and of the windows"},
    {"data", FILES, COURSE, AT(data), 0, 0,
     "train on the bytes of these files; without: this source"},
    {"val", FILES, COURSE, AT(val), 0, 0, "held-out bytes; without: every tenth block of the data"},
    {"tokens", TEXT_FILE, COURSE, AT(tokens), 0, 0, "train on a token file in llm.c's format"},
    {"val-tokens", TEXT_FILE, COURSE, AT(val_tokens), 0, 0,
     "held-out token file; without: its last part"},
    {"eval-every", INTEGER, COURSE, AT(eval_every), 0, 1e9,
     "steps between held-out losses; 0: at the end"},
    {"eval-windows", INTEGER, COURSE, AT(eval_windows), 1, 1e9, "windows in a held-out loss"},
    {"load", TEXT, NOT_KEPT, AT(load), 0, 0,
     "begin with sizes and parameters of a Hugging Face folder"},
    {"out", TEXT, NOT_KEPT, AT(out), 0, 0, "checkpoint folder; without: nothing is saved"},
    {"save-every", INTEGER, COURSE, AT(save_every), 0, 1e9,
     "steps between checkpoints; 0: at the end"},
    {"resume", FLAG, NOT_KEPT, AT(resume), 0, 1, "go on from the checkpoint in --out"},
    {"stop-after", INTEGER, NOT_KEPT, AT(stop_after), 0, 1e9, "save and leave after so many steps"},
    {"eval-only", FLAG, NOT_KEPT, AT(eval_only), 0, 1,
     "with --resume: held-out loss and sample alone"},
    {"sample", INTEGER, NOT_KEPT, AT(sample), 0, 1e9, "tokens of text to write at the end"},
    {"prompt", TEXT, NOT_KEPT, AT(prompt), 0, 0, "what the sample starts with (bytes)"},
    {"temperature", REAL, NOT_KEPT, AT(temperature), 0, 1e3,
     "of the sample; 0: the likeliest token"},
    {"top-k", INTEGER, NOT_KEPT, AT(top_k), 0, 1 << 20, "sample among so many tokens; 0: all"},
    {"log", TEXT, NOT_KEPT, AT(log), 0, 0, "write one JSON line a step to this file"},
    {"plot", TEXT, NOT_KEPT, AT(plot), 0, 0, "draw the loss curve into this SVG file"},
    {"recompute", INTEGER, NOT_KEPT, AT(recompute), 0, RECOMPUTE_GATES,
     "what the backward pass computes again: 1 normed streams, 2 swiglu too, 3 gate and up too"},
    {"gates-kept", INTEGER, NOT_KEPT, AT(gates_kept), 0, 4096,
     "with --recompute 3: so many layers, the last ones, keep gate and up"},
    {"profile", FLAG, NOT_KEPT, AT(profile), 0, 1,
     "time per operator and implementation, and of the GEMMs alone"},
    {"compare", FLAG, NOT_KEPT, AT(compare), 0, 1, "run unfused and default side by side"},
    {"demo", FLAG, NOT_KEPT, AT(demo), 0, 1, "--compare with a sample and a curve, a few minutes"},
    {"device", TEXT, NOT_KEPT, AT(device), 0, 0,
     "cpu, cuda, npu...; without: TIGON_DEVICE, else cpu"},
    {"impl", TEXT, NOT_KEPT, AT(impl), 0, 0, "backends in order, as in TIGON_IMPL"},
    {"threads", INTEGER, NOT_KEPT, AT(threads), 0, 4096, "threads; 0: all processors"},
    {"quiet", FLAG, NOT_KEPT, AT(quiet), 0, 1, "no progress"},
};
const int options_count = sizeof(options_table) / sizeof(options_table[0]);

static const struct preset {
    const char *name;
    int64_t layers, width, heads, kv_heads, ff, vocab;
    int64_t batch, seq, steps, warmup, eval_every;
    double lr, theta;
    int64_t untied, head_dim, experts, experts_used, expert_ff;
} presets[] = {
    {"tiny", 4, 128, 4, 2, 384, 256, 4, 256, 600, 40, 100, 3e-3, 1e4, 0, 0, 0, 0, 0},
    {"small", 8, 384, 6, 2, 1024, 256, 8, 256, 2000, 100, 200, 1e-3, 1e4, 0, 0, 0, 0, 0},
    {"124m", 12, 768, 12, 12, 2048, 50304, 4, 256, 1000, 50, 250, 6e-4, 1e4, 0, 0, 0, 0, 0},
    {"1b", 16, 2048, 32, 8, 8192, 128256, 4, 1024, 1000, 50, 250, 3e-4, 5e5, 0, 0, 0, 0, 0},
    {"moe-tiny", 4, 128, 4, 2, 384, 256, 4, 256, 600, 40, 100, 3e-3, 1e4, 0, 0, 8, 2, 192},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936, 4, 1024, 1000, 50, 250, 3e-4, 1e6, 1, 128, 128,
     8, 768},
};

void options_preset(options *o, const char *name)
{
    const struct preset *p = NULL;
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
        if (!strcmp(presets[i].name, name))
            p = &presets[i];
    if (!p)
        die("--preset: '%s' is none of tiny, small, 124m, 1b, moe-tiny, qwen3-30b-a3b", name);
    *o = (options){.preset = p->name,
                   .layers = p->layers,
                   .width = p->width,
                   .heads = p->heads,
                   .kv_heads = p->kv_heads,
                   .ff = p->ff,
                   .vocab = p->vocab,
                   .untied = p->untied,
                   .head_dim = p->head_dim,
                   .qk_norm = p->experts > 0,
                   .experts = p->experts,
                   .experts_used = p->experts_used,
                   .expert_ff = p->expert_ff,
                   .balance = 1e-3,
                   .theta = p->theta,
                   .rope_low = 1,
                   .rope_high = 4,
                   .rope_window = 8192,
                   .eps = p->experts ? 1e-6 : 1e-5,
                   .type = "f32",
                   .end_of_document = -1,
                   .ring = 1,
                   .batch = p->batch,
                   .seq = p->seq,
                   .steps = p->steps,
                   .warmup = p->warmup,
                   .seed = 1,
                   .optimizer = "adamw",
                   .products = "same",
                   .lr = p->lr,
                   .min_lr = NAN,
                   .weight_decay = 0.1,
                   .beta1 = 0.9,
                   .beta2 = 0.95,
                   .clip = 1,
                   .eval_every = p->eval_every,
                   .eval_windows = 64,
                   .recompute = RECOMPUTE_SWIGLU,
                   .temperature = 0.8};
}

const char *option_text(const options *o, const option *t, char *text, size_t size)
{
    const void *field = (const char *)o + t->offset;
    text[0] = 0;
    if (t->kind == TEXT && *(const char *const *)field)
        snprintf(text, size, "%s", *(const char *const *)field);
    else if (t->kind == REAL && !isnan(*(const double *)field))
        snprintf(text, size, "%g", *(const double *)field);
    else if (t->kind == INTEGER)
        snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
    return text;
}

static void usage(const char *preset)
{
    options o;
    options_preset(&o, preset);
    printf("usage: llama [--preset tiny|small|124m|1b|moe-tiny|qwen3-30b-a3b] [--option value]...\n"
           "Trains a Llama or a Qwen3 with Tigon's operators. In brackets: the default, here of "
           "the preset %s;\n"
           "`llama --preset small --help` tells another preset's.\n\n",
           preset);
    for (int i = 0; i < options_count; i++) {
        static const char *const value[] = {"", " N", " X", " TEXT", " FILE", " FILES..."};
        char left[40], text[64];
        snprintf(left, sizeof(left), "--%s%s", options_table[i].name, value[options_table[i].kind]);
        printf("  %-20s %s", left, options_table[i].help);
        if (*option_text(&o, &options_table[i], text, sizeof(text)))
            printf(" [%s]", text);
        putchar('\n');
    }
    exit(0);
}

void option_set(options *o, const option *t, const char *text)
{
    void *field = (char *)o + t->offset;
    if (t->kind == TEXT || t->kind == TEXT_FILE) {
        if (!*text)
            die("--%s: the text is empty", t->name);
        *(const char **)field = text;
        return;
    }
    char *end;
    errno = 0;
    const double real = strtod(text, &end);
    const long long whole = t->kind == REAL ? 0 : strtoll(text, &end, 10);
    if (end == text || *end || errno)
        die("--%s: '%s' is not a %s", t->name, text, t->kind == REAL ? "number" : "whole number");
    const double value = t->kind == REAL ? real : (double)whole;
    if (!(value >= t->low && value <= t->high))
        die("--%s: %s is not in [%g, %g]", t->name, text, t->low, t->high);
    if (t->kind == REAL)
        *(double *)field = real;
    else
        *(int64_t *)field = whole;
}

const option *option_find(const char *name)
{
    for (int i = 0; i < options_count; i++)
        if (!strcmp(options_table[i].name, name))
            return &options_table[i];
    return NULL;
}

void options_limits(const char *name, double *low, double *high)
{
    const option *t = option_find(name);
    *low = t->low;
    *high = t->high;
}

void options_parse(options *o, int argc, char **argv)
{
    int help = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            help = 1;
            continue;
        }
        const option *t = strncmp(argv[i], "--", 2) ? NULL : option_find(argv[i] + 2);
        if (!t)
            die("unknown option '%s'; --help lists them", argv[i]);
        if (t->kind == FLAG) {
            *(int64_t *)((char *)o + t->offset) = 1;
        } else if (t->kind == FILES) {
            files *list = (files *)((char *)o + t->offset);
            list->count = 0;
            while (i + 1 < argc && strncmp(argv[i + 1], "--", 2)) {
                if (list->count == MAX_FILES)
                    die("--%s: more than %d files", t->name, MAX_FILES);
                list->path[list->count++] = argv[++i];
            }
            if (!list->count)
                die("--%s: no file is named", t->name);
        } else {
            if (i + 1 == argc)
                die("--%s: its value is missing", t->name);
            option_set(o, t, argv[++i]);
        }
    }
    if (help)
        usage(o->preset);
}
