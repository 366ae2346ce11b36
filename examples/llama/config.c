/* config.c - config.json, as transformers writes it, to options. What is not said there is what
 * transformers takes for it. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "load.h"
#include "read_json.h"

/* An object of the file, and what messages call it. */
typedef struct object {
    const cJSON *json;
    const char *name;
} object;

static const cJSON *get(object of, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(of.json, key);
    return cJSON_IsNull(value) ? NULL : value;
}

static void refuse(object of, const char *key, const char *expected)
{
    die("%s: %s: expected %s, found %s", of.name, key, expected, json_shown(get(of, key)));
}

/* A number that the option may have, too; `without` if there is none. */
static double number_of(object of, const char *key, const char *option, double without, int whole)
{
    char expected[64];
    double low, high;
    const cJSON *value = get(of, key);
    if (!value)
        return without;
    options_limits(option, &low, &high);
    snprintf(expected, sizeof(expected), "a%s number in [%.8g, %.8g]", whole ? " whole" : "", low,
             high);
    const double found = cJSON_GetNumberValue(value);
    if (!(found >= low && found <= high) || (whole && found != floor(found)))
        refuse(of, key, expected);
    return found;
}

static double number(object of, const char *key, const char *option, double without)
{
    return number_of(of, key, option, without, 0);
}

static int64_t size(object of, const char *key, const char *option, int64_t without)
{
    return (int64_t)number_of(of, key, option, (double)without, 1);
}

/* ---- rotary frequencies ---- */

enum { FACTOR, LOW, HIGH, WINDOW, NUMBERS };
static const struct rope_number {
    const char *key, *option;
} rope_numbers[NUMBERS] = {{"factor", "rope-factor"},
                           {"low_freq_factor", "rope-low"},
                           {"high_freq_factor", "rope-high"},
                           {"original_max_position_embeddings", "rope-window"}};

typedef struct rope {
    int scaled;
    double theta; /* NaN: not said */
    double number[NUMBERS];
} rope;

/* Whether these are scaled as in Llama 3.1; no others are computed here but those that are not
 * scaled. Older files say `type`. */
static int is_scaled(object of)
{
    const cJSON *type = get(of, "rope_type"), *old = get(of, "type");
    if (type && old && !cJSON_Compare(type, old, 1))
        refuse(of, "type", "what rope_type says");
    const cJSON *said = type ? type : old;
    const char *text = said ? cJSON_GetStringValue(said) : "default";
    if (!text || (strcmp(text, "default") && strcmp(text, "llama3")))
        refuse(of, type ? "rope_type" : "type", "default or llama3 as the rope_type");
    return !strcmp(text, "llama3");
}

/* No other settings than those that are computed with. */
static void check_rope_keys(object of, int scaled)
{
    static const char *const known[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
    const cJSON *item;
    cJSON_ArrayForEach(item, of.json)
    {
        int found = cJSON_IsNull(item);
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found |= !strcmp(item->string, known[i]);
        for (int i = 0; i < NUMBERS && scaled; i++)
            found |= !strcmp(item->string, rope_numbers[i].key);
        if (!found)
            refuse(of, item->string,
                   scaled ? "nothing of that name"
                          : "nothing of that name, frequencies being unscaled");
    }
}

/* The window may stand elsewhere, and is the model's own if it stands nowhere. */
static double window_of(object config, object of)
{
    const char *key = rope_numbers[WINDOW].key;
    const double own = number(of, key, "rope-window", NAN);
    const double outer = number(config, key, "rope-window", own);
    if (!isnan(own) && own != outer)
        refuse(config, key, "the same everywhere");
    return isnan(outer) ? number(config, "max_position_embeddings", "rope-window", NAN) : outer;
}

static void read_scaling(object config, object of, double *numbers)
{
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = i == WINDOW ? window_of(config, of)
                                 : number(of, rope_numbers[i].key, rope_numbers[i].option, NAN);
        if (isnan(numbers[i]))
            refuse(of, rope_numbers[i].key, "a number for rope_type llama3");
    }
    if (numbers[FACTOR] < 1)
        refuse(of, "factor", "1 at least");
    if (!(numbers[LOW] > 0 && numbers[HIGH] > numbers[LOW]))
        refuse(of, "low_freq_factor", "above 0, and below high_freq_factor");
}

