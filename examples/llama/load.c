/* load.c - config.json to options, safetensors to parameters. */
#include "load.h"

#include <stdio.h>
#include <string.h>

#include "safetensors.h"

enum { PATH = 4096 };

static void path_in(char *path, const char *folder, const char *name)
{
    if (snprintf(path, PATH, "%s/%s", folder, name) >= PATH)
        die("%.40s...: the path is too long", folder);
}

/* ---- config.json ---- */

static const cJSON *get(const cJSON *config, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_IsNull(value) ? NULL : value;
}

static double number(const cJSON *config, const char *key, double without)
{
    const cJSON *value = get(config, key);
    return cJSON_IsNumber(value) ? cJSON_GetNumberValue(value) : without;
}

static int64_t size(const cJSON *config, const char *key, int64_t without, const char *path)
{
    const double value = number(config, key, (double)without);
    if (!(value >= 1 && value <= 1 << 24))
        die("%s: %s is missing or wrong", path, key);
    return (int64_t)value;
}

static void refuse(int wrong, const char *path, const char *key, const char *expected)
{
    if (wrong)
        die("%s: %s: expected %s", path, key, expected);
}

/* How the lower frequencies are divided, from Llama 3.1 on; absent before. */
static void read_rope(const cJSON *rope, const char *path, options *o)
{
    const char *type = cJSON_GetStringValue(get(rope, "rope_type"));
    if (!rope || (type && !strcmp(type, "default")))
        return;
    refuse(!type || strcmp(type, "llama3"), path, "rope_type", "default or llama3");
    o->rope_factor = number(rope, "factor", 0);
    o->rope_low = number(rope, "low_freq_factor", 0);
    o->rope_high = number(rope, "high_freq_factor", 0);
    o->rope_window = number(rope, "original_max_position_embeddings", 0);
    refuse(!(o->rope_factor >= 1 && o->rope_window >= 1), path, "rope_type llama3",
           "factor and original_max_position_embeddings");
}

void load_options(const char *folder, options *o)
{
    char path[PATH];
    path_in(path, folder, "config.json");
    cJSON *config = json_read(path, 1);
    const char *kind = cJSON_GetStringValue(get(config, "model_type"));
    const char *act = cJSON_GetStringValue(get(config, "hidden_act"));
    refuse(!kind || strcmp(kind, "llama"), path, "model_type", "llama");
    refuse(act && strcmp(act, "silu"), path, "hidden_act", "silu");
    refuse(cJSON_IsTrue(get(config, "attention_bias")), path, "attention_bias", "false");
    refuse(cJSON_IsTrue(get(config, "mlp_bias")), path, "mlp_bias", "false");
    o->layers = size(config, "num_hidden_layers", 0, path);
    o->width = size(config, "hidden_size", 0, path);
    o->heads = size(config, "num_attention_heads", 0, path);
    o->kv_heads = size(config, "num_key_value_heads", o->heads, path);
    o->ff = size(config, "intermediate_size", 0, path);
    o->vocab = size(config, "vocab_size", 0, path);
    o->untied = !cJSON_IsTrue(get(config, "tie_word_embeddings"));
    o->eps = number(config, "rms_norm_eps", 1e-6);
    refuse(size(config, "head_dim", o->width / o->heads, path) * o->heads != o->width, path,
           "head_dim", "hidden_size over num_attention_heads");
    /* newer files, and older ones */
    const cJSON *rope = get(config, "rope_parameters");
    o->theta = number(rope, "rope_theta", number(config, "rope_theta", 10000));
    read_rope(rope ? rope : get(config, "rope_scaling"), path, o);
    cJSON_Delete(config);
}

/* ---- parameters ---- */

typedef struct place {
    model *m;
    int64_t offset;
} place;

static void take(void *user, int64_t first, const float *values, int64_t n)
{
    const place *to = user;
    for (int64_t i = 0; i < n; i++)
        model_set(to->m, to->offset + first + i, values[i]);
}

/* The file that holds a tensor, by the index. */
static const char *file_of(const cJSON *index, const char *name, const char *path)
{
    const char *file =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(get(index, "weight_map"), name));
    if (!file)
        die("%s: names no file for %s", path, name);
    return file;
}

void load_parameters(model *m, const char *folder)
{
    char index_path[PATH], path[PATH];
    const char *opened = NULL;
    safetensors s;
    part p;
    path_in(index_path, folder, "model.safetensors.index.json");
    cJSON *index = json_read(index_path, 0);
    for (int i = 0; model_part(m, i, &p); i++) {
        const char *file = index ? file_of(index, p.name, index_path) : "model.safetensors";
        if (!opened || strcmp(file, opened)) {
            if (opened)
                safetensors_close(&s);
            path_in(path, folder, file);
            safetensors_open_foreign(&s, path, 1);
            opened = file;
        }
        safetensors_read_part(&s, &p, take, &(place){m, p.offset});
    }
    safetensors_close(&s);
    cJSON_Delete(index);
    model_params_to_device(m);
}
