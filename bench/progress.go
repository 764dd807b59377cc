package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"fjord/txn"
)

// Progress draws one line that is overwritten over and over. It is used by one
// goroutine. A nil writer draws nothing.
type Progress struct {
	w     io.Writer
	drawn bool
}

// NewProgress returns a progress line on w.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w} }

// terminal returns w if it is one, else nil.
func terminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return w
	}
	return nil
}

// line draws a line. It is cut at no width: it is short.
func (p *Progress) line(format string, args ...any) {
	if p.w != nil {
		p.drawn = true
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
	}
}

// clear takes the line away.
func (p *Progress) clear() {
	if p.w != nil && p.drawn {
		p.drawn = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// transactions draws how far a part is that has done what s says; s is asked only
// if that is drawn.
func (p *Progress) transactions(name string, q *part, now int64, s func() txn.Stats) {
	if p.w == nil {
		return
	}
	p.line("%s", progressText(name, q, now, s()))
}

func progressText(name string, q *part, now int64, s txn.Stats) string {
	elapsed := float64(now-q.start) / 1e9
	if elapsed <= 0 {
		return name
	}
	var conflicts uint64
	for _, n := range s.Aborted {
		conflicts += n
	}
	share := 0.0
	if all := s.Committed + conflicts; all > 0 {
		share = 100 * float64(conflicts) / float64(all)
	}
	text := fmt.Sprintf("%s: %s tps, %.1f %% of the attempts aborted by conflicts", name, thousands(uint64(float64(s.Committed)/elapsed)), share)
	left := float64(q.end-now) / 1e9
	if q.txns > 0 {
		done := float64(s.Committed + s.Cancelled + s.Unknown)
		if done == 0 {
			return text
		}
		left = elapsed / done * (float64(q.txns) - done)
	}
	return text + fmt.Sprintf(", %v left", time.Duration(max(left, 0)*1e9).Round(time.Second))
}

// thousands writes n in groups of three digits.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
