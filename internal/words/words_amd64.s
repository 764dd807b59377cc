//go:build !race

#include "textflag.h"

// func copyWords(dst, src unsafe.Pointer, n int)
//
// Eight words a turn; then what is left, by the bits of its number.
TEXT ·copyWords(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $8, CX
	JLT  four

eight:
	MOVQ 0(SI), AX
	MOVQ AX, 0(DI)
	MOVQ 8(SI), BX
	MOVQ BX, 8(DI)
	MOVQ 16(SI), AX
	MOVQ AX, 16(DI)
	MOVQ 24(SI), BX
	MOVQ BX, 24(DI)
	MOVQ 32(SI), AX
	MOVQ AX, 32(DI)
	MOVQ 40(SI), BX
	MOVQ BX, 40(DI)
	MOVQ 48(SI), AX
	MOVQ AX, 48(DI)
	MOVQ 56(SI), BX
	MOVQ BX, 56(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGE  eight

four: // CX is the number left, less 8: its low bits are those of the number
	TESTB $7, CX
	JZ    done
	TESTB $4, CX
	JZ    two
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

two:
	TESTB $2, CX
	JZ    one
	MOVQ 0(SI), AX
	MOVQ AX, 0(DI)
	MOVQ 8(SI), BX
	MOVQ BX, 8(DI)
	ADDQ $16, SI
	ADDQ $16, DI

one:
	TESTB $1, CX
	JZ    done
	MOVQ 0(SI), AX
	MOVQ AX, 0(DI)

done:
	RET

// func Release(p *uint64, v uint64)
TEXT ·Release(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, 0(DI)
	RET
