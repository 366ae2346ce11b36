/* tools/tigon/ub_check/list.c - the kernels and chips that are known. */
#include <stdio.h>

#include "ub_check.h"

static void print_text(void)
{
    printf("Kernels that declare their buffers:\n");
    for (int i = 0; i < tg_ub_kernel_count(); i++) {
        const tg_ub_kernel *k = tg_ub_kernel_at(i);
        printf("  %s%s", k->name, k->option && k->option[0] ? "  --with:" : "");
        for (int n = 0; k->option && k->option[n]; n++)
            printf(" %s", k->option[n]);
        printf("\n");
    }
    printf("%sLiger's Triton kernels (--liger):\n", tg_ub_kernel_count() ? "" : "  none\n");
    for (int i = 0; ub_liger_name(i); i++)
        printf("  %s\n", ub_liger_name(i));
    printf("Chips (--soc): vector cores, bits of UB\n");
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *c = tg_npu_chip_at(i);
        printf("  %-6s %3d %8lld\n", c->name, c->vector_cores, (long long)c->ub_bytes * 8);
    }
}

static void json_kernel(json *j, const tg_ub_kernel *k)
{
    json_object(j, NULL);
    json_text(j, "name", k->name);
    json_array(j, "options");
    for (int n = 0; k->option && k->option[n]; n++)
        json_text(j, NULL, k->option[n]);
    json_close(j);
    json_close(j);
}

static void json_chip(json *j, const tg_npu_chip *c)
{
    json_object(j, NULL);
    json_text(j, "name", c->name);
    json_int(j, "vector_cores", c->vector_cores);
    json_int(j, "ub_bits", 8 * c->ub_bytes);
    json_close(j);
}

static void print_json(void)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_array(&j, "kernels");
    for (int i = 0; i < tg_ub_kernel_count(); i++)
        json_kernel(&j, tg_ub_kernel_at(i));
    json_close(&j);
    json_array(&j, "liger");
    for (int i = 0; ub_liger_name(i); i++)
        json_text(&j, NULL, ub_liger_name(i));
    json_close(&j);
    json_array(&j, "chips");
    for (int i = 0; i < tg_npu_chip_count(); i++)
        json_chip(&j, tg_npu_chip_at(i));
    json_close(&j);
    json_close(&j);
    json_end(&j);
}

int ub_list(int as_json)
{
    (as_json ? print_json : print_text)();
    return 0;
}
