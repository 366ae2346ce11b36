/* issue/cube_load.c - what brings data to L1, L0A, L0B and the bias table. */
#include "execute/cube.h"
#include "route.h"

enum { FRACTALS_OF_A_CALL = 255, MOST_MATRICES = 4095, MOST_ROWS = 16384 };

/* Memories that hold fractals begin them at 512 B. */
static int alignment_of(int space)
{
    return space == SIM_L0A || space == SIM_L0B ? SIM_FRACTAL : SIM_BLOCK;
}

void asc_issue_fractals(const asc_site *site, asc_op op, unsigned element, void *dst, void *src,
                        int64_t index, int64_t repeat, int64_t src_stride, int64_t dst_gap)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    const sim_route *route = sim_begin_move(core, &instr, site, op, 0);
    instr.form = SIM_FORM_REPEAT;
    instr.type = instr.from = element >> 8;
    instr.run = sim_run_pieces;
    instr.repeat = sim_field(&instr, "repeat", repeat, FRACTALS_OF_A_CALL);
    const int64_t first = sim_field(&instr, "start_index", index, SIM_U16_LIMIT);
    const int64_t from = sim_field(&instr, "src_stride", src_stride, SIM_U16_LIMIT);
    const int64_t gap = sim_field(&instr, "dst_gap", dst_gap, SIM_U16_LIMIT);
    sim_walk(sim_add_dst(core, &instr, dst, SIM_BLOCK, alignment_of(route->to)), instr.repeat,
             (gap + 1) * SIM_FRACTAL, 1, 0, SIM_FRACTAL);
    sim_operand *read = sim_add_src(core, &instr, src, SIM_BLOCK, SIM_BLOCK);
    read->base += first * SIM_FRACTAL;
    sim_walk(read, instr.repeat, from * SIM_FRACTAL, 1, 0, SIM_FRACTAL);
    sim_issue(core, &instr);
}

/* A square is 16 x 16 elements of 16 bits, one fractal; 32 x 32 of 8, two; 16 x 16 of 32, two. */
void asc_issue_transposed(const asc_site *site, asc_op op, unsigned types, void *dst, void *src,
                          int64_t index, int64_t repeat, int64_t src_stride, int64_t dst_gap,
                          int64_t decrement, int64_t dst_frac_gap)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, op, types);
    instr.form = SIM_FORM_REPEAT;
    instr.run = sim_run_transposed;
    const uint32_t fractals = sim_type_bytes[instr.type] == 2 ? 1 : 2;
    const int64_t square = fractals * SIM_FRACTAL;
    instr.repeat = sim_field(&instr, "repeat", repeat, FRACTALS_OF_A_CALL);
    const int64_t first = sim_field(&instr, "index_id", index, SIM_U16_LIMIT);
    int64_t from = sim_field(&instr, "src_stride", src_stride, SIM_U16_LIMIT);
    const int64_t gap = sim_field(&instr, "dst_gap", dst_gap, SIM_U16_LIMIT);
    const int64_t apart = sim_field(&instr, "dst_frac_gap", dst_frac_gap, SIM_U16_LIMIT);
    if (sim_field(&instr, "enable_addr_decrement", decrement, 1))
        from = -from;
    sim_walk(sim_add_dst(core, &instr, dst, SIM_BLOCK, SIM_FRACTAL), instr.repeat,
             (gap + 1) * SIM_FRACTAL, fractals, (apart + 1) * SIM_FRACTAL, SIM_FRACTAL);
    sim_operand *read = sim_add_src(core, &instr, src, SIM_BLOCK, SIM_BLOCK);
    read->base += first * square;
    sim_walk(read, instr.repeat, from * square, 1, 0, (uint32_t)square);
    sim_issue(core, &instr);
}

