/* The loop that `tigon bench` takes for the memory's limit: it writes the tensor that it was given,
 * reads the others and leaves them alone, and writes no line of zeros, which some processors write
 * faster than others, whatever it reads. */
#include <stdlib.h>
#include <string.h>

#include "limits/limits.h"
#include "test.h"

enum { LINE_BYTES = 64, BYTES = 1 << 20, MOST_READS = 4, READ = 0x55 };

static int zero_lines(const char *data)
{
    static const char zeros[LINE_BYTES];
    int count = 0;
    for (int i = 0; i < BYTES; i += LINE_BYTES)
        count += !memcmp(data + i, zeros, LINE_BYTES);
    return count;
}

static int changed(const char *data)
{
    int count = 0;
    for (int i = 0; i < BYTES; i++)
        count += data[i] != READ;
    return count;
}

static memory_stream stream_of(int read)
{
    char *data = aligned_alloc(LINE_BYTES, BYTES);
    if (!data)
        exit(1);
    memset(data, read ? READ : 0, BYTES);
    return (memory_stream){
        .bytes = BYTES, .read = read, .write = !read, .data = data, .size = BYTES};
}

static void try_reads(tg_ctx *ctx, int reads)
{
    memory_work work = {.count = reads + 1};
    for (int i = 0; i <= reads; i++)
        work.stream[i] = stream_of(i < reads);
    memory_limit *limit = memory_limit_new(ctx, &work, 0);
    if (!limit)
        exit(1);
    char *written = work.stream[reads].data;
    memset(written, 0, BYTES);
    memory_limit_run(limit);
    EXPECT(zero_lines(written) == 0, "%d lines of zeros, %d tensors read", zero_lines(written),
           reads);
    for (int i = 0; i < reads; i++)
        EXPECT(changed(work.stream[i].data) == 0, "tensor %d of %d is read alone", i, reads);
    memory_limit_free(limit);
    for (int i = 0; i <= reads; i++)
        free(work.stream[i].data);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int reads = 0; reads <= MOST_READS; reads++)
        try_reads(ctx, reads);
    tg_ctx_destroy(ctx);
    return report();
}
