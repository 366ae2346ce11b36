/* checkpoint.c - the folder: what is in it, in which order it is written. */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"
#include "ranks/ranks.h"
#include "read_json.h"
#include "safetensors.h"

static void path_in(char *path, size_t size, const char *folder, const char *name)
{
    if ((size_t)snprintf(path, size, "%s/%s", folder, name) >= size)
        die("%.40s...: the path is too long", folder);
}

static void optimizer_name(char *name, size_t size, int64_t step)
{
    snprintf(name, size, "optimizer-%06" PRId64 ".safetensors", step);
}

void checkpoint_prepare(const options *o)
{
    char path[4096];
    make_folders(o->out);
    path_in(path, sizeof(path), o->out, "model.safetensors");
    if (!o->resume && !access(path, F_OK))
        die("%s holds a checkpoint; go on from it with --resume, or name another folder", o->out);
    if (access(o->out, W_OK))
        die("%s: %s", o->out, strerror(errno));
}

/* ---- saving ---- */

static void write_config(const model *m)
{
    const options *o = m->o;
    char path[4096], text[2048], rope[256] = "null";
    char more[512] = "";
    if (o->qk_norm)
        strcpy(more, ",\n  \"use_sliding_window\": false");
    if (o->experts)
        snprintf(more + strlen(more), sizeof(more) - strlen(more),
                 ",\n  \"num_experts\": %lld,\n  \"num_experts_per_tok\": %lld,\n"
                 "  \"moe_intermediate_size\": %lld,\n  \"norm_topk_prob\": %s,\n"
                 "  \"router_aux_loss_coef\": %#.17g,\n  \"decoder_sparse_step\": 1,\n"
                 "  \"mlp_only_layers\": []",
                 (long long)o->experts, (long long)o->experts_used, (long long)o->expert_ff,
                 o->raw_weights ? "false" : "true", o->balance);
    if (o->rope_factor > 0)
        snprintf(rope, sizeof(rope),
                 "{\"rope_type\": \"llama3\", \"factor\": %.17g, \"low_freq_factor\": %.17g, "
                 "\"high_freq_factor\": %.17g, \"original_max_position_embeddings\": %.0f}",
                 o->rope_factor, o->rope_low, o->rope_high, o->rope_window);
    const int n = snprintf(
        text, sizeof(text),
        "{\n  \"architectures\": [\"%sForCausalLM\"],\n  \"model_type\": \"%s\",\n"
        "  \"hidden_size\": %lld,\n  \"intermediate_size\": %lld,\n"
        "  \"num_hidden_layers\": %lld,\n  \"num_attention_heads\": %lld,\n"
        "  \"num_key_value_heads\": %lld,\n  \"head_dim\": %lld,\n  \"vocab_size\": %lld,\n"
        "  \"max_position_embeddings\": %lld,\n  \"rms_norm_eps\": %.17g,\n"
        "  \"rope_theta\": %.17g,\n  \"rope_scaling\": %s,\n  \"tie_word_embeddings\": %s,\n"
        "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n  \"mlp_bias\": false,\n"
        "  \"attention_dropout\": 0.0,\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n"
        "  \"pad_token_id\": null,\n  \"use_cache\": true,\n  \"torch_dtype\": \"%s\"%s\n}\n",
        o->experts   ? "Qwen3Moe"
        : o->qk_norm ? "Qwen3"
                     : "Llama",
        o->experts   ? "qwen3_moe"
        : o->qk_norm ? "qwen3"
                     : "llama",
        (long long)o->width, (long long)o->ff, (long long)o->layers, (long long)o->heads,
        (long long)o->kv_heads, (long long)m->head_dim, (long long)o->vocab, (long long)o->seq,
        o->eps, o->theta, rope, o->untied ? "false" : "true",
        m->type == TG_F32 ? "float32" : "bfloat16", more);
    path_in(path, sizeof(path), o->out, "config.json");
    new_file f;
    new_file_open(&f, path);
    new_file_write(&f, text, (size_t)n);
    new_file_commit(&f);
}

static void save_option(void *metadata, const char *name, const char *value)
{
    if (!cJSON_AddStringToObject(metadata, name, value))
        die("out of memory");
}

/* Whether a name is that of an optimizer's state, or of one that is being written. */
static int is_optimizer(const char *name)
{
    long long step;
    int end = 0;
    return sscanf(name, "optimizer-%lld.safetensors%n", &step, &end) == 1 && end &&
           (!name[end] || !strcmp(name + end, ".tmp"));
}

