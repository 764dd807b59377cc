package serial

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// lexer reads one JSON text. It is here since encoding/json takes longer to read a history than Check takes to
// judge it. Each method reads one value; null reads as the zero value.
type lexer struct {
	text []byte
	at   int
}

func (l *lexer) space() {
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case ' ', '\t', '\n', '\r':
			l.at++
		default:
			return
		}
	}
}

// next skips space and returns the byte there, 0 at the end.
func (l *lexer) next() byte {
	l.space()
	if l.at == len(l.text) {
		return 0
	}
	return l.text[l.at]
}

func (l *lexer) fail(want string) error {
	if l.at >= len(l.text) {
		return fmt.Errorf("the line ends where %s should be", want)
	}
	return fmt.Errorf("byte %d: %q where %s should be", l.at+1, l.text[l.at], want)
}

func (l *lexer) word(w string) bool {
	if len(l.text)-l.at >= len(w) && string(l.text[l.at:l.at+len(w)]) == w {
		l.at += len(w)
		return true
	}
	return false
}

// finish makes sure that nothing follows.
func (l *lexer) finish() error {
	if l.next(); l.at < len(l.text) {
		return l.fail("the end")
	}
	return nil
}

// object calls f behind each name, to read the value. The name is valid until f returns.
func (l *lexer) object(f func(name []byte) error) error {
	return l.sequence('{', '}', "an object", func() error {
		if l.next() != '"' {
			return l.fail("a name")
		}
		name, err := l.string()
		if err != nil {
			return err
		}
		if l.next() != ':' {
			return l.fail("a colon")
		}
		l.at++
		return f(name)
	})
}

// array calls f to read each element.
func (l *lexer) array(f func() error) error { return l.sequence('[', ']', "an array", f) }

func (l *lexer) sequence(open, shut byte, what string, f func() error) error {
	switch l.next() {
	case open:
		l.at++
	case 'n':
		if l.word("null") {
			return nil
		}
		fallthrough
	default:
		return l.fail(what)
	}
	if l.next() == shut {
		l.at++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		switch l.next() {
		case ',':
			l.at++
		case shut:
			l.at++
			return nil
		default:
			return l.fail("a comma or the end of " + what)
		}
	}
}

// string returns the text of a string; it is valid as long as the line.
func (l *lexer) string() ([]byte, error) {
	if l.next() != '"' {
		if l.word("null") {
			return nil, nil
		}
		return nil, l.fail("a string")
	}
	start := l.at + 1
	for i := start; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == '"':
			l.at = i + 1
			return l.text[start:i], nil
		case c == '\\' || c < ' ' || c >= 0x80:
			return l.hardString()
		}
	}
	l.at = len(l.text)
	return nil, l.fail("the end of a string")
}

// hardString reads a string with escapes or beyond ASCII.
func (l *lexer) hardString() ([]byte, error) {
	for i := l.at + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case '"':
			var s string
			if err := json.Unmarshal(l.text[l.at:i+1], &s); err != nil {
				return nil, err
			}
			l.at = i + 1
			return []byte(s), nil
		}
	}
	l.at = len(l.text)
	return nil, l.fail("the end of a string")
}

// number returns the text of a number, which may yet be malformed.
func (l *lexer) number(what string) ([]byte, error) {
	l.space()
	start := l.at
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			l.at++
			continue
		}
		break
	}
	if l.at == start {
		return nil, l.fail(what)
	}
	return l.text[start:l.at], nil
}

func (l *lexer) uint() (uint64, error) {
	if l.next() == 'n' && l.word("null") {
		return 0, nil
	}
	text, err := l.number("a number")
	if err != nil {
		return 0, err
	}
	if text[0] == '0' && len(text) > 1 || text[0] == '+' {
		return 0, fmt.Errorf("%s is not a JSON number", text)
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not an unsigned integer of 64 bits", text)
	}
	return n, nil
}

func (l *lexer) int() (int64, error) {
	neg := l.next() == '-'
	if neg {
		l.at++
		if c := l.at; c == len(l.text) || l.text[c] < '0' || l.text[c] > '9' {
			return 0, l.fail("a digit")
		}
	} else if l.next() == 'n' {
		return 0, l.fail("a number")
	}
	n, err := l.uint()
	switch {
	case err != nil:
		return 0, err
	case neg && n <= 1<<63:
		return -int64(n), nil
	case !neg && n < 1<<63:
		return int64(n), nil
	}
	return 0, errors.New("a time is an integer of 64 bits")
}

func (l *lexer) bool() (bool, error) {
	l.space()
	switch {
	case l.word("true"):
		return true, nil
	case l.word("false"), l.word("null"):
		return false, nil
	}
	return false, l.fail("true or false")
}

// scalar returns the text of a string or a number.
func (l *lexer) scalar() ([]byte, error) {
	if c := l.next(); c == '"' || c == 'n' {
		return l.string()
	}
	text, err := l.number("a number or a string")
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not a JSON number", text)
	}
	return text, err
}

// skip passes over a value of any kind.
func (l *lexer) skip() error {
	l.space()
	start, depth := l.at, 0
	for l.at < len(l.text) {
		switch c := l.text[l.at]; c {
		case '"':
			if _, err := l.string(); err != nil {
				return err
			}
			if depth == 0 {
				return l.valid(start)
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return l.valid(start) // of what contains it
			}
			if depth--; depth == 0 {
				l.at++
				return l.valid(start)
			}
		case ',':
			if depth == 0 {
				return l.valid(start)
			}
		}
		l.at++
	}
	return l.valid(start)
}

func (l *lexer) valid(start int) error {
	if !json.Valid(l.text[start:l.at]) {
		l.at = start
		return l.fail("a value")
	}
	return nil
}
