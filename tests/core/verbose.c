/* Lines of TIGON_VERBOSE and messages can be read by a program: no field has a comma, and numbers
 * have a point, whatever the locale.
 *   core_verbose FOLDER: where a locale with a decimal comma is made */
#include <locale.h>

#include "../common/test.h"

static char line[1024];

static void keep(void *user, const char *text)
{
    (void)user;
    snprintf(line, sizeof line, "%s", text);
}

static int has_decimal_comma(const char *folder)
{
    char command[1024];
    snprintf(command, sizeof command,
             "mkdir -p %s && localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", folder,
             folder, folder);
    setenv("LOCPATH", folder, 1);
    char number[16];
    if (system(command) || !setlocale(LC_ALL, "de_DE.UTF-8"))
        return 0;
    snprintf(number, sizeof number, "%.1f", 0.5);
    return !strcmp(number, "0,5");
}

static int commas(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

int main(int argc, char **argv)
{
    if (argc < 2 || !has_decimal_comma(argv[1])) {
        printf("no locale with a decimal comma can be made: apt-get install locales\n");
        return 77;
    }
    tg_ctx *ctx = new_context();
    tg_ctx_set_device(ctx, "cpu");
    tg_ctx_set_log(ctx, keep, NULL);
    tg_ctx_set_verbose(ctx, 1);
    const int64_t shape[] = {2, 3, 4};
    float x[24] = {1}, y[24];
    tg_tensor tx = tg_tensor_of(x, TG_F32, 3, shape), ty = tg_tensor_of(y, TG_F32, 3, shape);
    tg_softmax_forward(ctx, &(tg_softmax_forward_args){.x = &tx, .y = &ty});
    char impl[64], tensors[64], after[64];
    double ms = -1;
    setlocale(LC_NUMERIC, "C"); /* as who reads the line */
    EXPECT(commas(line) == 4 && strstr(line, " ms,TG_OK"), "%s", line);
    EXPECT(sscanf(line, "tigon,%63[^,],%63[^,],%lf ms,%63s", impl, tensors, &ms, after) == 4 &&
               !strcmp(impl, tg_ctx_last_impl(ctx)) &&
               !strcmp(tensors, "x:f32[2x3x4] y:f32[2x3x4]") && ms >= 0 && strchr(line, '.'),
           "%s", line);
    setlocale(LC_NUMERIC, "de_DE.UTF-8");
    tg_layer_norm_forward(ctx, &(tg_layer_norm_forward_args){.x = &tx, .y = &ty, .eps = -0.5});
    EXPECT(strstr(tg_last_error(), "eps is -0.5"), "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    return report();
}
