/* buffers.c - arguments of a kernel from the command line: scalars, and buffers that are filled
 * before and shown after. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

typedef enum { I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, TYPES } element_type;

static const struct {
    const char *name;
    int bytes, scalar; /* scalar: ascsim_arg_kind, or -1 */
} types[TYPES] = {{"i8", 1, -1},
                  {"u8", 1, -1},
                  {"i16", 2, -1},
                  {"u16", 2, -1},
                  {"i32", 4, ASCSIM_ARG_I32},
                  {"u32", 4, ASCSIM_ARG_U32},
                  {"i64", 8, ASCSIM_ARG_I64},
                  {"u64", 8, ASCSIM_ARG_U64},
                  {"f16", 2, -1},
                  {"bf16", 2, -1},
                  {"f32", 4, ASCSIM_ARG_F32}};

static void put(void *memory, int64_t at, int type, double value)
{
    switch ((element_type)type) {
    case F16:
        ((_Float16 *)memory)[at] = (_Float16)value;
        return;
    case BF16: {
        const float single = (float)value;
        uint32_t bits;
        memcpy(&bits, &single, 4);
        ((uint16_t *)memory)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        return;
    }
    case F32:
        ((float *)memory)[at] = (float)value;
        return;
    default: { /* the low bytes of an integer, signed or not */
        const int64_t whole = (int64_t)value;
        memcpy((char *)memory + at * types[type].bytes, &whole, (size_t)types[type].bytes);
    }
    }
}

static double get(const void *memory, int64_t at, int type)
{
    int64_t whole = 0;
    switch ((element_type)type) {
    case F16:
        return (double)((const _Float16 *)memory)[at];
    case BF16: {
        const uint32_t bits = (uint32_t)((const uint16_t *)memory)[at] << 16;
        float single;
        memcpy(&single, &bits, 4);
        return single;
    }
    case F32:
        return ((const float *)memory)[at];
    default:
        memcpy(&whole, (const char *)memory + at * types[type].bytes, (size_t)types[type].bytes);
        if ((type == I8 || type == I16 || type == I32) && types[type].bytes < 8) {
            const int unused = 64 - 8 * types[type].bytes;
            whole = (int64_t)((uint64_t)whole << unused) >> unused;
        }
        return (double)whole;
    }
}