/* An object of the configuration that tells of frequencies; 0 if it is not
 * there, or says nothing. */
static int read_rope(object config, const char *key, rope *r)
{
    char name[4200];
    const cJSON *json = get(config, key);
    const object of = {json, name};
    snprintf(name, sizeof(name), "%s: %s", config.name, key);
    if (json && !cJSON_IsObject(json))
        refuse(config, key, "an object");
    if (!json || !json->child)
        return 0;
    *r = (rope){.scaled = is_scaled(of), .theta = number(of, "rope_theta", "theta", NAN)};
    check_rope_keys(of, r->scaled);
    if (number(of, "partial_rotary_factor", "rope-factor", 1) != 1)
        refuse(of, "partial_rotary_factor", "1");
    if (r->scaled)
        read_scaling(config, of, r->number);
    return 1;
}

static int same(const rope *a, const rope *b)
{
    return a->scaled == b->scaled && !memcmp(a->number, b->number, sizeof(a->number));
}

/* Newer files have rope_parameters, older ones rope_scaling and rope_theta. What is said twice
 * must be the same. */
static void read_frequencies(object config, options *o)
{
    rope newer = {.theta = NAN}, older = {.theta = NAN};
    const int has_newer = read_rope(config, "rope_parameters", &newer);
    const int has_older = read_rope(config, "rope_scaling", &older);
    if (has_newer && has_older && !same(&newer, &older))
        refuse(config, "rope_scaling", "what rope_parameters say");
    const double thetas[] = {newer.theta, older.theta, number(config, "rope_theta", "theta", NAN)};
    const rope r = has_newer ? newer : older;
    o->theta = NAN;
    for (int i = 0; i < 3; i++) {
        if (!isnan(o->theta) && !isnan(thetas[i]) && thetas[i] != o->theta)
            refuse(config, "rope_theta", "the same everywhere");
        o->theta = isnan(thetas[i]) ? o->theta : thetas[i];
    }
    o->theta = isnan(o->theta) ? 10000 : o->theta;
    if (number(config, "partial_rotary_factor", "rope-factor", 1) != 1)
        refuse(config, "partial_rotary_factor", "1");
    o->rope_factor = 0;
    if (!r.scaled)
        return;
    o->rope_factor = r.number[FACTOR];
    o->rope_low = r.number[LOW];
    o->rope_high = r.number[HIGH];
    o->rope_window = r.number[WINDOW];
}

/* ---- the model ---- */

static const struct size_key {
    const char *key, *option;
    size_t at;
} sizes[] = {{"num_hidden_layers", "layers", offsetof(options, layers)},
             {"hidden_size", "width", offsetof(options, width)},
             {"num_attention_heads", "heads", offsetof(options, heads)},
             {"intermediate_size", "ff", offsetof(options, ff)},
             {"vocab_size", "vocab", offsetof(options, vocab)}};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* For these transformers has defaults of its own, those of another model: what is missing is told
 * by name, all of it. */
static void check_all_there(object config)
{
    char missing[256] = "";
    if (!get(config, "model_type"))
        strcat(missing, ", model_type (expected llama, qwen3 or qwen3_moe)");
    for (int i = 0; i < SIZES; i++)
        if (!get(config, sizes[i].key))
            strcat(strcat(missing, ", "), sizes[i].key);
    if (*missing)
        die("%s: missing: %s", config.name, missing + 2);
}

static void expect_text(object config, const char *key, const char *expected, const char *or_else)
{
    const cJSON *value = get(config, key);
    const char *text = cJSON_GetStringValue(value);
    if (value && (!text || (strcmp(text, expected) && strcmp(text, or_else))))
        refuse(config, key, expected);
}

static void expect_false(object config, const char *key)
{
    const cJSON *value = get(config, key);
    if (value && !cJSON_IsFalse(value))
        refuse(config, key, "false");
}

