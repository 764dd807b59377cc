package verbs

import "fmt"

// What can be seen to be wrong without a device is refused here, in the same words by
// all providers. CheckModify is another of these checks.

// CheckRegister says what is wrong with a region that is to be registered.
func CheckRegister(m *Memory, access Access) error {
	switch {
	case m == nil || len(m.Bytes()) == 0:
		return fmt.Errorf("%w: memory to register is empty or freed", ErrInvalid)
	case access&^AccessAll != 0:
		return fmt.Errorf("%w: access bits %#x are unknown", ErrInvalid, access&^AccessAll)
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return fmt.Errorf("%w: remote writing or atomics need AccessLocalWrite as well", ErrInvalid)
	}
	return nil
}

// CheckQP says what the device does not allow a QP to have. The CQs are not looked at.
func (d *DeviceAttr) CheckQP(init *QPInit) error {
	for _, l := range []struct {
		name      string
		v, lo, hi int
	}{
		{"MaxSendWR", init.MaxSendWR, 1, d.MaxQPWR}, {"MaxRecvWR", init.MaxRecvWR, 0, d.MaxQPWR},
		{"MaxSendSGE", init.MaxSendSGE, 0, d.MaxSGE}, {"MaxRecvSGE", init.MaxRecvSGE, 0, d.MaxSGE},
		{"MaxInline", int(init.MaxInline), 0, int(d.MaxInline)},
	} {
		if l.v < l.lo || l.v > l.hi {
			return fmt.Errorf("%w: %s is %d, right is %d to %d", ErrInvalid, l.name, l.v, l.lo, l.hi)
		}
	}
	return nil
}

// CheckAttr says which of a Modify's attributes the device does not allow.
func (d *DeviceAttr) CheckAttr(a *QPAttr, mask AttrMask) error {
	switch {
	case mask&AttrPort != 0 && a.Port > d.Ports:
		return fmt.Errorf("%w: Port is %d, device %q has %d", ErrInvalid, a.Port, d.Name, d.Ports)
	case mask&AttrPathMTU != 0 && a.PathMTU > d.ActiveMTU:
		return fmt.Errorf("%w: PathMTU is %d, the port's active MTU is %d", ErrInvalid, a.PathMTU, d.ActiveMTU)
	case mask&AttrMaxDestRdAtomic != 0 && a.MaxDestRdAtomic > d.MaxQPRdAtomic:
		return fmt.Errorf("%w: MaxDestRdAtomic is %d, right is 0 to %d", ErrInvalid, a.MaxDestRdAtomic, d.MaxQPRdAtomic)
	case mask&AttrMaxRdAtomic != 0 && a.MaxRdAtomic > d.MaxQPRdAtomic:
		return fmt.Errorf("%w: MaxRdAtomic is %d, right is 0 to %d", ErrInvalid, a.MaxRdAtomic, d.MaxQPRdAtomic)
	}
	return nil
}

// Set takes the attributes over that mask names, but for the state.
func (t *QPAttr) Set(a *QPAttr, mask AttrMask) {
	set := func(bit AttrMask, f func()) {
		if mask&bit != 0 {
			f()
		}
	}
	set(AttrPKeyIndex, func() { t.PKeyIndex = a.PKeyIndex })
	set(AttrPort, func() { t.Port = a.Port })
	set(AttrAccess, func() { t.Access = a.Access })
	set(AttrPathMTU, func() { t.PathMTU = a.PathMTU })
	set(AttrDest, func() { t.DestGID = a.DestGID })
	set(AttrDestQPN, func() { t.DestQPN = a.DestQPN })
	set(AttrRQPSN, func() { t.RQPSN = a.RQPSN })
	set(AttrMaxDestRdAtomic, func() { t.MaxDestRdAtomic = a.MaxDestRdAtomic })
	set(AttrMinRNRTimer, func() { t.MinRNRTimer = a.MinRNRTimer })
	set(AttrSQPSN, func() { t.SQPSN = a.SQPSN })
	set(AttrTimeout, func() { t.Timeout = a.Timeout })
	set(AttrRetryCnt, func() { t.RetryCnt = a.RetryCnt })
	set(AttrRNRRetry, func() { t.RNRRetry = a.RNRRetry })
	set(AttrMaxRdAtomic, func() { t.MaxRdAtomic = a.MaxRdAtomic })
}

// Check refuses what can be seen to be wrong with a request without the peer, on a QP
// made with init.
func (w *SendWR) Check(init *QPInit) error {
	if len(w.SGL) > init.MaxSendSGE {
		return fmt.Errorf("%w: request has %d pieces, the QP allows %d", ErrInvalid, len(w.SGL), init.MaxSendSGE)
	}
	if w.Opcode == OpInvalid || int(w.Opcode) >= NumOpcodes {
		return fmt.Errorf("%w: %v is not an operation", ErrInvalid, w.Opcode)
	}
	if w.Flags&FlagInline == 0 {
		return nil
	}
	switch w.Opcode {
	case OpRead, OpCAS, OpFAA:
		return fmt.Errorf("%w: %v cannot be inline, only WRITE and SEND", ErrInvalid, w.Opcode)
	case OpWrite, OpWriteImm, OpSend, OpSendImm, OpInvalid:
	}
	if n := Length(w.SGL); n > uint64(init.MaxInline) {
		return fmt.Errorf("%w: inline payload of %d bytes, the QP allows %d", ErrInvalid, n, init.MaxInline)
	}
	return nil
}

// Length returns the bytes of all pieces together.
func Length(sgl []SGE) uint64 {
	n := uint64(0)
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}
