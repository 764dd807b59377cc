//go:build !race

#include "textflag.h"

// func copyWords(dst, src unsafe.Pointer, n int)
TEXT ·copyWords(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $4, CX
	JLT  tail

loop4:
	MOVQ 0(SI), AX
	MOVQ AX, 0(DI)
	MOVQ 8(SI), BX
	MOVQ BX, 8(DI)
	MOVQ 16(SI), AX
	MOVQ AX, 16(DI)
	MOVQ 24(SI), BX
	MOVQ BX, 24(DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $4, CX
	JGE  loop4

tail:
	ADDQ $4, CX
	JZ   done

loop1:
	MOVQ 0(SI), AX
	MOVQ AX, 0(DI)
	ADDQ $8, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  loop1

done:
	RET

// func Release(p *uint64, v uint64)
TEXT ·Release(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, 0(DI)
	RET