/* A filter of 1 x 1: columns of blocks, which are the image's channels, become rows of fractals. */
void asc_issue_load3d(const asc_site *site, unsigned types, void *dst, void *src,
                      int64_t k_extension, int64_t m_extension, int64_t k_start, int64_t m_start,
                      const int64_t rest[10], int64_t channels)
{
    static const struct {
        const char *name;
        int64_t modelled;
    } fixed[10] = {{"stride_w", 1},      {"stride_h", 1},          {"filter_w", 1},
                   {"filter_h", 1},      {"dilation_filter_w", 1}, {"dilation_filter_h", 1},
                   {"filter_size_w", 0}, {"filter_size_h", 0},     {"transpose", 0},
                   {"f_matrix_ctrl", 0}};
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, ASC_OP_copy_l12l0a, types);
    instr.run = sim_run_load3d;
    for (int i = 0; i < 10; i++)
        if (rest[i] != fixed[i].modelled && !instr.misfit) {
            instr.misfit = fixed[i].name;
            instr.misfit_value = rest[i];
            instr.misfit_limit = fixed[i].modelled;
        }
    const uint64_t image = core->cube_register[ASC_CUBE_IMAGE];
    const uint32_t rows = (uint32_t)(image & 0xffff) * (uint32_t)(image >> 16 & 0xffff);
    const uint32_t each = sim_row_elements((sim_type)instr.type);
    const uint32_t k = sim_field(&instr, "k_extension", k_extension, SIM_U16_LIMIT);
    const uint32_t m = sim_field(&instr, "m_extension", m_extension, SIM_U16_LIMIT);
    const uint32_t k0 = sim_field(&instr, "k_start_pt", k_start, SIM_U16_LIMIT) / each;
    const uint32_t m0 = sim_field(&instr, "m_start_pt", m_start, SIM_U16_LIMIT);
    sim_field(&instr, "channel_size", channels, SIM_U16_LIMIT);
    if (channels > core->device->load3d_channels && !instr.misfit) {
        instr.misfit = "channel_size";
        instr.misfit_value = channels;
        instr.misfit_limit = core->device->load3d_channels;
    }
    const uint32_t columns = sim_fractals(k, each), bands = sim_fractals(m, SIM_FRACTAL_ROWS);
    const uint32_t all = bands * SIM_FRACTAL_ROWS, left = rows > m0 ? rows - m0 : 0;
    instr.repeat = bands * columns;
    instr.extra[0] = columns;
    instr.extra[1] = m0;
    instr.extra[2] = k0;
    sim_walk(sim_add_dst(core, &instr, dst, SIM_BLOCK, SIM_FRACTAL), 1, 0, 1, 0,
             bands * columns * SIM_FRACTAL);
    sim_operand *read = sim_add_src(core, &instr, src, SIM_BLOCK, SIM_BLOCK);
    read->base += ((int64_t)k0 * rows + m0) * SIM_BLOCK;
    sim_walk(read, columns, (int64_t)rows * SIM_BLOCK, 1, 0, (left < all ? left : all) * SIM_BLOCK);
    sim_issue(core, &instr);
}

