/* mpi.c - ranks that talk through MPI. Its own waiting takes a processor for itself: here all calls
 * return at once, and ranks.c waits. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

struct transfers {
    int begun, most;
    MPI_Request request[];
};

static void open_mpi(int *count, int *here, int *beside, int *place)
{
    MPI_Comm machine;
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, count);
    MPI_Comm_rank(MPI_COMM_WORLD, here);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, *here, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, beside);
    MPI_Comm_rank(machine, place);
    MPI_Comm_free(&machine);
}

static void close_mpi(void)
{
    MPI_Finalize();
}

static transfers *new_transfers(int most)
{
    transfers *t = malloc(sizeof(*t) + (size_t)most * sizeof(*t->request));
    if (t)
        *t = (transfers){.most = most};
    return t;
}

static MPI_Request *next(transfers *t)
{
    if (t->begun == t->most) {
        fprintf(stderr, "llama: more than %d transfers at a time\n", t->most);
        abort();
    }
    return &t->request[t->begun++];
}

static void merge(transfers *t, double *values, int count)
{
    MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, next(t));
}

static void send(transfers *t, int to, const void *data, size_t bytes)
{
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, next(t));
}

static void receive(transfers *t, int from, void *data, size_t bytes)
{
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, next(t));
}

static void share(transfers *t, void *all, const int *counts, const int *starts, size_t element)
{
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, starts,
                    element == 4 ? MPI_FLOAT : MPI_UINT16_T, MPI_COMM_WORLD, next(t));
}

static void sum(transfers *t, const float *all, const int *counts, float *own)
{
    MPI_Ireduce_scatter(all, own, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, next(t));
}

static int done(transfers *t)
{
    int all;
    MPI_Testall(t->begun, t->request, &all, MPI_STATUSES_IGNORE);
    if (all)
        t->begun = 0;
    return all;
}

const engine ranks_mpi = {open_mpi, close_mpi, new_transfers, merge, send,
                          receive,  share,     sum,           done};
