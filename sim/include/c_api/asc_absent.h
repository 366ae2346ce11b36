/* asc_absent.h - what the API declares and this chip does not implement: a kernel that calls it
 * does not compile, here nor with CANN. Included by asc_simd.h. scripts/cann_calls.py holds the
 * list against CANN's headers. */
#ifndef ASC_ABSENT_H
#define ASC_ABSENT_H

#define ASC_ABSENT(name) \
    int name() __attribute__((unavailable("CANN has it for architecture 3510, not for 2201")))

ASC_ABSENT(asc_atomic_add);
ASC_ABSENT(asc_atomic_and);
ASC_ABSENT(asc_atomic_cas);
ASC_ABSENT(asc_atomic_dec);
ASC_ABSENT(asc_atomic_exch);
ASC_ABSENT(asc_atomic_inc);
ASC_ABSENT(asc_atomic_max);
ASC_ABSENT(asc_atomic_min);
ASC_ABSENT(asc_atomic_or);
ASC_ABSENT(asc_atomic_sub);
ASC_ABSENT(asc_atomic_xor);
ASC_ABSENT(asc_copy_gm2l1_align);
ASC_ABSENT(asc_copy_gm2l1_dn2nz);
ASC_ABSENT(asc_copy_l0c2ub);
ASC_ABSENT(asc_copy_l12l0a_mx);
ASC_ABSENT(asc_copy_l12l0a_transpose);
ASC_ABSENT(asc_copy_l12l0b_mx);
ASC_ABSENT(asc_copy_l12l0b_transpose);
ASC_ABSENT(asc_copy_l12ub);
ASC_ABSENT(asc_copy_ub2l1);
ASC_ABSENT(asc_dci);
ASC_ABSENT(asc_enable_fp8);
ASC_ABSENT(asc_enable_hif8);
ASC_ABSENT(asc_get_ar_spr);
ASC_ABSENT(asc_get_squeeze_status);
ASC_ABSENT(asc_get_vf_len);
ASC_ABSENT(asc_mmad_mx);
ASC_ABSENT(asc_ndim_copy_dci);
ASC_ABSENT(asc_ndim_copy_gm2ub);
ASC_ABSENT(asc_set_gm2l1_loop1_stride);
ASC_ABSENT(asc_set_gm2l1_loop2_stride);
ASC_ABSENT(asc_set_gm2l1_loop_size);
ASC_ABSENT(asc_set_gm2l1_nz_para);
ASC_ABSENT(asc_set_gm2l1_pad);
ASC_ABSENT(asc_set_gm2ub_loop1_stride);
ASC_ABSENT(asc_set_gm2ub_loop2_stride);
ASC_ABSENT(asc_set_gm2ub_loop_size);
ASC_ABSENT(asc_set_gm2ub_pad);
ASC_ABSENT(asc_set_l0c2gm_channel_para);
ASC_ABSENT(asc_set_l0c2gm_nz2nd);
ASC_ABSENT(asc_set_l0c2gm_quant_post);
ASC_ABSENT(asc_set_l0c2gm_relu_alpha);
ASC_ABSENT(asc_set_l12l0_padding_val);
ASC_ABSENT(asc_set_l3d_rpt_b);
ASC_ABSENT(asc_set_ndim_loop0_stride);
ASC_ABSENT(asc_set_ndim_loop1_stride);
ASC_ABSENT(asc_set_ndim_loop2_stride);
ASC_ABSENT(asc_set_ndim_loop3_stride);
ASC_ABSENT(asc_set_ndim_loop4_stride);
ASC_ABSENT(asc_set_ndim_pad_count);
ASC_ABSENT(asc_set_ndim_pad_value);
ASC_ABSENT(asc_set_store_atomic_config_v2);
ASC_ABSENT(asc_set_ub2gm_loop1_stride);
ASC_ABSENT(asc_set_ub2gm_loop2_stride);
ASC_ABSENT(asc_set_ub2gm_loop_size);
ASC_ABSENT(asc_store_dev);

#endif
