package serial

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format is the value of "format" in the first line of a history file.
const Format = "fjord-history/1"

// maxLine bounds one line of a history. A scan of a million keys fits; a file that is not a history
// at all does not fill the memory.
const maxLine = 64 << 20

// LineError is a line of a history that cannot be read. Do not retry: the file is wrong.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("history line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// ReadJSONL reads a history in the format fjord-history/1: a header line, then one line per attempt. Fields
// that it does not know are ignored, blank lines too; "id" and "session" may be numbers or strings. An error
// is a *LineError, or the reader's own.
func ReadJSONL(r io.Reader) (*History, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 1<<16), maxLine)
	h := &History{}
	p := newParser()
	line := 0
	for sc.Scan() {
		line++
		text := bytes.TrimSpace(sc.Bytes())
		if len(text) == 0 {
			continue
		}
		var err error
		if h.Header == nil {
			h.Header, err = parseHeader(text)
		} else {
			var a Attempt
			a, err = p.attempt(text, line)
			h.Attempts = append(h.Attempts, a)
		}
		if err != nil {
			return nil, &LineError{line, err}
		}
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxLine)
		}
		return nil, &LineError{line + 1, err}
	}
	if h.Header == nil {
		return nil, &LineError{1, fmt.Errorf("no header: the first line must be {\"format\":%q, ...}", Format)}
	}
	return h, nil
}

func parseHeader(text []byte) (map[string]any, error) {
	var header map[string]any
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("the header is not a JSON object: %w", err)
	}
	if f, _ := header["format"].(string); f != Format {
		return nil, fmt.Errorf("format is %v, this reads %q only", header["format"], Format)
	}
	return header, nil
}

// parser reads attempts, and interns what repeats from line to line.
type parser struct {
	lexer
	names  map[string]string // tables, types, sessions, reasons
	keys   map[string]string // hex text -> key
	ids    map[string]int    // id -> line
	reads  slab[Read]
	writes slab[Write]
	scans  slab[Scan]
	found  slab[KeyVersion]
}

func newParser() *parser {
	return &parser{names: map[string]string{}, keys: map[string]string{}, ids: map[string]int{}}
}

func (p *parser) attempt(text []byte, line int) (Attempt, error) {
	p.lexer = lexer{text: text}
	var a Attempt
	var begin, end, outcome bool
	err := p.object(func(name []byte) (err error) {
		switch string(name) {
		case "id":
			var id []byte
			id, err = p.scalar()
			a.ID = string(id)
		case "session":
			a.Session, err = p.name(p.scalar)
		case "type":
			a.Type, err = p.name(p.string)
		case "reason":
			a.Reason, err = p.name(p.string)
		case "begin_ns":
			begin = true
			a.Begin, err = p.int()
		case "end_ns":
			end = true
			a.End, err = p.int()
		case "outcome":
			outcome = true
			a.Outcome, err = p.outcome()
		case "reads":
			a.Reads, err = p.reads.list(&p.lexer, p.read)
		case "writes":
			a.Writes, err = p.writes.list(&p.lexer, p.write)
		case "scans":
			a.Scans, err = p.scans.list(&p.lexer, p.scan)
		default:
			err = p.skip()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	})
	if err == nil {
		err = p.finish()
	}
	first, dup := p.ids[a.ID]
	switch {
	case err != nil:
		return a, err
	case a.ID == "":
		return a, errors.New("no id")
	case dup:
		return a, fmt.Errorf("id %s stands on line %d already", a.ID, first)
	case !outcome:
		return a, errors.New("no outcome")
	case !begin || !end:
		return a, errors.New("begin_ns or end_ns is missing")
	case a.Begin > a.End:
		return a, fmt.Errorf("begin_ns %d is after end_ns %d", a.Begin, a.End)
	}
	p.ids[a.ID] = line
	return a, nil
}

func (p *parser) read() (Read, error) {
	var r Read
	var key bool
	err := p.object(func(name []byte) (err error) {
		switch string(name) {
		case "t":
			r.Table, err = p.name(p.string)
		case "k":
			key = true
			r.Key, err = p.key()
		case "v":
			r.Version, err = p.uint()
		default:
			err = p.skip()
		}
		return err
	})
	return r, needKey(err, key)
}

func (p *parser) write() (Write, error) {
	var w Write
	var key bool
	err := p.object(func(name []byte) (err error) {
		switch string(name) {
		case "t":
			w.Table, err = p.name(p.string)
		case "k":
			key = true
			w.Key, err = p.key()
		case "prev":
			w.Prev, err = p.uint()
		case "v":
			w.Version, err = p.uint()
		case "del":
			w.Delete, err = p.bool()
		default:
			err = p.skip()
		}
		return err
	})
	return w, needKey(err, key)
}

func (p *parser) scan() (Scan, error) {
	var s Scan
	err := p.object(func(name []byte) (err error) {
		switch string(name) {
		case "t":
			s.Table, err = p.name(p.string)
		case "from":
			s.From, err = p.key()
		case "to":
			s.To, err = p.key()
		case "keys":
			s.Keys, err = p.found.list(&p.lexer, p.keyVersion)
		default:
			err = p.skip()
		}
		return err
	})
	return s, err
}

func (p *parser) keyVersion() (KeyVersion, error) {
	var kv KeyVersion
	var key bool
	err := p.object(func(name []byte) (err error) {
		switch string(name) {
		case "k":
			key = true
			kv.Key, err = p.key()
		case "v":
			kv.Version, err = p.uint()
		default:
			err = p.skip()
		}
		return err
	})
	return kv, needKey(err, key)
}

func needKey(err error, key bool) error {
	if err == nil && !key {
		return errors.New("an entry has no key")
	}
	return err
}

func (p *parser) outcome() (Outcome, error) {
	text, err := p.string()
	if err != nil {
		return 0, err
	}
	for o := Commit; o <= Unknown; o++ {
		if o.String() == string(text) {
			return o, nil
		}
	}
	return 0, fmt.Errorf("%q is none of commit, abort, unknown", text)
}

// name interns what get reads.
func (p *parser) name(get func() ([]byte, error)) (string, error) {
	text, err := get()
	if err != nil {
		return "", err
	}
	s, ok := p.names[string(text)]
	if !ok {
		s = string(text)
		p.names[s] = s
	}
	return s, nil
}

func (p *parser) key() (string, error) {
	text, err := p.string()
	if err != nil {
		return "", err
	}
	k, ok := p.keys[string(text)]
	if !ok {
		raw, err := hex.DecodeString(string(text))
		if err != nil {
			return "", fmt.Errorf("%q is not hex", text)
		}
		k = string(raw)
		p.keys[string(text)] = k
	}
	return k, nil
}

// slab hands out slices cut from large ones: a history is millions of short lists that live as long as it does.
type slab[T any] struct {
	free []T
	buf  []T
}

// slabSize is the number of elements taken from the heap at once.
const slabSize = 4096

func (s *slab[T]) list(l *lexer, elem func() (T, error)) ([]T, error) {
	s.buf = s.buf[:0]
	err := l.array(func() error {
		x, err := elem()
		s.buf = append(s.buf, x)
		return err
	})
	n := len(s.buf)
	if err != nil || n == 0 {
		return nil, err
	}
	if len(s.free) < n {
		s.free = make([]T, max(n, slabSize))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	copy(out, s.buf)
	return out, nil
}
