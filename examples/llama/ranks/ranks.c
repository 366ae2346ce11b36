/* ranks.c - whether there are other ranks, and how to wait for them. */
#include "ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../run.h"
#include "cards.h"
#include "engine.h"

static const engine *carrier; /* NULL: this is the only rank */
static int count = 1, here, beside = 1;
static const volatile sig_atomic_t *told;
static const char *advice;
static transfers *merges;

/* What launchers tell the programs that they start: those of Open MPI, MPICH and Slurm. */
static int is_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK",
                                        "PMIX_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return 1;
    return 0;
}

void ranks_open(void)
{
    if (!is_launched())
        return;
#ifdef LLAMA_MPI
    carrier = &ranks_mpi;
    int place;
    carrier->open(&count, &here, &beside, &place);
    cards_choose(place, beside);
    merges = ranks_transfers(1);
#else
    die("started by mpirun, but built without MPI: install it (Debian: libopenmpi-dev) and build "
        "again");
#endif
}

void ranks_close(void)
{
    if (carrier)
        carrier->close();
}

int ranks_count(void)
{
    return count;
}

int ranks_here(void)
{
    return here;
}

int ranks_threads(void)
{
    cpu_set_t set;
    if (beside == 1 || sched_getaffinity(0, sizeof(set), &set))
        return 0;
    const int allowed = CPU_COUNT(&set), part = (int)sysconf(_SC_NPROCESSORS_ONLN) / beside;
    return part < 1 ? 1 : part < allowed ? part : allowed;
}

void ranks_watch(const volatile sig_atomic_t *flag, const char *words)
{
    told = flag;
    advice = words;
}

transfers *ranks_transfers(int most)
{
    if (!carrier)
        return NULL;
    transfers *t = carrier->transfers(most);
    if (!t)
        die("out of memory");
    return t;
}

void ranks_merge(double *values, int n)
{
    if (count == 1)
        return;
    carrier->merge(merges, values, n);
    ranks_wait(merges);
}

void ranks_send(transfers *t, int to, const void *data, size_t bytes)
{
    carrier->send(t, to, data, bytes);
}

void ranks_receive(transfers *t, int from, void *data, size_t bytes)
{
    carrier->receive(t, from, data, bytes);
}

void ranks_share(transfers *t, void *all, const int *counts, const int *starts, size_t element)
{
    carrier->share(t, all, counts, starts, element);
}

void ranks_sum(transfers *t, const float *all, const int *counts, float *own)
{
    carrier->sum(t, all, counts, own);
}

int ranks_done(transfers *t)
{
    return carrier->done(t);
}

/* A rank that has waited for a while gives its processor away; one that was told to end does not
 * wait for those that may be gone. */
void ranks_wait(transfers *t)
{
    enum { SOON = 1000 };
    double since = 0;
    for (int turns = 0; !ranks_done(t); turns++) {
        if (turns >= SOON)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        if (!told || !*told)
            continue;
        if (since == 0)
            since = now();
        else if (now() - since > 0.3) {
            fprintf(stderr,
                    "llama: rank %d was told to end while it waited for other ranks; one of them "
                    "may be gone. %s\n",
                    here, advice);
            _exit(1); /* not by exit(): MPI's own end would wait for the others */
        }
    }
}