int checkpoint_has(const char *name)
{
    static const char *const names[] = {"config.json", "config.json.tmp", "model.safetensors",
                                        "model.safetensors.tmp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(name, names[i]))
            return 1;
    return is_optimizer(name);
}

/* Optimizer states of other steps than this one, and what a killed run has left of writing one. */
static void remove_old(const char *folder, const char *keep)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        if (!is_optimizer(e->d_name) || !strcmp(e->d_name, keep))
            continue;
        path_in(path, sizeof(path), folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
}

void checkpoint_save(const model *m, int64_t step, uint64_t data_hash)
{
    const options *o = m->o;
    char path[4096], name[64], text[32];
    cJSON *metadata = cJSON_CreateObject();
    save_option(metadata, "format", "pt");
    snprintf(text, sizeof(text), "%" PRId64, step);
    save_option(metadata, "step", text);
    snprintf(text, sizeof(text), "%" PRIx64, data_hash);
    save_option(metadata, "data_hash", text);
    options_each_saved(o, save_option, metadata);
    model_from_device(m);
    if (ranks_here() == 0)
        write_config(m);
    optimizer_name(name, sizeof(name), step);
    path_in(path, sizeof(path), o->out, name);
    const arena state[] = {{"exp_avg.", TG_F32, m->m, 1},
                           {"exp_avg_sq.", TG_F32, m->v, 1},
                           {"master.", TG_F32, m->master, 1}};
    safetensors_write(path, metadata, m, state, m->master ? 3 : 2);
    path_in(path, sizeof(path), o->out, "model.safetensors");
    safetensors_write(path, metadata, m, &(arena){"", m->type, m->param, 0}, 1);
    if (ranks_here() == 0)
        remove_old(o->out, name);
    cJSON_Delete(metadata);
}

/* ---- loading ---- */

static void open_model(safetensors *s, char *path, size_t size, const char *folder)
{
    path_in(path, size, folder, "model.safetensors");
    if (!safetensors_open(s, path, 0))
        die("%s: there is no checkpoint to resume from", folder);
}

/* The sizes that config.json tells must be those of the checkpoint: a resumed course keeps them. */
static void check_config(const char *folder, const options *o)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"hidden_size", o->width},
                 {"intermediate_size", o->ff},
                 {"num_hidden_layers", o->layers},
                 {"num_attention_heads", o->heads},
                 {"num_key_value_heads", o->kv_heads},
                 {"head_dim", options_head_dim(o)},
                 {"vocab_size", o->vocab}};
    char path[4096];
    path_in(path, sizeof(path), folder, "config.json");
    cJSON *config = json_read(path, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(config, sizes[i].key);
        if (cJSON_GetNumberValue(value) != (double)sizes[i].value)
            die("%s: %s is %s, expected %lld as in model.safetensors", path, sizes[i].key,
                json_shown(value), (long long)sizes[i].value);
    }
    cJSON_Delete(config);
}

void checkpoint_options(const char *folder, options *o)
{
    safetensors s;
    char path[4096];
    open_model(&s, path, sizeof(path), folder);
    const cJSON *item;
    cJSON_ArrayForEach(item, safetensors_metadata(&s))
    {
        char *value = cJSON_IsString(item) ? strdup(item->valuestring) : NULL;
        if (value)
            options_set_saved(o, item->string, value); /* the options point into it */
    }
    safetensors_close(&s);
    check_config(folder, o);
}

int64_t checkpoint_load(model *m, uint64_t data_hash)
{
    const options *o = m->o;
    safetensors s;
    char path[4096], name[64], hash[32];
    open_model(&s, path, sizeof(path), o->out);
    const char *text = safetensors_text(&s, "step"), *data = safetensors_text(&s, "data_hash");
    if (!text)
        die("%s: its metadata tell no step", path);
    const int64_t step = strtoll(text, NULL, 10);
    if (step > o->steps)
        die("%s has done %lld steps already, --steps asks for %lld", o->out, (long long)step,
            (long long)o->steps);
    snprintf(hash, sizeof(hash), "%" PRIx64, data_hash);
    if (data_hash && (!data || strcmp(data, hash)))
        die("%s was trained on other data; name the same files", o->out);
    safetensors_read(&s, m, &(arena){"", m->type, m->param, 0});
    safetensors_all_read(&s);
    safetensors_close(&s);
    if (!m->m) {
        model_to_device(m);
        return step;
    }
    optimizer_name(name, sizeof(name), step);
    path_in(path, sizeof(path), o->out, name);
    safetensors_open(&s, path, 1);
    safetensors_read(&s, m, &(arena){"exp_avg.", TG_F32, m->m, 1});
    safetensors_read(&s, m, &(arena){"exp_avg_sq.", TG_F32, m->v, 1});
    if (m->master)
        safetensors_read(&s, m, &(arena){"master.", TG_F32, m->master, 1});
    safetensors_all_read(&s);
    safetensors_close(&s);
    model_to_device(m);
    return step;
}
