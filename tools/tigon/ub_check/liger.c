/* tools/tigon/ub_check/liger.c - what becomes of Liger's Triton kernels: the block
 * that its UB manager chooses, and the bits that the compiler wants for it, with and
 * without multi-buffering. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tigon/tigon.h>

#include "share/names.h"
#include "ub_check.h"

typedef enum form {
    COLUMNS,      /* pieces of a row */
    FLAT,         /* pieces of the whole */
    HEADS,        /* heads x head size: some heads at a time */
    PADDED_HEADS, /* the same, padded to powers of two before the manager is asked */
    NARROW        /* some rows of up to 128 columns */
} form;

typedef struct liger_kernel {
    const char *name;
    form form;
    double margin, multiplier;
    int dtype_bytes;
    int64_t floor, whole;
} liger_kernel;

static const liger_kernel kernels[] = {
#define LIGER(name, form, margin, multiplier, bytes, floor, whole) \
    {#name, form, margin, multiplier, bytes, floor, whole},
#include "liger.inc"
#undef LIGER
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

const char *ub_liger_name(int kernel)
{
    return kernel < KERNELS ? kernels[kernel].name : NULL;
}

static int64_t padded(int64_t n)
{
    int64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The tile of a kernel in a UB of that capacity. */
static tg_status liger_tile(const liger_kernel *k, ub_size size, int dtype_bytes, int64_t capacity,
                            ub_size *tile)
{
    if (k->whole && size.columns <= k->whole) {
        const int64_t columns = padded(size.columns), rows = k->whole / columns;
        *tile = (ub_size){rows ? rows : 1, columns};
        return TG_OK;
    }
    const int64_t narrow = padded(least(size.columns, 128));
    const ub_size shapes[] = {[COLUMNS] = {0, size.columns},
                              [FLAT] = {0, size.rows * size.columns},
                              [HEADS] = size,
                              [PADDED_HEADS] = {padded(size.rows), padded(size.columns)},
                              [NARROW] = {size.rows, narrow}};
    const int by_columns = k->form == COLUMNS || k->form == FLAT;
    const int64_t sizes[] = {by_columns ? shapes[k->form].columns : shapes[k->form].rows,
                             shapes[k->form].columns};
    const int64_t first = 0;
    const tg_ub_list shape = {by_columns ? 1 : 2, sizes}, dims = {1, &first};
    const tg_ub_tiling tiling = {.capacity_bits = capacity,
                                 .safety_margin = k->margin,
                                 .dtype_size = dtype_bytes,
                                 .memory_multiplier = k->multiplier,
                                 .nshapes = 1,
                                 .shapes = &shape,
                                 .ntiling_dims = 1,
                                 .tiling_dims = &dims,
                                 .uncapped = 1}; /* the kernels are those of before the cap */
    int64_t block[2] = {0, 0}, *const blocks[] = {block};
    int answered;
    const tg_status status = tg_ub_default_tiling(&tiling, blocks, &answered);
    const int64_t tiled = block[0] > k->floor ? block[0] : k->floor;
    *tile = by_columns ? (ub_size){1, tiled} : (ub_size){tiled, block[1]};
    return status;
}

/* What it comes to on one chip. */
typedef struct outcome {
    ub_size tile;
    int64_t bits[2]; /* wanted with the fewer and the more copies */
} outcome;

static tg_status predict(const liger_kernel *k, ub_size size, int dtype_bytes, int64_t capacity,
                         const int64_t *copies, outcome *o)
{
    const int bytes = k->dtype_bytes ? k->dtype_bytes : dtype_bytes;
    const tg_status status = liger_tile(k, size, bytes, capacity, &o->tile);
    const double bits = (double)o->tile.rows * (double)o->tile.columns * k->multiplier * bytes * 8;
    for (int i = 0; i < 2; i++)
        o->bits[i] = (int64_t)(bits * (double)copies[i]);
    return status;
}

static void print_outcome(const char *chip, int64_t capacity, const outcome *o,
                          const int64_t *copies, int ncopies)
{
    char tile[64];
    snprintf(tile, sizeof tile, "%" PRId64 " x %" PRId64, o->tile.rows, o->tile.columns);
    for (int i = 0; i < ncopies; i++)
        printf("  %-8s %-14s %6" PRId64 " %10" PRId64 " %10" PRId64 "  %s\n", chip, tile, copies[i],
               o->bits[i], capacity, o->bits[i] > capacity ? "ub overflow" : "fits");
}

static void json_outcome(json *j, const char *chip, int64_t capacity, const outcome *o,
                         const int64_t *copies, int ncopies)
{
    for (int i = 0; i < ncopies; i++) {
        json_object(j, NULL);
        json_text(j, "chip", chip);
        json_int(j, "tile_rows", o->tile.rows);
        json_int(j, "tile_columns", o->tile.columns);
        json_int(j, "copies", copies[i]);
        json_int(j, "wanted_bits", o->bits[i]);
        json_int(j, "available_bits", capacity);
        json_bool(j, "fits", o->bits[i] <= capacity);
        json_close(j);
    }
}

static int report(const cli_usage *usage, const liger_kernel *k, const ub_liger *asked, json *j)
{
    const int64_t copies[] = {asked->copies ? asked->copies : 1, 2};
    const int ncopies = asked->copies ? 1 : 2;
    outcome here, there;
    if (predict(k, asked->size, asked->dtype_bytes, asked->chip->capacity_bits, copies, &here))
        return cli_error(usage, "%s", tg_last_error());
    if (j) {
        json_object(j, NULL);
        json_text(j, "liger", k->name);
        json_int(j, "rows", asked->size.rows);
        json_int(j, "columns", asked->size.columns);
        json_real(j, "safety_margin", k->margin);
        json_real(j, "memory_multiplier", k->multiplier);
        json_text(j, "capacity_source", asked->chip->source);
        json_array(j, "here");
        json_outcome(j, asked->chip->name, asked->chip->capacity_bits, &here, copies, ncopies);
        json_close(j);
        json_array(j, "chips");
    } else {
        printf("Liger's %s, %" PRId64 " x %" PRId64
               ", with its UB manager's margin %g and %g tiles "
               "alive at once\ncapacity: %s\n\n  %-8s %-14s %6s %10s %10s\n",
               k->name, asked->size.rows, asked->size.columns, k->margin, k->multiplier,
               asked->chip->source, "chip", "tile", "copies", "wants bits", "available");
        print_outcome("here", asked->chip->capacity_bits, &here, copies, ncopies);
    }
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *c = tg_npu_chip_at(i);
        if (predict(k, asked->size, asked->dtype_bytes, 8 * c->ub_bytes, copies, &there))
            continue;
        if (j)
            json_outcome(j, c->name, 8 * c->ub_bytes, &there, copies, ncopies);
        else
            print_outcome(c->name, 8 * c->ub_bytes, &there, copies, ncopies);
    }
    if (j) {
        json_close(j);
        json_close(j);
    } else if (!asked->copies)
        printf("\n2 copies: the compiler's multi-buffering, on by default from triton-ascend 3.2.2 "
               "on\n");
    return here.bits[ncopies - 1] > asked->chip->capacity_bits;
}

static const liger_kernel *find(const char *name)
{
    for (int i = 0; i < KERNELS; i++)
        if (!strcmp(kernels[i].name, name))
            return &kernels[i];
    return NULL;
}

/* A whole name is that of one kernel; else all that begin so are answered, as JSON in an array. */
int ub_report_liger(const cli_usage *usage, const char *name, const ub_liger *asked, int as_json)
{
    const liger_kernel *const exact = find(name);
    json j = json_begin(stdout, exact ? 3 : 5), *const to = as_json ? &j : NULL;
    int status = 0, found = 0;
    for (int i = 0; i < KERNELS && status < 2; i++) {
        const liger_kernel *k = &kernels[i];
        if (exact ? k != exact : !name_begins(k->name, name))
            continue;
        if (!found++ && to && !exact) {
            json_object(to, NULL);
            json_array(to, "kernels");
        } else if (found > 1 && !to)
            printf("\n");
        const int one = report(usage, k, asked, to);
        status = one > status ? one : status;
    }
    if (!found)
        return cli_error(
            usage, "--liger: found \"%s\", expected a kernel that tigon ub-check lists", name);
    while (j.depth)
        json_close(&j);
    if (to && (status < 2 || !exact))
        json_end(to);
    return status;
}
