/* cards.c - NCCL, on a stream beside the computation's. */
#include "cards.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../run.h"
#include "nccl.h"
#include "ranks.h"

#define MEMBER(name, ours, arguments) int(*ours) arguments;
static struct {
    NCCL_CALLS(MEMBER)
    const char *(*error)(int);
    nccl_comm all;
} nccl;
static struct {
    DRIVER_CALLS(MEMBER)
    void *stream, *event; /* NCCL's; of a moment of either stream */
} card;

/* ---- which card ---- */

void cards_choose(int place, int beside)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char own[64];
    int length, there = 1;
    if (beside == 1)
        return;
    if (!list) {
        snprintf(own, sizeof(own), "%d", place);
        setenv("CUDA_VISIBLE_DEVICES", own, 1);
        return;
    }
    for (const char *c = list; *c; c++)
        there += *c == ',';
    if (there < beside) /* the launcher has given each rank its own, or there are too few */
        return;
    for (; place > 0; place--)
        list = strchr(list, ',') + 1;
    length = (int)strcspn(list, ",");
    snprintf(own, sizeof(own), "%.*s", length, list);
    setenv("CUDA_VISIBLE_DEVICES", own, 1);
}

/* ---- the libraries ---- */

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        die("NCCL or CUDA's driver: %s", dlerror());
    return found;
}

#define FIND_NCCL(name, ours, arguments) *(void **)&nccl.ours = function(library, #name);
#define FIND_CARD(name, ours, arguments) *(void **)&card.ours = function(library, #name);

static void load(void)
{
    const char *asked = getenv("LLAMA_NCCL"), *file = asked ? asked : "libnccl.so.2";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die("several ranks train on cards through NCCL: %s. pip's nvidia-nccl-cu13 has it; "
            "LLAMA_NCCL names its libnccl.so.2",
            dlerror());
    NCCL_CALLS(FIND_NCCL)
    *(void **)&nccl.error = function(library, "ncclGetErrorString");
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die("%s", dlerror());
    DRIVER_CALLS(FIND_CARD)
}

static void must_nccl(int error)
{
    if (error)
        die("NCCL: %s", nccl.error(error));
}

static void must_drive(int error)
{
    if (error)
        die("CUDA's driver answers error %d", error);
}

/* Rank 0 has it made; the others get it. */
static nccl_id shared_id(void)
{
    nccl_id id;
    transfers *t = ranks_transfers(ranks_count());
    if (ranks_here() == 0) {
        must_nccl(nccl.get_id(&id));
        for (int r = 1; r < ranks_count(); r++)
            ranks_send(t, r, &id, sizeof(id));
    } else {
        ranks_receive(t, 0, &id, sizeof(id));
    }
    ranks_wait(t);
    free(t);
    return id;
}

void cards_open(void)
{
    void *context;
    load();
    must_drive(card.init(0));
    must_drive(card.retain(&context, 0));
    must_drive(card.set_current(context));
    must_drive(card.new_stream(&card.stream, CU_STREAM_ALONE));
    must_drive(card.new_event(&card.event, CU_EVENT_UNTIMED));
    must_nccl(nccl.join(&nccl.all, ranks_count(), shared_id(), ranks_here()));
}

/* ---- sums and copies ---- */

/* What comes on one stream comes behind what is on the other one now. */
static void put_behind(void *stream, void *other)
{
    must_drive(card.record(card.event, other));
    must_drive(card.wait(stream, card.event, 0));
}

void cards_begin(void *stream)
{
    put_behind(card.stream, stream);
    must_nccl(nccl.group_start());
}

void cards_end(void)
{
    must_nccl(nccl.group_end());
}

void cards_sum(const float *all, const int *counts, const int *starts, float *own)
{
    for (int r = 0; r < ranks_count(); r++)
        if (counts[r])
            must_nccl(nccl.reduce(all + starts[r], own, (size_t)counts[r], NCCL_F32, NCCL_SUM, r,
                                  nccl.all, card.stream));
}

void cards_share(void *all, const int *counts, const int *starts, size_t element)
{
    for (int r = 0; r < ranks_count(); r++) {
        char *at = (char *)all + (size_t)starts[r] * element;
        if (counts[r])
            must_nccl(nccl.broadcast(at, at, (size_t)counts[r] * element, NCCL_BYTES, r, nccl.all,
                                     card.stream));
    }
}

void cards_send(const void *data, size_t bytes, int to)
{
    must_nccl(nccl.send(data, bytes, NCCL_BYTES, to, nccl.all, card.stream));
}

void cards_receive(void *data, size_t bytes, int from)
{
    must_nccl(nccl.receive(data, bytes, NCCL_BYTES, from, nccl.all, card.stream));
}

void cards_merge(void *stream, float *values, size_t count)
{
    put_behind(card.stream, stream);
    must_nccl(nccl.all_reduce(values, values, count, NCCL_F32, NCCL_SUM, nccl.all, card.stream));
}

void cards_join(void *stream)
{
    put_behind(stream, card.stream);
}

void cards_mark(void **moment)
{
    if (!*moment)
        must_drive(card.new_event(moment, CU_EVENT_UNTIMED));
    must_drive(card.record(*moment, card.stream));
}

void cards_wait(void *stream, void *moment)
{
    must_drive(card.wait(stream, moment, 0));
}
