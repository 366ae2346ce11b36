/* model_record.c - what the model tells of a launch: its faults, its times, its calls. */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

enum { LOGGED_FAULTS = 8 };

static void place_of(const ascsim_fault *f, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    if (f->file)
        used = (size_t)snprintf(text, size, " (%s:%d", f->file, f->line);
    if (f->file && f->other_file && used < size)
        used += (size_t)snprintf(text + used, size - used, ", against %s:%d", f->other_file,
                                 f->other_line);
    if (f->file && used < size)
        snprintf(text + used, size - used, ")");
}

tg_status ascend_model_faults(ascsim *sim, const ascend_call *l, int stopped)
{
    const ascsim_fault *f;
    char place[512];
    const int n = ascend_ascsim.faults(sim, &f);
    for (int i = 1; i < n && i < LOGGED_FAULTS; i++) {
        place_of(&f[i], place, sizeof place);
        ascend_host->log(NULL, "tigon: npu-model: %s: %s: %s%s, %lld times", l->kernel, f[i].kind,
                         f[i].text, place, (long long)f[i].count);
    }
    if (n > 0) {
        place_of(&f[0], place, sizeof place);
        ascend_host->fail(TG_EDEVICE, "npu-model: %s: %s in block %d: %s%s; %d kinds of fault",
                          l->kernel, f[0].kind, f[0].block, f[0].text, place, n);
        ascend_ascsim.clear_faults(sim);
        return TG_EDEVICE;
    }
    return stopped ? ascend_host->fail(TG_EDEVICE, "npu-model: %s: %s", l->kernel,
                                       ascend_ascsim.error())
                   : TG_OK;
}

void ascend_model_time(const ascsim_time *time, const char *soc, tg_npu_launch *to)
{
    to->us = time->task_us;
    to->low_us = time->low_us;
    to->high_us = time->high_us;
    to->read_bytes = time->gm_read_bytes;
    to->write_bytes = time->gm_write_bytes;
    to->vector_us = time->busy_us[ASCSIM_V];
    to->read_us = time->busy_us[ASCSIM_MTE2];
    to->write_us = time->busy_us[ASCSIM_MTE3];
    to->start_us = time->start_us;
    to->hbm_bytes_per_second = ascend_ascsim.chip_fact(soc, "hbm_bytes_per_second");
    to->bound = time->bound;
}

tg_status ascend_model_record(ascsim *sim, tg_npu_record *to)
{
    const tg_npu_launch *launch = to->launch;
    const ascsim_line *lines;
    const int n = ascend_ascsim.last_lines(sim, &lines);
    if (n < 0) /* it was too long to be timed */
        return TG_OK;
    tg_npu_call *calls = malloc((size_t)(n + 1) * sizeof *calls);
    if (!calls)
        return ascend_host->fail(TG_ENOMEM, "npu-model: no memory for the record of %s",
                                 launch->kernel);
    for (int i = 0; i < n; i++)
        calls[i] = (tg_npu_call){.file = lines[i].file,
                                 .line = lines[i].line,
                                 .name = lines[i].call,
                                 .pipe = lines[i].pipe,
                                 .times = lines[i].times,
                                 .busy_us = lines[i].busy_us,
                                 .wait_us = lines[i].wait_us};
    to->calls = calls;
    to->ncalls = n;
    for (int i = 0; launch->plan && i < launch->plan->nbuffers; i++) {
        const tg_ub_place *p = &launch->layout->place[i];
        const int copies = launch->plan->buffers[i].copies;
        to->used[i] = 0;
        for (int k = 0; p->used && k < (copies > 1 ? copies : 1); k++)
            to->used[i] += ascend_ascsim.last_ub(sim, p->offset + k * p->copy_stride, p->bytes);
    }
    return TG_OK;
}
