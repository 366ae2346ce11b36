/* The list of errors and the thread's message. */
#include <stdarg.h>
#include <stdio.h>

#include "core/core.h"

static _Thread_local char message[1024];

tg_status tg_fail(tg_status status, const char *format, ...)
{
    char text[sizeof message];
    va_list values;
    va_start(values, format);
    tg_format(text, sizeof text, format, values);
    va_end(values);
    snprintf(message, sizeof message, "%s", text); /* arguments may point into the old message */
    return status;
}

const char *tg_last_error(void)
{
    return message;
}

static const struct {
    tg_status status;
    const char *name, *text;
} statuses[] = {
#define ENTRY(name, value, text) {TG_##name, "TG_" #name, text},
    TG_STATUS_LIST(ENTRY)
#undef ENTRY
};

const char *tg_status_name(tg_status status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "TG_?";
}

const char *tg_status_text(tg_status status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "unknown status";
}