static void check_relations(object config, const options *o)
{
    if (!o->head_dim && (o->width % o->heads || o->width / o->heads % 2))
        refuse(config, "hidden_size", "num_attention_heads times an even number");
    if (o->head_dim % 2)
        refuse(config, "head_dim", "an even number");
    if (o->heads % o->kv_heads)
        refuse(config, "num_key_value_heads", "a divisor of num_attention_heads");
}

/* What tells Qwen3 from Llama: queries and keys are normalised, and what is not said is other
 * numbers. No layer has a window. */
static void read_model_type(object config, options *o)
{
    const char *type = cJSON_GetStringValue(get(config, "model_type"));
    const int qwen3 = type && !strcmp(type, "qwen3"), moe = type && !strcmp(type, "qwen3_moe");
    if (get(config, "model_type") && !qwen3 && !moe && (!type || strcmp(type, "llama")))
        refuse(config, "model_type", "llama, qwen3 or qwen3_moe");
    o->qk_norm = qwen3 || moe;
    o->experts = moe; /* read_experts() tells how many */
    const cJSON *item;
    cJSON_ArrayForEach(item,
                       get(config, "layer_types")) if (!cJSON_IsString(item) ||
                                                       strcmp(item->valuestring, "full_attention"))
        refuse(config, "layer_types", "full_attention alone");
    expect_false(config, "use_sliding_window");
}

/* 0, if it is as wide as the stream over the heads. */
static int64_t read_head_dim(object config, const options *o)
{
    enum { QWEN3 = 128 };
    const int64_t plain = o->width % o->heads ? 0 : o->width / o->heads,
                  found = size(config, "head_dim", "head-dim",
                               o->qk_norm && !o->experts ? QWEN3 : plain);
    return found == plain ? 0 : found;
}

/* Of Qwen3-MoE, all of whose layers have experts. */
static void read_experts(object config, options *o)
{
    const char *count = get(config, "num_experts") ? "num_experts" : "num_local_experts";
    const cJSON *raw = get(config, "norm_topk_prob");
    o->experts = size(config, count, "experts", 128);
    o->experts_used = size(config, "num_experts_per_tok", "experts-used", 8);
    o->expert_ff = size(config, "moe_intermediate_size", "expert-ff", 768);
    o->balance = number(config, "router_aux_loss_coef", "balance", 1e-3);
    o->raw_weights = !cJSON_IsTrue(raw);
    if (size(config, "decoder_sparse_step", "experts", 1) != 1)
        refuse(config, "decoder_sparse_step", "1");
    if (cJSON_GetArraySize(get(config, "mlp_only_layers")))
        refuse(config, "mlp_only_layers", "none");
    if (o->experts_used < 1 || o->experts_used > o->experts)
        refuse(config, "num_experts_per_tok", "1 to num_experts");
}

void load_options(const char *folder, options *o)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/config.json", folder) >= (int)sizeof(path))
        die("%.40s...: the path is too long", folder);
    cJSON *json = json_read(path, 1);
    const object config = {json, path};
    read_model_type(config, o);
    check_all_there(config);
    for (int i = 0; i < SIZES; i++)
        *(int64_t *)((char *)o + sizes[i].at) = size(config, sizes[i].key, sizes[i].option, 0);
    o->kv_heads = size(config, "num_key_value_heads", "kv-heads",
                       o->experts   ? 4
                       : o->qk_norm ? 32
                                    : o->heads);
    o->head_dim = read_head_dim(config, o);
    if (o->experts)
        read_experts(config, o);
    o->eps = number(config, "rms_norm_eps", "eps", 1e-6);
    expect_text(config, "hidden_act", "silu", "swish");
    expect_false(config, "attention_bias");
    expect_false(config, "mlp_bias");
    const cJSON *tied = get(config, "tie_word_embeddings"),
                *dropout = get(config, "attention_dropout");
    if (tied && !cJSON_IsBool(tied))
        refuse(config, "tie_word_embeddings", "true or false");
    o->untied = !cJSON_IsTrue(tied);
    if (dropout && (!cJSON_IsNumber(dropout) || dropout->valuedouble != 0))
        refuse(config, "attention_dropout", "0");
    if (get(config, "quantization_config"))
        refuse(config, "quantization_config", "none");
    check_relations(config, o);
    read_frequencies(config, o);
    cJSON_Delete(json);
}
