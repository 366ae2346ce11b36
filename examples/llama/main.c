/* main.c - llama: trains a Llama or a Qwen3 with Tigon's operators, on public headers alone (and
 * cJSON: checkpoints).
 *
 *   options.c      what the user asks for          check.c        options that contradict others
 *   data.c         text to tokens                  tokens.c       token files
 *   windows.c      tokens to windows, documents in them
 *   model.c        activations and views           pass.c         forward, loss, backward
 *   products.c     of linear layers, in their type or of 8 bits
 *   memory.c       places of activations           parameters.c   places, first values
 *   experts.c      the feed-forward part as a mixture of experts
 *   dispatch.c     experts that ranks share out: tokens to them and back
 *   dispatch_experts.c            those of this rank
 *   dispatch_cards.c, _rows.c     between cards: passes; rows and messages
 *   ring.c         attention of ranks that share windows
 *   gradients.c    those of a step                 optimizer.c    clipping, schedule, AdamW
 *   muon.c         the layers' matrices by Muon
 *   shards.c       which rank keeps what           ranks/         processes that train together
 *   step.c         steps, recorded where the device can
 *   train.c        the loop
 *   checkpoint.c   save and resume (with safetensors*.c, names.c, disk.c)
 *   load.c         a checkpoint of others as a beginning (with config.c, read_json.c)
 *   outputs.c      no file has two uses
 *   sample.c       decoding                        compare.c      fused beside unfused
 *   report.c       progress, log, costs            plot.c         loss curves
 *   run.c          the context, calls that must succeed      tensors.c      memory of tensors
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "load.h"
#include "outputs.h"
#include "plot.h"
#include "ranks/ranks.h"
#include "train.h"

/* What --demo asks for, unless the user says otherwise. */
static void demo(options *o)
{
    options_preset(o, "tiny");
    o->compare = 1;
    o->sample = 400;
    o->plot = "loss.svg";
}

/* Command line over checkpoint over preset: each is known only after a look at the others. */
static options *read_options(int argc, char **argv)
{
    options *o = malloc(sizeof(*o));
    if (!o)
        die("out of memory");
    options_preset(o, "tiny");
    options_parse(o, argc, argv);
    options_check_use(o);
    const char *preset = o->preset, *out = o->out, *load = o->load;
    const int64_t resume = o->resume, demonstrate = o->demo;
    const int names_files = o->data.count > 0, names_tokens = o->tokens != NULL;
    if (demonstrate)
        demo(o);
    else
        options_preset(o, preset);
    if (load)
        load_options(load, o);
    if (resume)
        checkpoint_options(out, o);
    const options before = *o;
    if (names_files) /* in place of the checkpoint's tokens, and the reverse */
        o->tokens = o->val_tokens = NULL;
    if (names_tokens)
        o->data.count = o->val.count = 0;
    options_parse(o, argc, argv);
    if (resume)
        options_check_resumed(o, &before);
    if (isnan(o->min_lr))
        o->min_lr = o->lr / 10;
    options_check_course(o);
    return o;
}

/* Of several ranks the first one speaks for all. */
static void share_course(options *o)
{
    const int count = ranks_count();
    if (count > 1 && o->compare)
        die("--compare runs on one rank, not on %d", count);
    if (count % o->ring)
        die("--ring %lld does not divide the number of ranks, %d", (long long)o->ring, count);
    if (o->expert_parallel && count > o->experts)
        die("--expert-parallel: %lld experts are too few for %d ranks", (long long)o->experts,
            count);
    if (o->expert_parallel && count > 1 && o->profile)
        die("--profile runs without --expert-parallel");
    if (!o->accumulate)
        o->accumulate = count / o->ring;
    if (ranks_here() == 0)
        return;
    o->log = o->plot = NULL;
    o->quiet = 1;
    o->profile = 0;
}

static void draw(const options *o, history *h)
{
    const curve curves[] = {{"training", history_loss(h), h->steps + 1, "#4477aa", 0},
                            {"held out", history_held_out(h), h->steps + 1, "#cc3311", 1}};
    if (!o->plot)
        return;
    plot_terminal(curves, 2);
    plot_svg(o->plot, "Loss (nats)", curves, 2);
    printf("loss curve: %s\n", o->plot);
}

/* Runs at every exit, of child processes too: a full disk may be noticed only when the
 * last bytes leave. */
static void close_output(void)
{
    errno = 0;
    if (!ferror(stdout) && !fflush(stdout) && (!fclose(stdout) || errno == EBADF))
        return;
    fprintf(stderr, "llama: standard output cannot be written%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    _exit(1);
}

/* What cannot be written any more, since a file has grown beyond `ulimit -f` or a reader is gone,
 * is an error of its write(). And a program that was started without standard files must not take a
 * checkpoint for one of them. */
static void prepare_files(void)
{
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int file;
    do
        file = open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO);
    close(file);
}

int main(int argc, char **argv)
{
    prepare_files();
    atexit(close_output);
    options *o = read_options(argc, argv);
    ranks_open();
    share_course(o);
    outputs_check(o);
    if (o->compare)
        return compare(o);
    history *h = history_new(o->steps);
    const int status = train(o, &(course){"llama", o->impl, 1}, h);
    draw(o, h);
    free(o);
    ranks_close();
    return status;
}
