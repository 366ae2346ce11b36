/* tools/tigon/profile/fit.c - figures of a chip with which the model takes the times that a card
 * has taken: each call that hangs on one fact of the table tells that. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/file.h"
#include "ten.h"

enum { RUNS = 6 };
static const double close_enough = 0.02, farthest = 10;

/* ---- the table of chips, as text ---- */

static char *table(void)
{
    return file_text(TIGON_SOURCE "/sim/include/ascsim_chips.inc", NULL);
}

/* The chip's place in the lists of values; -1: it is not there. */
static int place_of(const char *text, const char *soc)
{
    int place = 0;
    const char *name = soc && !strncmp(soc, "Ascend", 6) ? soc + 6 : soc ? soc : "910B4";
    for (const char *at = strstr(text, "#ifdef CHIP"); at && (at = strstr(at, "CHIP(")); place++) {
        at += strlen("CHIP(");
        if (!strncmp(at, name, strlen(name)) && at[strlen(name)] == ')')
            return place;
    }
    return -1;
}

/* The line of a fact, without what is behind it; NULL: there is none. */
static const char *line_of(const char *text, const char *fact, size_t length)
{
    for (const char *at = text; (at = strstr(at, "FACT(")); at++)
        if (!strncmp(at + 5, fact, length) && at[5 + length] == ',')
            return at;
    return NULL;
}

/* The value of a line at a place: it stands behind the name and the unit; no number for a chip that
 * has another's. */
static const char *value_at(const char *line, int place)
{
    for (int comma = 0; comma < place + 2; line++)
        comma += *line == ',';
    while (isspace((unsigned char)*line))
        line++;
    return line;
}

static void print_line(const char *text, int place, const char *fact, size_t length, double value)
{
    const char *line = line_of(text, fact, length);
    const char *at = value_at(line, place), *end = at + strcspn(at, ",");
    const char *letters = strchr(end, '"'), *close = strstr(letters, ")\n");
    printf("%.*s%.4g%.*s%.*sM%.*s\n", (int)(at - line), line, value, (int)(letters + 1 - end), end,
           place, letters + 1, (int)(close + 1 - letters - 2 - place), letters + 2 + place);
}

void ten_print_lines(const char *soc, const char *facts)
{
    char *text = table();
    const int place = text ? place_of(text, soc) : -1;
    if (!*facts) {
        puts("\nThe lines of sim/include/ascsim_chips.inc fit as they are.");
    } else {
        puts("\nLines of sim/include/ascsim_chips.inc that would fit (M: measured):\n\n```");
        for (const char *at = facts; *at; at += strcspn(at, ","), at += *at == ',') {
            const size_t length = strcspn(at, "=");
            const double value = strtod(at + length + 1, NULL);
            if (place >= 0)
                print_line(text, place, at, length, value);
            else
                printf("%.*s %.4g\n", (int)length, at, value);
        }
        printf("```\n\nTo try them: TIGON_ASCEND_FACTS=%s\n", facts);
    }
    free(text);
}

/* ---- one fact ---- */

typedef struct search {
    int call;
    const char *soc, *before; /* the facts that are fitted already */
    double value, us;         /* of the table; measured */
} search;

/* How much longer than measured, as a logarithm, with `times` the table's value; NAN after a
 * message. */
static double error_of(const search *s, double times, char facts[TEN_FACTS])
{
    ten_time t;
    snprintf(facts, TEN_FACTS, "%s%s%s=%.4g", s->before, *s->before ? "," : "",
             ten_calls[s->call].fact, s->value * times);
    return ten_model(s->call, s->soc, facts, &t) ? NAN : log(t.us / s->us);
}

/* By secants, of logarithms. 1 if a value was found, 0 if the call does not tell one, -1 after a
 * message. */
static int search_fact(const search *s, double error, char facts[TEN_FACTS])
{
    double x = 0, y = error, next = log(1.25);
    for (int run = 0; run < RUNS && fabs(y) > close_enough; run++) {
        const double there = error_of(s, exp(next), facts);
        if (isnan(there))
            return -1;
        const double slope = (there - y) / (next - x);
        x = next;
        y = there;
        if (!(fabs(slope) > 0.02))
            return 0;
        next = fmax(-log(farthest), fmin(log(farthest), x - y / slope));
        if (next == x)
            break;
    }
    return fabs(y) < fabs(error) / 2;
}

static int fit_call(int call, const char *soc, double us, char facts[TEN_FACTS], const char *text,
                    int place)
{
    char with[TEN_FACTS], before[TEN_FACTS / 2];
    ten_time t;
    const char *fact = ten_calls[call].fact, *line = line_of(text, fact, strlen(fact));
    snprintf(before, sizeof before, "%s", facts);
    const search s = {call, soc, before, line ? atof(value_at(line, place)) : 0, us};
    if (!(s.value > 0)) /* a chip that has another's figures */
        return 0;
    if (ten_model(call, soc, before, &t))
        return 1;
    const double error = log(t.us / us);
    if (fabs(error) <= close_enough)
        return 0;
    const int found = search_fact(&s, error, with);
    if (found > 0)
        snprintf(facts, TEN_FACTS, "%s", with);
    return found < 0;
}

int ten_fit(const char *soc, const ten_time *measured, const ten_time *modelled,
            char facts[TEN_FACTS])
{
    char *text = table();
    const int place = text ? place_of(text, soc) : -1;
    int bad = 0;
    *facts = '\0';
    for (int i = 0; i < TEN_CALLS && place >= 0 && !bad; i++)
        if (*ten_calls[i].fact && measured[i].launches && modelled[i].launches)
            bad = fit_call(i, soc, measured[i].us, facts, text, place);
    free(text);
    return bad;
}
