/* Contexts on two cards at once. Where there are not two, the test is skipped.
 *   cuda_two_cards */
#include "calls.h"
#include "driver.h"

/* A context each, and calls of both in turn. A context works on the card of the first tensors that
 * it sees. */
static void check_two_cards(void)
{
    int second;
    void *of_second, *memory[TENSORS];
    unsigned char *expected[2];
    size_t bytes[2];
    problem p[2], host;
    EXPECT(!card_at(&second, 1) && !retain(&of_second, second), "no second card");
    make(&p[0], card_context(), 2);
    make(&host, card_context(), 9);
    p[1] = host;
    p[1].ctx = card_context();
    EXPECT(!set_current(of_second), "the second card cannot be used");
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(!alloc(&memory[i], bytes_of(&host, i)), "no memory on the second card");
        p[1].t[i].data = memory[i];
        p[1].t[i].device.device_id = 1;
    }
    EXPECT(tg_softmax_forward(
               p[1].ctx, &(tg_softmax_forward_args){.x = &p[1].t[X], .y = &p[1].t[Y]}) == TG_OK,
           "%s", tg_last_error()); /* before copies, which would take the first card */
    for (int i = 0; i < TENSORS; i++)
        copy(&p[1], i, 1);
    call(&host);
    expected[1] = results(&host, &bytes[1]);
    call(&p[0]);
    expected[0] = results(&p[0], &bytes[0]);
    for (int i = 0; i < 2; i++)
        wipe(&p[i]);
    for (int round = 0; round < 20; round++)
        call(&p[round % 2]);
    for (int i = 0; i < 2; i++) {
        expect_same(&p[i], expected[i], bytes[i], "another card");
        free(expected[i]);
    }
    for (int i = 0; i < TENSORS; i++)
        EXPECT(!release(memory[i]), "the memory stays");
    tg_ctx_destroy(p[1].ctx);
    drop(&host);
    tg_ctx_destroy(host.ctx);
    drop(&p[0]);
    tg_ctx_destroy(p[0].ctx);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK || !load_driver()) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    tg_ctx_destroy(ctx);
    int cards = 0;
    if (card_count(&cards) || cards < 2) {
        printf("not tested: it takes two cards, and there is one\n");
        return 77;
    }
    check_two_cards();
    return report();
}
