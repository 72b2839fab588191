; C[M, 16] f32 = A[M, K] f16 x B[16, K] f16 transposed, for gfx950. K is a multiple of 64, M is anything.
; Arguments: A, B, C, M, K. A workgroup of 2 waves computes 32 rows. B is copied to LDS asynchronously, 64 values of k at
; a time into one of 2 stages: wave w copies 32 of them, as 16 rows of 4 chunks of 16 bytes. Place p of row n holds chunk
; p ^ (-(n / 4) % 4): the lanes that one pass of a ds_read_b128 serves then fill all banks.
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	s_load_dwordx4 s[8:11], s[0:1], 0x10
	v_and_b32_e32 v0, 0x3ff, v0
	v_and_b32_e32 v1, 15, v0               ; row of A in the wave, row of B
	v_bfe_u32 v2, v0, 4, 2                 ; chunk of k
	v_lshrrev_b32_e32 v18, 6, v0           ; wave
	v_readfirstlane_b32 s28, v18
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
	v_lshl_add_u32 v3, v2, 4, v3           ; v3: where in A
	v_bfe_u32 v21, v0, 2, 4                ; row of B to copy
	v_and_b32_e32 v22, 3, v0               ; its place
	v_lshrrev_b32_e32 v24, 2, v21
	v_sub_u32_e32 v24, 0, v24
	v_and_b32_e32 v24, 3, v24
	v_xor_b32_e32 v22, v22, v24            ; copy swizzle
	v_mul_lo_u32 v4, v21, s27
	v_lshl_add_u32 v4, v22, 4, v4
	v_lshl_add_u32 v4, v18, 6, v4          ; v4: where in B
	v_lshrrev_b32_e32 v24, 2, v1
	v_sub_u32_e32 v24, 0, v24
	v_and_b32_e32 v24, 3, v24
	v_xor_b32_e32 v23, v2, v24             ; read swizzle
	v_lshlrev_b32_e32 v23, 4, v23
	v_lshl_add_u32 v6, v1, 6, v23          ; v6: where in LDS to read
	v_lshl_add_u32 v7, v2, 2, v19
	v_lshlrev_b32_e32 v7, 6, v7
	v_lshl_add_u32 v7, v1, 2, v7           ; v7: where in C
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, 0
	s_lshr_b32 s24, s11, 6                 ; steps
	s_cmp_eq_u32 s24, 0
	s_cbranch_scc1 .Lstore
	s_lshl_b32 s28, s28, 10                ; where in LDS this wave copies to
	s_mov_b32 m0, s28
	buffer_load_dwordx4 v4, s[16:19], 0 offen lds
.Lloop:
	v_add_u32_e32 v4, 0x80, v4
	s_xor_b32 s28, s28, 0x800              ; the other stage
	s_mov_b32 m0, s28
	buffer_load_dwordx4 v[26:29], v3, s[12:15], 0 offen
	buffer_load_dwordx4 v[30:33], v3, s[12:15], 0 offen offset:64
	buffer_load_dwordx4 v4, s[16:19], 0 offen lds
	s_waitcnt vmcnt(1)                     ; A is here, B is in LDS, the next B is on its way
	s_barrier                              ; of both waves
	ds_read_b128 v[34:37], v6
	ds_read_b128 v[38:41], v6 offset:1024
	s_waitcnt lgkmcnt(0)                   ; B is back
	v_mfma_f32_16x16x32_f16 v[8:11], v[26:29], v[34:37], v[8:11]
	v_mfma_f32_16x16x32_f16 v[8:11], v[30:33], v[38:41], v[8:11]
	s_barrier                              ; both waves have read
	v_xor_b32_e32 v6, 0x800, v6
	v_add_u32_e32 v3, 0x80, v3
	s_sub_u32 s24, s24, 1
	s_cmp_lg_u32 s24, 0
	s_cbranch_scc1 .Lloop
.Lstore:
	s_nop 7
	buffer_store_dword v8, v7, s[20:23], 0 offen
	buffer_store_dword v9, v7, s[20:23], 0 offen offset:64
	buffer_store_dword v10, v7, s[20:23], 0 offen offset:128
	buffer_store_dword v11, v7, s[20:23], 0 offen offset:192
