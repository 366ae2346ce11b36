/* questions.c - asks a card what CANN's pages leave open and what the model estimates.
 *   tigon_ascend_questions FOLDER [ID...]     FOLDER: the kernels' binaries
 * Prints a table in Markdown, and what follows from answers that are not as documented. Each
 * question has a process of its own: a kernel that never ends takes no other question with it. */
#include "questions.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measures.h"

enum { WAIT_MS = 60000 };

static const question questions[] = {
#define QUESTION(id, kernel, cores, fill, measure, n, more, extra, low, high, asks, documented, \
                 otherwise, then)                                                               \
    {#id,   #kernel, cores, fill_##fill, measure_##measure, n,         more,                    \
     extra, low,     high,  asks,        documented,        otherwise, then},
#include "questions.inc"
#undef QUESTION
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

typedef struct answer {
    int is_number;
    double number;
    char why[400]; /* there is no number */
} answer;

static int to_parent;

void card_fail(const char *format, ...)
{
    answer a = {.is_number = 0};
    va_list values;
    va_start(values, format);
    vsnprintf(a.why, sizeof a.why, format, values);
    va_end(values);
    for (char *c = a.why; *c; c++)
        if (*c == '\n' || *c == '|')
            *c = ' ';
    _exit(write(to_parent, &a, sizeof a) != sizeof a);
}

static void ask_card(const question *q, const char *folder)
{
    card_open(q, folder);
    answer a = {.is_number = 1, .number = q->measure(q)};
    const ssize_t written = write(to_parent, &a, sizeof a);
    card_close();
    exit(written != sizeof a);
}

static answer ask(const question *q, const char *folder)
{
    answer a = {.why = "its process ended without one"};
    int ends[2];
    fflush(stdout);
    if (pipe(ends))
        return a;
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        to_parent = ends[1];
        ask_card(q, folder);
    }
    close(ends[1]);
    struct pollfd waiting = {.fd = ends[0], .events = POLLIN};
    if (poll(&waiting, 1, WAIT_MS) == 0) {
        snprintf(a.why, sizeof a.why, "the kernel has not ended within %d s", WAIT_MS / 1000);
        kill(child, SIGKILL);
    } else if (read(ends[0], &a, sizeof a) != sizeof a) {
        a.is_number = 0;
    }
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return a;
}

static int is_documented(const question *q, const answer *a)
{
    return a->is_number && a->number >= q->low && a->number <= q->high;
}

static void print_answer(const question *q, const answer *a)
{
    if (!a->is_number)
        printf("| %s | %s | none | %s | %s |\n", q->id, q->asks, q->documented, a->why);
    else if (is_documented(q, a))
        printf("| %s | %s | A | %s | %.4g |\n", q->id, q->asks, q->documented, a->number);
    else
        printf("| %s | %s | B | %s | %.4g |\n", q->id, q->asks, q->otherwise, a->number);
}

static int is_wanted(const char *id, char **ids, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(ids[i], id))
            return 1;
    return count == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: %s FOLDER [ID...]\n", argv[0]), 2;
    static answer answers[QUESTIONS];
    static int asked[QUESTIONS];
    int unclear = 0, answered = 0;
    puts("| | question | answer | that is | found |\n|---|---|---|---|---|");
    for (int i = 0; i < QUESTIONS; i++) {
        asked[i] = is_wanted(questions[i].id, argv + 2, argc - 2);
        if (!asked[i])
            continue;
        answers[i] = ask(&questions[i], argv[1]);
        answered += answers[i].is_number;
        unclear += !is_documented(&questions[i], &answers[i]);
        print_answer(&questions[i], &answers[i]);
    }
    printf("\nA: as documented, or as the model takes it to be. B: otherwise.\n");
    if (unclear)
        puts("\nWhat follows where the answer is not A:\n");
    for (int i = 0; i < QUESTIONS; i++)
        if (asked[i] && !is_documented(&questions[i], &answers[i]))
            printf("- `%s`: %s\n", questions[i].id, questions[i].then);
    return answered == 0;
}