static double random_value(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int fill_file(tool_buffer *buffer, const char *name)
{
    const size_t bytes = (size_t)buffer->elements * (size_t)types[buffer->type].bytes;
    FILE *file = fopen(name, "rb");
    if (!file) {
        return tool_bad("--arg %s: %s: %s", buffer->spec, name, strerror(errno));
    }
    const size_t found = fread(buffer->memory, 1, bytes, file);
    fclose(file);
    return found == bytes ? 0
                          : tool_bad("--arg %s: %s has %zu bytes, expected %zu", buffer->spec, name,
                                     found, bytes);
}

/* FILL of a buffer: none, zeros, ramp, random, @FILE or a number. */
static int fill(tool_buffer *buffer, ascsim *device, const char *how, uint64_t seed)
{
    const int floating = buffer->type >= F16;
    if (strcmp(how, "none") == 0) {
        return 0;
    }
    if (how[0] == '@') {
        if (fill_file(buffer, how + 1) != 0) {
            return TOOL_BAD;
        }
    } else {
        char *end;
        const int ramp = strcmp(how, "ramp") == 0, random = strcmp(how, "random") == 0;
        const double constant = strcmp(how, "zeros") == 0 ? 0 : strtod(how, &end);
        if (!ramp && !random && strcmp(how, "zeros") != 0 && (*end || end == how)) {
            return tool_bad(
                "--arg %s: fill `%s`, expected none, zeros, ramp, random, @FILE or a number",
                buffer->spec, how);
        }
        for (int64_t i = 0; i < buffer->elements; i++) {
            const double chance = random ? random_value(&seed) : 0;
            put(buffer->memory, i, buffer->type,
                ramp ? (double)i
                     : (random ? (floating ? 2 * chance - 1 : floor(100 * chance)) : constant));
        }
    }
    ascsim_written(device, buffer->memory,
                   (size_t)buffer->elements * (size_t)types[buffer->type].bytes);
    return 0;
}

static int type_of(const char *spec, size_t length)
{
    for (int i = 0; i < TYPES; i++) {
        if (strlen(types[i].name) == length && strncmp(spec, types[i].name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static int parse_scalar(tool_buffer *buffer, const char *text)
{
    char *end = NULL;
    errno = 0;
    buffer->arg.kind = (ascsim_arg_kind)types[buffer->type].scalar;
    switch (buffer->type) {
    case F32:
        buffer->arg.v.f32 = strtof(text, &end);
        break;
    case U64:
        buffer->arg.v.u64 = strtoull(text, &end, 0);
        break;
    default: {
        const int64_t value = strtoll(text, &end, 0);
        const int fits =
            buffer->type == I64 || (buffer->type == U32 ? value >= 0 && value <= UINT32_MAX
                                                        : value >= INT32_MIN && value <= INT32_MAX);
        if (!fits) {
            return tool_bad("--arg %s: the value does not fit", buffer->spec);
        }
        buffer->arg.v.i64 = value; /* the low bytes are the smaller types' */
    }
    }
    return end == text || *end || errno ? tool_bad("--arg %s: no number", buffer->spec) : 0;
}

/* What stands behind the commas: print, print=N, save=FILE. */
static int parse_after(tool_buffer *buffer, char *options)
{
    for (char *option = strtok(options, ","); option; option = strtok(NULL, ",")) {
        if (strcmp(option, "print") == 0) {
            buffer->print = buffer->elements < 16 ? buffer->elements : 16;
        } else if (strncmp(option, "print=", 6) == 0 && atoll(option + 6) > 0) {
            buffer->print = atoll(option + 6);
            buffer->print = buffer->print < buffer->elements ? buffer->print : buffer->elements;
        } else if (strncmp(option, "save=", 5) == 0 && option[5]) {
            buffer->save = strdup(option + 5);
        } else {
            return tool_bad("--arg %s: `%s`, expected print, print=N or save=FILE", buffer->spec,
                            option);
        }
    }
    return 0;
}

static int parse_buffer(tool_buffer *buffer, ascsim *device, const char *count, uint64_t seed)
{
    char *end, how[4096];
    buffer->elements = strtoll(count, &end, 0);
    if (end == count || buffer->elements <= 0 || end[0] != ']' || (end[1] != '=' && end[1] != 0)) {
        return tool_bad("--arg %s: expected TYPE[COUNT]=FILL, COUNT above 0", buffer->spec);
    }
    snprintf(how, sizeof how, "%s", end[1] ? end + 2 : "none");
    char *comma = strchr(how, ',');
    if (comma) {
        *comma = 0;
    }
    if (comma && parse_after(buffer, comma + 1) != 0) {
        return TOOL_BAD;
    }
    buffer->memory = ascsim_alloc(
        device, (size_t)buffer->elements * (size_t)types[buffer->type].bytes, buffer->spec);
    if (!buffer->memory) {
        return tool_bad("--arg %s: %s", buffer->spec, ascsim_error());
    }
    buffer->arg = ASCSIM_POINTER(buffer->memory);
    return fill(buffer, device, how, seed);
}

int tool_buffer_parse(tool_buffer *buffer, ascsim *device, const char *spec, uint64_t seed)
{
    const size_t name = strcspn(spec, ":[");
    *buffer = (tool_buffer){.spec = spec, .type = type_of(spec, name), .elements = -1};
    if (buffer->type < 0 || !spec[name]) {
        return tool_bad("--arg %s: expected TYPE:VALUE or TYPE[COUNT]=FILL", spec);
    }
    if (spec[name] == '[') {
        return parse_buffer(buffer, device, spec + name + 1, seed);
    }
    if (types[buffer->type].scalar < 0) {
        return tool_bad("--arg %s: a scalar is i32, u32, i64, u64 or f32", spec);
    }
    return parse_scalar(buffer, spec + name + 1);
}

int tool_buffer_suits(const char *spec, const tool_parameter *parameter)
{
    const size_t name = strcspn(spec, ":[");
    const int type = type_of(spec, name), is_buffer = spec[name] == '[';
    if (type < 0) {
        return 1; /* tool_buffer_parse() says what is wrong with it */
    }
    switch (parameter->kind) {
    case TOOL_POINTER: /* bytes suit all; u64:0 is memory that is absent */
        return is_buffer ? parameter->bytes <= 1 || types[type].bytes == 1 ||
                               parameter->bytes == types[type].bytes
                         : types[type].bytes == 8;
    case TOOL_INTEGER: /* a register holds 32 bits, or 64 */
        return !is_buffer && type < F16 && (types[type].bytes == 8) == (parameter->bytes == 8);
    case TOOL_FLOAT:
        return !is_buffer && type == F32 && parameter->bytes == 4;
    default:
        return 0;
    }
}

int tool_buffer_finish(const tool_buffer *buffer, int index)
{
    if (buffer->print) {
        printf("argument %d, %s:", index, buffer->spec);
        for (int64_t i = 0; i < buffer->print; i++) {
            printf(" %.8g", get(buffer->memory, i, buffer->type));
        }
        puts(buffer->print < buffer->elements ? " ..." : "");
    }
    if (buffer->save) {
        FILE *file = fopen(buffer->save, "wb");
        const size_t size = (size_t)types[buffer->type].bytes, count = (size_t)buffer->elements;
        const int failed = !file || fwrite(buffer->memory, size, count, file) != count;
        if ((file && fclose(file) != 0) || failed) {
            return tool_bad("%s: could not be written", buffer->save);
        }
    }
    return 0;
}
