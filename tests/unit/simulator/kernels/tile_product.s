; C[M, 16] f32 = A[M, K] f16 x B[16, K] f16 transposed, for gfx942. K is a multiple of 16, M is anything.
; Arguments: A, B, C, M, K. A workgroup of 2 waves computes 32 rows. B goes through LDS, 16 values of k at a time, as 16
; rows of 4 chunks of 8 bytes; chunk c of row n is at place c ^ (n / 4 % 4), so that 16 rows of one chunk fill all banks.
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	s_load_dwordx4 s[8:11], s[0:1], 0x10
	v_and_b32_e32 v0, 0x3ff, v0
	v_and_b32_e32 v1, 15, v0               ; row of A in the wave, row of B
	v_bfe_u32 v2, v0, 4, 2                 ; chunk of k
	v_lshrrev_b32_e32 v18, 6, v0           ; wave
	s_waitcnt lgkmcnt(0)
	s_mul_i32 s25, s10, s11
	s_mov_b64 s[12:13], s[4:5]
	s_lshl_b32 s14, s25, 1                 ; bytes of A
	s_mov_b32 s15, 0x27000
	s_mov_b64 s[16:17], s[6:7]
	s_lshl_b32 s18, s11, 5                 ; bytes of B
	s_mov_b32 s19, 0x27000
	s_mov_b64 s[20:21], s[8:9]
	s_lshl_b32 s22, s10, 6                 ; bytes of C
	s_mov_b32 s23, 0x27000
	s_lshl_b32 s26, s2, 5                  ; first row of the workgroup
	v_lshl_add_u32 v19, v18, 4, s26        ; first row of the wave
	s_lshl_b32 s27, s11, 1                 ; bytes of a row of A and B
	v_add_u32_e32 v20, v19, v1
	v_mul_lo_u32 v3, v20, s27
	v_lshl_add_u32 v3, v2, 3, v3           ; v3: where in A
	v_lshrrev_b32_e32 v21, 3, v0
	v_and_b32_e32 v22, 7, v0
	v_mul_lo_u32 v4, v21, s27
	v_lshl_add_u32 v4, v22, 2, v4          ; v4: where in B
	v_lshrrev_b32_e32 v23, 1, v22
	v_bfe_u32 v24, v21, 2, 2
	v_xor_b32_e32 v23, v23, v24            ; write swizzle
	v_lshlrev_b32_e32 v23, 3, v23
	v_lshl_add_u32 v5, v21, 5, v23
	v_and_b32_e32 v22, 1, v22
	v_lshl_add_u32 v5, v22, 2, v5          ; v5: where in LDS to write
	v_bfe_u32 v24, v1, 2, 2
	v_xor_b32_e32 v23, v2, v24             ; read swizzle
	v_lshlrev_b32_e32 v23, 3, v23
	v_lshl_add_u32 v6, v1, 5, v23          ; v6: where in LDS to read
	v_lshl_add_u32 v7, v2, 2, v19
	v_lshlrev_b32_e32 v7, 6, v7
	v_lshl_add_u32 v7, v1, 2, v7           ; v7: where in C
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, 0
	s_lshr_b32 s24, s11, 4                 ; steps
	s_cmp_eq_u32 s24, 0
	s_cbranch_scc1 .Lstore
.Lloop:
	buffer_load_dword v12, v4, s[16:19], 0 offen
	buffer_load_dwordx2 v[14:15], v3, s[12:15], 0 offen
	s_waitcnt vmcnt(1)                     ; B is here
	ds_write_b32 v5, v12
	s_waitcnt lgkmcnt(0)                   ; B is in LDS
	s_barrier                              ; of both waves
	ds_read_b64 v[16:17], v6
	s_waitcnt vmcnt(0) lgkmcnt(0)          ; A is here, B is back
	s_barrier                              ; both waves have read
	v_mfma_f32_16x16x16_f16 v[8:11], v[14:15], v[16:17], v[8:11]
	v_add_u32_e32 v3, 32, v3
	v_add_u32_e32 v4, 32, v4
	s_sub_u32 s24, s24, 1
	s_cmp_lg_u32 s24, 0
	s_cbranch_scc1 .Lloop
.Lstore:
	s_nop 7
	buffer_store_dword v8, v7, s[20:23], 0 offen
	buffer_store_dword v9, v7, s[20:23], 0 offen offset:64
	buffer_store_dword v10, v7, s[20:23], 0 offen offset:128
	buffer_store_dword v11, v7, s[20:23], 0 offen offset:192
