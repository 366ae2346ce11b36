/* compare.c - the same course twice, each in a process of its own: so each has its own peak of
 * memory, and neither warms anything up for the other. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint.h"
#include "disk.h"
#include "plot.h"
#include "train.h"

/* Runs the course in a child; its history comes back in shared memory. */
static history *run_apart(const options *o, const course *c)
{
    history *h = history_new(o->steps);
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0)
        exit(train(o, c, h));
    int status;
    struct rusage usage;
    signal(SIGINT, SIG_IGN); /* the child hears it and ends its course */
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR)
            die("wait: %s", strerror(errno));
    signal(SIGINT, SIG_DFL);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    h->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    return h;
}

/* Means over a tenth of the course smooth the noise of single batches. */
static double largest_gap(history *a, history *b, double *at_once)
{
    const float *x = history_loss(a), *y = history_loss(b);
    const int64_t n = a->done, span = n / 10 ? n / 10 : 1;
    double sum = 0, worst = 0;
    *at_once = 0;
    for (int64_t i = 1; i <= n; i++) {
        const double gap = (double)x[i] - (double)y[i];
        *at_once = fmax(*at_once, fabs(gap));
        sum += gap;
        if (i > span)
            sum -= (double)x[i - span] - (double)y[i - span];
        if (i >= span)
            worst = fmax(worst, fabs(sum / (double)span));
    }
    return worst;
}

static void table(history *u, history *f, double tolerance)
{
    double single;
    const double gap = largest_gap(u, f, &single);
    const double speed = f->tokens_per_s / u->tokens_per_s;
    const double mib = 1.0 / 1048576;
    printf("\n%-28s %12s %12s %12s\n", "", "unfused", "fused", "");
    printf("%-28s %12.4f %12.4f %+12.4f\n", "training loss, last step",
           (double)history_loss(u)[u->done], (double)history_loss(f)[f->done],
           (double)(history_loss(f)[f->done] - history_loss(u)[u->done]));
    printf("%-28s %12.4f %12.4f %+12.4f\n", "held-out loss (nats)", u->held_out, f->held_out,
           f->held_out - u->held_out);
    printf("%-28s %12.0f %12.0f %11.2fx\n", "tokens/s (median step)", u->tokens_per_s,
           f->tokens_per_s, speed);
    printf("%-28s %8.1f MiB %8.1f MiB %11.2fx\n", "peak memory", (double)u->peak_bytes * mib,
           (double)f->peak_bytes * mib, (double)f->peak_bytes / (double)u->peak_bytes);
    printf("The loss curves %s: their means over a tenth of the course differ by at most %.4f "
           "nats,\nsingle steps by at most %.4f (limit for the means: %.3f).\n\n",
           gap <= tolerance ? "agree" : "DISAGREE", gap, single, tolerance);
}

int compare(const options *o)
{
    if (o->out)
        checkpoint_prepare(o);
    if (o->plot)
        new_file_try(o->plot);
    options quiet = *o;
    quiet.log = NULL; /* the log, the checkpoint and the sample are the default run's */
    quiet.out = NULL;
    quiet.plot = NULL;
    quiet.save_every = 0;
    /* a router of experts is one step there, too */
    const char *impl = o->experts ? "unfused,cpu" : "unfused";
    history *u = run_apart(&quiet, &(course){"unfused", impl, 0});
    history *f = run_apart(o, &(course){"fused", NULL, 1});
    /* Rounding alone parts courses that are equally right: in f32 by 0.013 to 0.051
     * with seeds 1 to 3. */
    const double tolerance = 0.1;
    double single;
    table(u, f, tolerance);
    const curve curves[] = {{"unfused, training", history_loss(u), u->steps + 1, "#f3c797", 0},
                            {"fused, training", history_loss(f), f->steps + 1, "#4477aa", 0},
                            {"unfused, held out", history_held_out(u), u->steps + 1, "#f0a8a0", 1},
                            {"fused, held out", history_held_out(f), f->steps + 1, "#cc3311", 1}};
    plot_terminal(&curves[1], 3); /* where the lines agree one hides the other */
    if (o->plot) {
        plot_svg(o->plot, "Loss (nats): fused and unfused operators, same seed", curves, 4);
        printf("loss curve: %s\n", o->plot);
    }
    return largest_gap(u, f, &single) <= tolerance ? 0 : 1;
}
