/* asc_cross.h - flags between cores, in mix kernels. Included by asc_simd.h.
 *
 * An arrival stands behind all that its pipe has been given before; a wait holds S until the signal
 * is there and takes it.
 *   block     between a cube core and its two vector cores: the cube core's arrival signals both,
 *             those of both together signal it
 *   subblock  between the two vector cores of a block: when both have arrived, both are signalled
 *   inter     between all cube cores, or all vector cores, of the launch: when all have arrived,
 *             all are signalled */
#ifndef ASC_CROSS_H
#define ASC_CROSS_H

#define ASC_ARRIVAL_PIPE_V PIPE_V
#define ASC_ARRIVAL_PIPE_M PIPE_M
#define ASC_ARRIVAL_PIPE_MTE1 PIPE_MTE1
#define ASC_ARRIVAL_PIPE_MTE2 PIPE_MTE2
#define ASC_ARRIVAL_PIPE_MTE3 PIPE_MTE3
#define ASC_ARRIVAL_PIPE_FIX PIPE_FIX
#define ASC_ARRIVE(name, mode, pipe, id) \
    asc_issue_arrive(ASC_SITE(name), mode, ASC_ARRIVAL_##pipe, id)
#define asc_sync_inter_arrive(pipe, id) ASC_ARRIVE("asc_sync_inter_arrive", 0, pipe, id)
#define asc_sync_subblock_arrive(pipe, id) ASC_ARRIVE("asc_sync_subblock_arrive", 1, pipe, id)
#define asc_sync_block_arrive(pipe, id) ASC_ARRIVE("asc_sync_block_arrive", 2, pipe, id)
/* All one instruction; the pipe is ignored: S waits. */
#define asc_sync_inter_wait(pipe, id) asc_issue_await(ASC_SITE("asc_sync_inter_wait"), pipe, id)
#define asc_sync_subblock_wait(pipe, id) \
    asc_issue_await(ASC_SITE("asc_sync_subblock_wait"), pipe, id)
#define asc_sync_block_wait(pipe, id) asc_issue_await(ASC_SITE("asc_sync_block_wait"), pipe, id)
/* The address that aclrtGetHardwareSyncAddr() gave the host; the model takes any. */
#define asc_set_ffts_base_addr(address) \
    asc_issue_set_ffts(ASC_SITE("asc_set_ffts_base_addr"), (uint64_t)(address))

#endif
