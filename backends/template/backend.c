/* backend.c - the backend describes itself: with a table of what it exports. */
#include "acme.h"

static int is_f32(const tg_tensor *t)
{
    return !t || tg_type_of(t) == TG_F32;
}

/* A row may say beforehand which problems it takes; the others go to the next row. */
static int accepts(const tg_rms_norm_forward_args *args)
{
    return is_f32(args->x) && is_f32(args->weight);
}

static const tg_row rows[] = {
    TG_ROW(rms_norm_forward, "", 0, accepts, acme_rms_norm_forward),
    TG_ROWS_END,
};

static const tg_backend acme = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "acme",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = acme_open,
    .rows = rows,
};

TG_BACKEND_ENTRY
{
    return &acme;
}