void asc_issue_nd2nz(const asc_site *site, unsigned types, void *dst, void *src, int64_t matrices,
                     int64_t rows, int64_t columns, int64_t src_matrix_stride,
                     int64_t src_row_stride, int64_t c0_stride, int64_t row_stride,
                     int64_t matrix_stride)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, ASC_OP_copy_gm2l1_nd2nz, types);
    instr.run = sim_run_nd2nz;
    const uint32_t element = sim_type_bytes[instr.type], each = SIM_BLOCK / element;
    const uint32_t planes = sim_field(&instr, "nd_num", matrices, MOST_MATRICES);
    const uint32_t n = sim_field(&instr, "n_value", rows, 2 * MOST_ROWS - 1);
    const uint32_t d = sim_field(&instr, "d_value", columns, SIM_U16_LIMIT);
    const int64_t pitch = sim_field(&instr, "src_d_value", src_row_stride, SIM_U16_LIMIT);
    const int64_t plane =
        sim_field(&instr, "src_nd_matrix_stride", src_matrix_stride, SIM_U16_LIMIT);
    const int64_t c0 = sim_field(&instr, "dst_nz_c0_stride", c0_stride, MOST_ROWS * 2 - 1);
    const int64_t step = sim_field(&instr, "dst_nz_n_stride", row_stride, MOST_ROWS * 2 - 1);
    const int64_t to_plane =
        sim_field(&instr, "dst_nz_matrix_stride", matrix_stride, SIM_U16_LIMIT);
    instr.repeat = planes * n;
    instr.extra[0] = n;
    instr.extra[1] = d;
    instr.extra[2] = (uint32_t)c0;
    instr.extra[3] = (uint32_t)step;
    sim_operand *to = sim_add_dst(core, &instr, dst, SIM_BLOCK, SIM_BLOCK);
    const int together = step == 1; /* the rows of a column lie one behind the other */
    sim_walk(to, sim_fractals(d, each), c0 * SIM_BLOCK, together ? 1 : n, step * SIM_BLOCK,
             together ? n * SIM_BLOCK : SIM_BLOCK);
    sim_operand *from = sim_add_src(core, &instr, src, (int)element, 1);
    sim_walk(from, n, pitch * element, 1, 0, d * element);
    to->planes = from->planes = planes;
    to->plane_stride = to_plane * element;
    from->plane_stride = plane * element;
    sim_issue(core, &instr);
}

void asc_issue_bias(const asc_site *site, uint64_t dst, void *src, int64_t convert, int64_t n_burst,
                    int64_t len_burst, int64_t src_gap, int64_t dst_gap)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, ASC_OP_copy_l12bt, 0);
    instr.form = SIM_FORM_REPEAT;
    instr.run = sim_run_bias;
    instr.extra[0] = sim_field(&instr, "conv_control", convert, 1);
    const uint32_t wider = 1 + instr.extra[0];
    const uint32_t pieces = sim_field(&instr, "n_burst", n_burst, MOST_MATRICES);
    const uint32_t bytes = sim_field(&instr, "len_burst", len_burst, SIM_U16_LIMIT) * SIM_BLOCK;
    const int64_t from = sim_field(&instr, "src_gap", src_gap, SIM_U16_LIMIT);
    const int64_t to = sim_field(&instr, "dst_gap", dst_gap, SIM_U16_LIMIT);
    instr.repeat = pieces;
    void *table = dst < SIM_WINDOW ? core->ub + dst : (void *)(uintptr_t)dst;
    sim_walk(sim_add_dst(core, &instr, table, 4, 64), pieces, bytes * wider + to * SIM_BLOCK, 1, 0,
             bytes * wider);
    sim_walk(sim_add_src(core, &instr, src, 4, SIM_BLOCK), pieces, bytes + from * SIM_BLOCK, 1, 0,
             bytes);
    sim_issue(core, &instr);
}

void asc_issue_fill(const asc_site *site, asc_op op, unsigned type, void *dst, uint32_t value,
                    uint64_t config)
{
    enum { FIELD = 0x7fff };
    sim_core *core = sim_here(site);
    sim_instr instr;
    const sim_route *route = sim_begin_move(core, &instr, site, op, type);
    const uint32_t unit = route->to == SIM_L1 ? SIM_BLOCK : SIM_FRACTAL;
    const uint32_t blocks = config >> 16 & FIELD, gap = config >> 32 & FIELD;
    instr.form = SIM_FORM_REPEAT;
    instr.run = sim_run_fill;
    instr.repeat = config & FIELD;
    instr.scalar_bytes[0] = value;
    sim_walk(sim_add_dst(core, &instr, dst, sim_type_bytes[instr.type], alignment_of(route->to)),
             instr.repeat, (int64_t)(blocks + gap) * unit, 1, 0, blocks * unit);
    sim_issue(core, &instr);
}
