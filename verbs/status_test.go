package verbs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"fjord/verbs"
)

// TestStatusValues holds the codes against enum ibv_wc_status of
// <infiniband/verbs.h>.
func TestStatusValues(t *testing.T) {
	codes := []string{"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
		"BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
		"LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR",
		"RESP_TIMEOUT_ERR", "GENERAL_ERR", "TM_ERR", "TM_RNDV_INCOMPLETE"}
	if len(codes) != verbs.NumStatus {
		t.Fatalf("%d codes, right is %d", verbs.NumStatus, len(codes))
	}
	for i, name := range codes {
		if got := verbs.Status(i).String(); got != name {
			t.Errorf("code %d is %s, right is %s", i, got, name)
		}
	}
}

func TestEveryStatusHasADiagnosis(t *testing.T) {
	seen := map[string]bool{}
	for i := range 256 {
		s := verbs.Status(i)
		d := s.Diagnosis()
		if s.String() == "" || d.Meaning == "" || d.Causes == "" || d.Check == "" {
			t.Errorf("%v: %+v", s, d)
		}
		if i < verbs.NumStatus {
			if seen[d.Meaning] {
				t.Errorf("%v means the same as another code: %s", s, d.Meaning)
			}
			seen[d.Meaning] = true
		} else if !strings.Contains(s.String(), fmt.Sprint(i)) {
			t.Errorf("unknown code %d is called %v", i, s)
		}
	}
}

func TestWCErr(t *testing.T) {
	if err := (&verbs.WC{}).Err(); err != nil {
		t.Errorf("success is the error %v", err)
	}
	wc := verbs.WC{Status: verbs.StatusRemAccessErr, Opcode: verbs.WCCAS, QPN: 0xabc, VendorErr: 7}
	var e *verbs.StatusError
	if !errors.As(fmt.Errorf("commit: %w", wc.Err()), &e) || *e != (verbs.StatusError{Status: wc.Status, Opcode: wc.Opcode, QPN: wc.QPN, Vendor: 7}) {
		t.Fatalf("%+v", e)
	}
	for _, s := range []string{"REM_ACCESS_ERR", "CAS", "0xabc", wc.Status.Diagnosis().Meaning, wc.Status.Diagnosis().Check} {
		if !strings.Contains(e.Error(), s) {
			t.Errorf("%q does not name %q", e, s)
		}
	}
}

// TestNames: every value of an enum has a name of its own, and a value that does
// not exist shows its number.
func TestNames(t *testing.T) {
	check := func(kind string, n int, name func(i int) string) {
		t.Helper()
		seen := map[string]bool{}
		for i := range n {
			s := name(i)
			if s == "" || strings.Contains(s, "(") || seen[s] {
				t.Errorf("%s %d is called %q", kind, i, s)
			}
			seen[s] = true
		}
		if s := name(200); !strings.Contains(s, "200") {
			t.Errorf("unknown %s is called %q", kind, s)
		}
	}
	check("opcode", verbs.NumOpcodes, func(i int) string { return verbs.Opcode(i).String() })
	check("completion", int(verbs.WCRecvWithImm)+1, func(i int) string { return verbs.WCOpcode(i).String() })
	check("state", int(verbs.StateErr)+1, func(i int) string { return verbs.QPState(i).String() })
	check("event", int(verbs.EventDevice)+1, func(i int) string { return verbs.EventType(i).String() })
	check("pages", int(verbs.Huge1G)+1, func(i int) string { return verbs.HugePages(i).String() })
	check("atomics", int(verbs.AtomicGlob)+1, func(i int) string { return verbs.AtomicCap(i).String() })
	if got := (verbs.AttrState | verbs.AttrDest | verbs.AttrMaxRdAtomic).String(); got != "State|Dest|MaxRdAtomic" {
		t.Errorf("mask is called %q", got)
	}
	if got := (verbs.GID{0: 0xfe, 1: 0x80, 15: 7}).String(); got != "fe80:0000:0000:0000:0000:0000:0000:0007" {
		t.Errorf("GID is written %q", got)
	}
}

func TestCompletionOfOpcode(t *testing.T) {
	for op, want := range map[verbs.Opcode]verbs.WCOpcode{verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite, verbs.OpSend: verbs.WCSend,
		verbs.OpSendImm: verbs.WCSend, verbs.OpRead: verbs.WCRead, verbs.OpCAS: verbs.WCCAS, verbs.OpFAA: verbs.WCFAA} {
		if got := op.Completion(); got != want {
			t.Errorf("%v completes as %v", op, got)
		}
	}
}
